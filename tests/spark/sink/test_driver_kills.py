"""Kills of drivers and brokers, a short form of ``python -m tests.faults.run --only spark``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.spark import kills


@pytest.mark.timeout(900)
def test_each_record_is_copied_once_despite_driver_and_broker_kills(tmp_path: Path) -> None:
    report = kills.play(tmp_path, ("at_least_once",), 1, seed=1912)
    print(report.text())
    assert report.faults == 2
    assert report.violations == []
    # At least once duplicates records written before a kill, which the other guarantees prevent.
    assert report.outcomes["at_least_once: records too many"] > 0
