"""Partitions moved under load: to a broker that joined, away from one that leaves, and all of a topic."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_operations.harness import operations

pytestmark = pytest.mark.timeout(300)


def test_cluster_grows_and_shrinks(play: Play) -> None:
    play(operations.grow, operations.shrink)


def test_all_partitions_move_to_other_brokers_and_back(play: Play) -> None:
    play(operations.move_topics)
