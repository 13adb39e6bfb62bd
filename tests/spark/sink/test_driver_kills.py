"""Killed drivers and brokers, in short; ``python -m tests.faults.run --only spark`` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.spark import kills


@pytest.mark.timeout(900)
def test_each_record_is_copied_once_however_often_driver_and_broker_are_killed(tmp_path: Path) -> None:
    tally = kills.play(tmp_path, ("at_least_once",), 1, seed=1912)
    print(tally.report())
    assert tally.faults == 2
    assert tally.violations == []
    # Killed where it had written what Spark did not know of: this is what the others guard against.
    assert tally.outcomes["at_least_once: records too many"] > 0
