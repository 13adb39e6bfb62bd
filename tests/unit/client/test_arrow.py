"""Imports of Arrow record batches."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
import pyarrow
from tests.support.record_batches import HandMadeBatch
from odradek.client.arrow import record_batch
from odradek.records.client.consumer import ColumnBuilder, RecordReader

columns = ColumnBuilder()
for topic in ("käfer", "", "orders"):
    RecordReader(HandMadeBatch().build(), topic, 3, 0).take_columns(10, columns)
batch = record_batch(columns.finish())
batch.validate(full=True)
print(batch.column("topic").to_pylist(), "pandas" in sys.modules)
"""


def test_record_batch_does_not_import_pandas() -> None:
    assert importlib.util.find_spec("pandas"), "the test needs pandas"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "['käfer', '', 'orders'] False\n", done.stderr
