"""Leader choice."""

from odradek.controller.leader_election import elect_first_leader, elect_offline_leader
from odradek.store.znodes import LeaderIsrAndControllerEpoch


def test_the_first_live_replica_leads_a_new_partition_and_all_live_ones_are_in_sync():
    assert elect_first_leader((3, 1, 2), {1, 2, 3}, 7) == LeaderIsrAndControllerEpoch(3, 0, (3, 1, 2), 7)
    assert elect_first_leader((3, 1, 2), {1, 2}, 7) == LeaderIsrAndControllerEpoch(1, 0, (1, 2), 7)


def test_a_new_partition_without_a_live_replica_has_no_state():
    assert elect_first_leader((3, 1), {2}, 7) is None
    assert elect_first_leader((3, 1), set(), 7) is None


def test_after_its_leader_is_gone_the_first_live_replica_in_sync_leads():
    state = LeaderIsrAndControllerEpoch(1, 4, (1, 2, 3), 5)
    assert elect_offline_leader(state, (1, 3, 2), {2, 3}, 7) == LeaderIsrAndControllerEpoch(3, 5, (2, 3), 7)


def test_a_replica_that_is_not_in_sync_does_not_lead():
    state = LeaderIsrAndControllerEpoch(1, 4, (1, 3), 5)
    assert elect_offline_leader(state, (1, 2, 3), {2, 3}, 7) == LeaderIsrAndControllerEpoch(3, 5, (3,), 7)
    assert elect_offline_leader(state, (1, 2, 3), {2}, 7) is None


def test_a_partition_stays_as_it_is_while_nobody_in_sync_is_alive():
    assert elect_offline_leader(LeaderIsrAndControllerEpoch(1, 4, (1,), 5), (1, 2), {2}, 7) is None
