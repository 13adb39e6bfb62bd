"""Records as columns of pyarrow: what making them must not bring along."""

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
from odradek.records.codec import ColumnBuilder, RecordReader

columns = ColumnBuilder()
for topic in ("käfer", "", "orders"):
    RecordReader(HandMadeBatch().build(), topic, 3, 0).take_columns(10, columns)
batch = record_batch(columns.finish())
batch.validate(full=True)
print(batch.column("topic").to_pylist(), "pandas" in sys.modules)
"""


def test_columns_are_made_without_the_import_of_pandas() -> None:
    assert importlib.util.find_spec("pandas"), "nobody would notice"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "['käfer', '', 'orders'] False\n", done.stderr
