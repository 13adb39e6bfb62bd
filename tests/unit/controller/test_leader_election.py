"""Leader elections and changes of the ISR."""

from odradek.controller.machine.leader_election import (
    elect_after_restart,
    elect_first_leader,
    elect_offline_leader,
    elect_preferred_leader,
    elect_reassignment_leader,
    elect_shutdown_leader,
    increment_leader_epoch,
    remove_from_isr,
)
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch as State


def test_new_partition_is_led_by_first_live_replica():
    assert elect_first_leader((3, 1, 2), {1, 2, 3}, 7) == State(3, 0, (3, 1, 2), 7)
    assert elect_first_leader((3, 1, 2), {1, 2}, 7) == State(1, 0, (1, 2), 7)


def test_new_partition_without_live_replica_stays_new():
    assert elect_first_leader((3, 1), {2}, 7) is None
    assert elect_first_leader((3, 1), set(), 7) is None


def test_offline_partition_is_led_by_first_live_isr_member():
    assert elect_offline_leader(State(1, 4, (1, 2, 3), 5), (1, 3, 2), {2, 3}, 7) == State(3, 5, (2, 3), 7)


def test_replica_outside_isr_is_not_elected():
    stored = State(1, 4, (1, 3), 5)
    assert elect_offline_leader(stored, (1, 2, 3), {2, 3}, 7) == State(3, 5, (3,), 7)
    assert elect_offline_leader(stored, (1, 2, 3), {2}, 7) is None


def test_unclean_election_takes_any_live_replica_and_recovers():
    stored = State(1, 4, (1,), 5)
    assert elect_offline_leader(stored, (1, 3, 2), {2, 3}, 7, is_unclean=True) == State(3, 5, (3,), 7, True)
    assert elect_offline_leader(stored, (1, 3), {2}, 7, is_unclean=True) is None


def test_unclean_election_before_3_2_has_no_recovery_state():
    elected = elect_offline_leader(
        State(1, 4, (1,), 5), (1, 2), {2}, 7, is_unclean=True, is_recovery_supported=False
    )
    assert elected == State(2, 5, (2,), 7)


def test_clean_election_is_preferred_to_an_unclean_one():
    assert elect_offline_leader(State(1, 4, (1, 2), 5), (3, 1, 2), {2, 3}, 7, is_unclean=True) == State(
        2, 5, (2,), 7
    )


def test_recovering_partition_recovers_under_the_next_leader_too():
    assert elect_offline_leader(State(1, 4, (1, 2), 5, True), (1, 2), {2}, 7) == State(2, 5, (2,), 7, True)


def test_preferred_leader_is_the_first_replica_in_sync():
    stored = State(2, 4, (2, 1), 5)
    assert elect_preferred_leader(stored, (1, 2), {1, 2}, 7) == State(1, 5, (2, 1), 7)
    assert elect_preferred_leader(stored, (1, 2), {2}, 7) is None
    assert elect_preferred_leader(State(2, 4, (2,), 5), (1, 2), {1, 2}, 7) is None


def test_reassigned_leader_is_the_first_target_in_sync():
    stored = State(1, 4, (1, 2, 4), 5)
    assert elect_reassignment_leader(stored, (3, 4, 2), {1, 2, 3, 4}, 7) == State(4, 5, (2, 4), 7)
    assert elect_reassignment_leader(stored, (3, 4), {1, 2, 3}, 7) is None


def test_leader_in_the_target_leads_on():
    stored = State(4, 4, (1, 2, 4), 5)
    assert elect_reassignment_leader(stored, (2, 4), {1, 2, 4}, 7) == State(4, 5, (2, 4), 7)


def test_restarted_broker_leaves_the_isr():
    stored = State(1, 4, (1, 2, 3), 5)
    assert elect_after_restart(stored, (1, 3, 2), {1, 2, 3}, {1}, 7) == State(3, 5, (2, 3), 7)
    assert elect_after_restart(stored, (1, 3, 2), {1, 2, 3}, {2}, 7) == State(1, 5, (1, 3), 7)
    assert elect_after_restart(stored, (1, 3, 2), {1, 2}, {1}, 7) == State(2, 5, (2,), 7)
    assert elect_after_restart(State(1, 4, (1,), 5), (1, 2), {1, 2}, {2}, 7) == State(1, 5, (1,), 7)


def test_restarted_broker_leads_on_if_no_other_is_in_sync():
    assert elect_after_restart(State(1, 4, (1, 3), 5), (1, 2, 3), {1, 2}, {1}, 7) == State(1, 5, (1, 3), 7)
    assert elect_after_restart(State(3, 4, (1, 3), 5), (1, 2, 3), {1, 2}, {1}, 7) is None


def test_broker_that_shuts_down_leaves_the_isr():
    stored = State(1, 4, (1, 2, 3), 5)
    assert elect_shutdown_leader(stored, (1, 2, 3), {2, 3}, {1}, 7) == State(2, 5, (2, 3), 7)
    assert elect_shutdown_leader(stored, (1, 2, 3), {3}, {1, 2}, 7) == State(3, 5, (3,), 7)
    assert elect_shutdown_leader(State(1, 4, (1,), 5), (1, 2), {2}, {1}, 7) is None


def test_removed_replica_leads_no_longer():
    assert remove_from_isr(State(1, 4, (1, 2), 5), 1, 7) == State(-1, 5, (2,), 7)
    assert remove_from_isr(State(1, 4, (1, 2), 5), 2, 7) == State(1, 5, (1,), 7)


def test_last_in_sync_replica_stays():
    assert remove_from_isr(State(1, 4, (1,), 5), 1, 7) == State(-1, 5, (1,), 7)


def test_new_leader_epoch_keeps_leader_and_isr():
    assert increment_leader_epoch(State(1, 4, (1, 2), 5, True), 7) == State(1, 5, (1, 2), 7, True)
