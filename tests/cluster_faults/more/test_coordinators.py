"""A large group and many transactions, while members, producers and coordinators die."""

from __future__ import annotations

import pytest
from tests.cluster_faults.conftest import Play
from tests.cluster_faults.harness.group_faults import crash_half
from tests.cluster_faults.harness.ledgers import keep_ledger

pytestmark = pytest.mark.timeout(300)


def test_half_of_a_group_crashes(play: Play) -> None:
    play(crash_half)


def test_ledger_while_brokers_are_killed(play: Play) -> None:
    play(keep_ledger)
