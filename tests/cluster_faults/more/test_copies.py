"""Brokers with data of another time, another broker or another cluster."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness import copies

pytestmark = pytest.mark.timeout(300)


def test_directories_of_another_time_broker_and_cluster(play: Play) -> None:
    play(*copies.COPIES_SHORT)
