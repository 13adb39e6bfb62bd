"""Brokers killed under load, by their roles and all at once: nothing is lost, doubled or reordered."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import faults

pytestmark = pytest.mark.timeout(300)


def test_brokers_killed_by_role(play: Play) -> None:
    play(*faults.KILLS)


def test_all_brokers_killed_at_once(play: Play) -> None:
    play(faults.kill_all)
