"""Startup of the controller: its context is loaded (Kafka's onControllerFailover)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.controller.actions import Steps
from odradek.controller.events import ContextLoaded
from odradek.controller.machine import topic_deletion
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.leader_election import elect_after_restart, remove_leader
from odradek.controller.machine.partition_state_machine import (
    initialize_partition_states,
    trigger_online_state_change,
)
from odradek.controller.machine.partition_state_updates import update_partition_states
from odradek.controller.machine.reassignment import initialize_reassignments
from odradek.controller.machine.replica_state_machine import (
    handle_replica_state_changes,
    initialize_replica_states,
    leader_epochs,
)
from odradek.controller.machine.request_batch import RequestBatch, send_update_metadata
from odradek.controller.machine.states import ReplicaState
from odradek.controller.machine.topic_changes import assign_topic_ids
from odradek.controller.machine.turns import give_turn
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch
from odradek.telemetry import events

log = events.logger("controller")


def on_context_loaded(context: ControllerContext, event: ContextLoaded) -> Steps[None]:
    """Send all brokers the state, elect missing leaders, resume reassignments and deletions.

    Brokers learn the live brokers first: followers refuse a leader that they do not know.
    """
    without_id = {t: assignment for t, assignment in context.topics.items() if assignment.topic_id is None}
    for topic, assignment in (yield from assign_topic_ids(context, without_id)).items():
        context.set_topic(topic, assignment)
    yield from topic_deletion.initialize_deletions(context)
    yield from send_update_metadata(context, context.brokers)
    many = len(context.partitions)
    yield from give_turn(many)
    online, offline = initialize_replica_states(context)
    yield from give_turn(many)
    # Their brokers may have failed while there was no controller.
    failed_in = leader_epochs(context, offline)
    removed = removed_isr_members(context)
    yield from give_turn(many)
    restarted = restarted_replicas(context, event.zxids)
    yield from give_turn(many)
    yield from _fail_replicas(context, removed, restarted)
    yield from handle_replica_state_changes(context, online, ReplicaState.ONLINE)
    yield from _delete_replicas(context, removed)
    yield from handle_replica_state_changes(context, offline, ReplicaState.OFFLINE, failed_in)
    yield from give_turn(many)
    initialize_partition_states(context)
    yield from give_turn(many)
    yield from trigger_online_state_change(context)
    yield from initialize_reassignments(context)
    yield from topic_deletion.resume_deletions(context, frozenset(context.deletions.queued))


def restarted_replicas(
    context: ControllerContext, zxids: Mapping[TopicPartition, int]
) -> dict[TopicPartition, set[int]]:
    """Return the brokers that have registered since a partition's state was written, by partition.

    The controller that wrote it, or none, may have known only their former lives. In a cluster of one broker
    there is nobody whose log could differ from its own.
    """
    restarted: dict[TopicPartition, set[int]] = {}
    replicas = context.replicas_of_partitions(zxids)
    if len({replica.broker_id for replica in replicas} | context.brokers.keys()) == 1:
        return restarted
    for partition, broker_id in replicas:
        broker = context.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch > zxids[partition]:
            restarted.setdefault(partition, set()).add(broker_id)
    return restarted


def removed_isr_members(context: ControllerContext) -> dict[TopicPartition, list[int]]:
    """Return ISR members that are no replicas, by partition.

    A cancelled reassignment writes the assignment first: its controller has failed before the next write.
    """
    removed: dict[TopicPartition, list[int]] = {}
    for partition, stored in context.partitions.items():
        replicas = context.replicas_of(partition)
        members = [member for member in stored.leader_and_isr.isr if member not in replicas]
        if members:
            removed[partition] = members
    return removed


def _fail_replicas(
    context: ControllerContext,
    removed: Mapping[TopicPartition, Collection[int]],
    restarted: Mapping[TopicPartition, Collection[int]],
) -> Steps[None]:
    """Start new leader epochs, before a restarted broker gets the state of its former life again.

    Topics that are being deleted get no leader: its log may have been deleted by the former controller.
    """

    def decide(
        partition: TopicPartition, stored: LeaderIsrAndControllerEpoch
    ) -> LeaderIsrAndControllerEpoch | None:
        if context.is_being_deleted(partition.topic):
            return remove_leader(stored, context.controller_epoch)
        return elect_after_restart(
            stored,
            context.replicas_of(partition),
            context.online_replicas_of(partition),
            restarted.get(partition, ()),
            context.controller_epoch,
        )

    partitions = dict.fromkeys((*restarted, *removed))
    if partitions:
        log.info("replicas_failed_without_controller", partitions=len(partitions))
    yield from update_partition_states(context, partitions, decide)


def _delete_replicas(
    context: ControllerContext, removed: Mapping[TopicPartition, Collection[int]]
) -> Steps[None]:
    """Delete removed replicas that have left the ISR: others have all their committed records.

    In topics that are being deleted none has to be kept, and nothing else would delete them.
    """
    batch = RequestBatch(context)
    for partition, broker_ids in removed.items():
        is_deleted = context.is_being_deleted(partition.topic)
        isr = () if is_deleted else context.partitions[partition].leader_and_isr.isr
        left = [broker_id for broker_id in broker_ids if broker_id not in isr]
        batch.add_stop_replica(left, partition, is_delete=True)
    yield from batch.send()
