"""Disks of one broker, full and failing: leaders move or wait, followers return, nothing is lost."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import disk_faults
from tests.cluster_faults.harness.disks import why_no_preload
from tests.faults.storage.full_disk import why_no_disk

pytestmark = pytest.mark.timeout(300)


def test_full_disks(play: Play) -> None:
    if reason := why_no_disk():
        pytest.skip(f"fills a disk: {reason}")
    play(disk_faults.fill_disk)


def test_failing_disks(play: Play) -> None:
    if reason := why_no_preload():
        pytest.skip(f"lets calls fail: {reason}")
    play(*disk_faults.FAILING_SHORT)
