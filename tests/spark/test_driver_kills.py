"""Drivers that are killed, in short; ``python -m tests.faults.run --only spark`` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults import spark_kills


@pytest.mark.timeout(600)
def test_each_record_is_copied_once_however_often_the_driver_is_killed(tmp_path: Path) -> None:
    tally = spark_kills.play(tmp_path, 2, seed=1912)
    print(tally.report())
    assert tally.faults == 2
    assert tally.violations == []
