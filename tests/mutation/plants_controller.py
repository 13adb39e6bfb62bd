"""Bugs in the decisions of the controller, each with the tests that must notice it."""

from __future__ import annotations

from typing import Final

from tests.mutation.plant import Plant

_MACHINE: Final = "src/odradek/controller/machine"
_ELECTION: Final = "unit/controller/test_leader_election.py"
_STATES: Final = "unit/controller/test_state_machines.py"
_RANDOM: Final = "unit/controller/test_machine_properties.py::test_cluster_comes_to_rest_in_order"
_SCRIPTS: Final = "scripts/controller/test_scripts.py::test_script"
_KAFKA: Final = "golden/cluster/test_replayed_controller.py::test_requests_are_those_of_kafka"

CONTROLLER_PLANTS: list[Plant] = [
    Plant(
        "the last in-sync replica stays in the ISR when it fails",
        f"{_MACHINE}/leader_election.py",
        " if member != replica) or leader_and_isr.isr\n",
        " if member != replica)\n",
        (f"{_ELECTION}::test_last_in_sync_replica_stays", _RANDOM),
    ),
    Plant(
        "a failed leader leads no longer",
        f"{_MACHINE}/leader_election.py",
        "    leader = NO_LEADER if leader_and_isr.leader == replica else leader_and_isr.leader\n",
        "    leader = leader_and_isr.leader\n",
        (f"{_ELECTION}::test_removed_replica_leads_no_longer", _RANDOM),
    ),
    Plant(
        "each change by the controller has a new leader epoch",
        f"{_MACHINE}/leader_election.py",
        "    epoch = before.leader_epoch + 1\n",
        "    epoch = before.leader_epoch\n",
        (f"{_ELECTION}::test_new_leader_epoch_keeps_leader_and_isr", _RANDOM),
    ),
    Plant(
        "dead replicas leave the ISR at an election",
        f"{_MACHINE}/leader_election.py",
        "        return _with(leader_and_isr, leader, live_isr, controller_epoch)\n",
        "        return _with(leader_and_isr, leader, leader_and_isr.isr, controller_epoch)\n",
        (f"{_ELECTION}::test_offline_partition_is_led_by_first_live_isr_member",),
    ),
    Plant(
        "a replica outside the ISR is elected only if the topic allows it",
        f"{_MACHINE}/leader_election.py",
        "if replica in live), None) if is_unclean else None\n",
        "if replica in live), None)\n",
        (f"{_ELECTION}::test_replica_outside_isr_is_not_elected", _RANDOM),
    ),
    Plant(
        "an unclean leader is recovering",
        f"{_MACHINE}/leader_election.py",
        "    return replace(elected, is_recovering=True) if is_recovery_supported else elected\n",
        "    return elected\n",
        (f"{_ELECTION}::test_unclean_election_takes_any_live_replica_and_recovers",),
    ),
    Plant(
        "a broker that shuts down leaves the ISR",
        f"{_MACHINE}/leader_election.py",
        "    isr = tuple(replica for replica in leader_and_isr.isr if replica not in shutting_down)\n",
        "    isr = leader_and_isr.isr\n",
        (f"{_ELECTION}::test_broker_that_shuts_down_leaves_the_isr",),
    ),
    Plant(
        "a partition gets a new leader epoch when a replica outside the ISR fails",
        f"{_MACHINE}/replica_state_machine.py",
        "            return increment_leader_epoch(stored, context.controller_epoch)\n",
        "            return None\n",
        (_RANDOM,),
    ),
    Plant(
        "brokers that failed while there was no controller count as failed",
        f"{_MACHINE}/startup.py",
        "ReplicaState.OFFLINE, failed_in)\n",
        "ReplicaState.OFFLINE)\n",
        (_SCRIPTS,),
    ),
    Plant(
        "a replica that goes offline is stopped",
        f"{_MACHINE}/replica_state_machine.py",
        "        batch.add_stop_replica((broker_id,), partition, is_delete=False)\n",
        "        pass\n",
        (f"{_STATES}::test_stop_replica_has_the_epoch_before_the_removal", _KAFKA),
    ),
    Plant(
        "a topic that is being deleted has no new leader",
        f"{_MACHINE}/partition_state_machine.py",
        "        if not context.is_queued_for_deletion(partition.topic)\n        and (",
        "        if (",
        (_SCRIPTS,),
    ),
    Plant(
        "a state that was written by an earlier attempt is adopted",
        f"{_MACHINE}/partition_state_machine.py",
        "    existing = yield from read_again(context, outcome.conflicts)\n",
        "    existing: list[TopicPartition] = []\n",
        (_SCRIPTS,),
    ),
    Plant(
        "states change only as the table allows",
        f"{_MACHINE}/replica_state_machine.py",
        "    if state in REPLICA_TRANSITIONS[target]:\n",
        "    if True:\n",
        (f"{_STATES}::test_replica_moves_only_as_the_table_allows",),
    ),
    Plant(
        "a conflict is decided anew",
        f"{_MACHINE}/partition_state_updates.py",
        "        remaining = attempt.conflicts\n        if not remaining:\n",
        "        remaining = []\n        if not remaining:\n",
        (f"{_STATES}::test_conflicts_are_read_again_a_bounded_number_of_times",),
    ),
    Plant(
        "a state of a later controller ends this one",
        f"{_MACHINE}/partition_state_updates.py",
        "        elif stored.leader_and_isr.controller_epoch > context.controller_epoch:\n",
        "        elif False:\n",
        (_SCRIPTS,),
    ),
    Plant(
        "brokers learn the live brokers before any LeaderAndIsr",
        f"{_MACHINE}/startup.py",
        "    yield from send_update_metadata(context, context.brokers)\n",
        "",
        (_KAFKA,),
    ),
    Plant(
        "a broker with a new epoch has failed and come back",
        f"{_MACHINE}/broker_changes.py",
        "        if now[broker_id].broker_epoch != before[broker_id].broker_epoch\n",
        "        if False\n",
        (_RANDOM, _SCRIPTS),
    ),
    Plant(
        "a new broker gets the whole metadata",
        f"{_MACHINE}/broker_changes.py",
        "    yield from send_update_metadata(context, broker_ids, led)\n",
        "    yield from send_update_metadata(context, broker_ids)\n",
        (_RANDOM, _SCRIPTS),
    ),
    Plant(
        "a broker that comes back after a controlled shutdown may lead",
        f"{_MACHINE}/broker_changes.py",
        "        context.shutting_down.discard(broker_id)\n",
        "",
        (_RANDOM, _SCRIPTS),
    ),
    Plant(
        "a broker that comes back has its log directories back",
        f"{_MACHINE}/broker_changes.py",
        "        context.offline_replicas.pop(broker_id, None)\n",
        "",
        (_SCRIPTS,),
    ),
    Plant(
        "brokers learn of a dead broker without replicas",
        f"{_MACHINE}/broker_changes.py",
        "    if not is_sent:\n",
        "    if False:\n",
        (_SCRIPTS,),
    ),
    Plant(
        "a replica in a failed log directory is not elected",
        f"{_MACHINE}/context.py",
        "            and partition not in self.offline_replicas.get(broker_id, ())\n",
        "",
        (_KAFKA, _SCRIPTS),
    ),
    Plant(
        "a broker that shuts down is not elected",
        f"{_MACHINE}/context.py",
        "            and (include_shutting_down or broker_id not in self.shutting_down)\n",
        "",
        (_KAFKA, _SCRIPTS),
    ),
    Plant(
        "an earlier registration of a broker does not shut it down",
        f"{_MACHINE}/broker_changes.py",
        "    is_stale = broker_epoch != UNKNOWN_EPOCH and broker_epoch < broker.broker_epoch\n",
        "    is_stale = False\n",
        (_SCRIPTS,),
    ),
    Plant(
        "brokers drop a topic that is being deleted from their metadata",
        f"{_MACHINE}/request_batch.py",
        "leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)\n",
        ")\n",
        (_RANDOM, _KAFKA),
    ),
    Plant(
        "the deletion of a replica overrides its leader epoch",
        f"{_MACHINE}/request_batch.py",
        "            return EPOCH_DURING_DELETE\n",
        "            return NO_LEADER_EPOCH\n",
        (_KAFKA,),
    ),
    Plant(
        "a deletion waits for the end of a reassignment",
        f"{_MACHINE}/topic_deletion.py",
        "    mark_ineligible(context, {topic for topic in new if context.is_reassigning(topic)}, ",
        "    mark_ineligible(context, (), ",
        (_SCRIPTS,),
    ),
    Plant(
        "a deletion that failed waits for its broker",
        f"{_MACHINE}/topic_deletion.py",
        '        mark_ineligible(context, _topics(failed), "replica deletion failure")\n',
        "",
        (_SCRIPTS,),
    ),
    Plant(
        "a deletion is resumed when its broker is back",
        f"{_MACHINE}/topic_deletion.py",
        "    context.deletions.ineligible -= resumed\n",
        "",
        (_RANDOM, _SCRIPTS),
    ),
    Plant(
        "marks of topics that do not exist are removed",
        f"{_MACHINE}/topic_deletion.py",
        "    yield from _remove_marks(context, unknown)\n",
        "",
        (_SCRIPTS,),
    ),
    Plant(
        "no partition is added to a topic that is being deleted",
        f"{_MACHINE}/topic_changes.py",
        "    if context.is_queued_for_deletion(topic):\n",
        "    if False:\n",
        (_SCRIPTS,),
    ),
    Plant(
        "another topic of the same name is not taken for more partitions",
        f"{_MACHINE}/topic_changes.py",
        "    if assignment.topic_id not in (None, known.topic_id):\n",
        "    if False:\n",
        (_SCRIPTS,),
    ),
]
