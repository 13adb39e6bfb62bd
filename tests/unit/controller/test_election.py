"""Leader choice."""

from odradek.controller.election import first_state, state_after_offline
from odradek.store.payloads import PartitionState


def test_the_first_live_replica_leads_a_new_partition_and_all_live_ones_are_in_sync():
    assert first_state((3, 1, 2), {1, 2, 3}, 7) == PartitionState(3, 0, (3, 1, 2), 7)
    assert first_state((3, 1, 2), {1, 2}, 7) == PartitionState(1, 0, (1, 2), 7)


def test_a_new_partition_without_a_live_replica_has_no_state():
    assert first_state((3, 1), {2}, 7) is None
    assert first_state((3, 1), set(), 7) is None


def test_after_its_leader_is_gone_the_first_live_replica_in_sync_leads():
    state = PartitionState(1, 4, (1, 2, 3), 5)
    assert state_after_offline(state, (1, 3, 2), {2, 3}, 7) == PartitionState(3, 5, (2, 3), 7)


def test_a_replica_that_is_not_in_sync_does_not_lead():
    state = PartitionState(1, 4, (1, 3), 5)
    assert state_after_offline(state, (1, 2, 3), {2, 3}, 7) == PartitionState(3, 5, (3,), 7)
    assert state_after_offline(state, (1, 2, 3), {2}, 7) is None


def test_a_partition_stays_as_it_is_while_nobody_in_sync_is_alive():
    assert state_after_offline(PartitionState(1, 4, (1,), 5), (1, 2), {2}, 7) is None
