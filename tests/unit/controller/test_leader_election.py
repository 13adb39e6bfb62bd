"""Leader election."""

from odradek.controller.leader_election import elect_first_leader, elect_offline_leader
from odradek.store.znodes import LeaderIsrAndControllerEpoch


def test_new_partition_is_led_by_first_live_replica():
    assert elect_first_leader((3, 1, 2), {1, 2, 3}, 7) == LeaderIsrAndControllerEpoch(3, 0, (3, 1, 2), 7)
    assert elect_first_leader((3, 1, 2), {1, 2}, 7) == LeaderIsrAndControllerEpoch(1, 0, (1, 2), 7)


def test_new_partition_without_live_replica_stays_new():
    assert elect_first_leader((3, 1), {2}, 7) is None
    assert elect_first_leader((3, 1), set(), 7) is None


def test_offline_partition_is_led_by_first_live_isr_member():
    leader_and_isr = LeaderIsrAndControllerEpoch(1, 4, (1, 2, 3), 5)
    assert elect_offline_leader(leader_and_isr, (1, 3, 2), {2, 3}, 7) == LeaderIsrAndControllerEpoch(
        3, 5, (2, 3), 7
    )


def test_replica_outside_isr_is_not_elected():
    leader_and_isr = LeaderIsrAndControllerEpoch(1, 4, (1, 3), 5)
    assert elect_offline_leader(leader_and_isr, (1, 2, 3), {2, 3}, 7) == LeaderIsrAndControllerEpoch(
        3, 5, (3,), 7
    )
    assert elect_offline_leader(leader_and_isr, (1, 2, 3), {2}, 7) is None


def test_partition_without_live_isr_member_stays_offline():
    assert elect_offline_leader(LeaderIsrAndControllerEpoch(1, 4, (1,), 5), (1, 2), {2}, 7) is None
