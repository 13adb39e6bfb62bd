"""Compaction, retention and new segments while brokers are killed, and clocks that are stepped."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import clock_faults
from tests.cluster_faults.harness.cleaning_faults import clean_under_kills
from tests.cluster_faults.harness.disks import why_no_preload

pytestmark = pytest.mark.timeout(300)


def test_compaction_and_retention_while_brokers_are_killed(play: Play) -> None:
    play(clean_under_kills)


def test_stepped_clocks(play: Play) -> None:
    if reason := why_no_preload():
        pytest.skip(f"steps a clock: {reason}")
    play(clock_faults.step_clock)
