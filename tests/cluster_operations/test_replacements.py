"""Dead brokers and disks replaced by empty ones under load: replicas are copied again, nothing is lost."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_operations.harness import operations

pytestmark = pytest.mark.timeout(300)


def test_dead_brokers_are_replaced_by_empty_ones(play: Play) -> None:
    play(operations.replace_brokers)


def test_disks_are_replaced_by_empty_ones(play: Play) -> None:
    play(operations.replace_disks)
