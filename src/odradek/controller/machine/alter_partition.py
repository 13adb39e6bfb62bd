"""AlterPartition: the controller checks and stores ISR changes of leaders, in Kafka's order of checks.

Brokers below inter-broker protocol 2.7 write the ISR themselves, and notify the controller of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.controller.actions import (
    PartitionStateWrite,
    RemoveIsrNotifications,
    Steps,
    WriteOutcome,
    WritePartitionStates,
)
from odradek.controller.events import AlterPartitionRequested, IsrChange, IsrChangesNotified
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.leader_election import increment_leader_epoch
from odradek.controller.machine.partition_state_updates import (
    log_failures,
    read_again,
    update_partition_states,
)
from odradek.controller.machine.reassignment import maybe_complete_reassignment
from odradek.controller.machine.request_batch import RequestBatch, send_update_metadata
from odradek.controller.replies import AlterPartitionReply
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch
from odradek.store.partition_states import VersionedLeaderAndIsr


def on_alter_partition_requested(
    context: ControllerContext, event: AlterPartitionRequested
) -> Steps[AlterPartitionReply]:
    broker = context.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return AlterPartitionReply(ErrorCode.STALE_BROKER_EPOCH)
    results: dict[TopicPartition, VersionedLeaderAndIsr | ErrorCode] = {}
    writes: dict[TopicPartition, PartitionStateWrite] = {}
    for partition, change in event.changes.items():
        decision = decide(context, partition, event.broker_id, change)
        if isinstance(decision, PartitionStateWrite):
            writes[partition] = decision
        else:
            results[partition] = decision
    if writes:
        results |= yield from _write(context, writes)
    yield from _remove_unassigned(context, event.changes, results)
    yield from send_update_metadata(context, context.live_or_shutting_down, list(event.changes))
    for partition, result in results.items():
        if not isinstance(result, ErrorCode):
            yield from maybe_complete_reassignment(context, partition)
    return AlterPartitionReply(ErrorCode.NONE, results)


def decide(
    context: ControllerContext, partition: TopicPartition, leader: int, change: IsrChange
) -> PartitionStateWrite | VersionedLeaderAndIsr | ErrorCode:
    """Return the write of a change, the stored state if it is already so, or the error."""
    stored = context.partitions.get(partition)
    if stored is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = stored.leader_and_isr
    if change.leader_epoch > current.leader_epoch or change.partition_epoch > stored.version:
        # The leader knows a later state: it comes from a later controller.
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != current.leader:
        return ErrorCode.INVALID_REQUEST
    new = LeaderIsrAndControllerEpoch(
        leader, change.leader_epoch, tuple(change.isr), context.controller_epoch, change.is_recovering
    )
    # A retry of a change that was written has an older partition epoch.
    if (new.leader, new.isr, new.is_recovering) == (current.leader, current.isr, current.is_recovering):
        return stored
    if change.partition_epoch < stored.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    if change.is_recovering and (len(change.isr) > 1 or not current.is_recovering):
        return ErrorCode.INVALID_REQUEST
    if not set(change.isr) <= context.live_brokers or _unassigned(context, partition, change):
        return ErrorCode.INELIGIBLE_REPLICA
    return PartitionStateWrite(new, stored.version)


def _unassigned(context: ControllerContext, partition: TopicPartition, change: IsrChange) -> set[int]:
    """Return the live brokers that a change adds to the ISR, but that have no replica."""
    isr = context.partitions[partition].leader_and_isr.isr
    return context.live_brokers.intersection(change.isr).difference(isr, context.replicas_of(partition))


def _remove_unassigned(
    context: ControllerContext,
    changes: Mapping[TopicPartition, IsrChange],
    results: Mapping[TopicPartition, VersionedLeaderAndIsr | ErrorCode],
) -> Steps[None]:
    """Tell leaders, and brokers without a replica, the assignment that they do not know.

    A controller has cancelled a reassignment and failed before it could send the assignment: the leader still
    has the added replica. It takes another assignment only in a new leader epoch.
    """
    removed = {
        partition: members
        for partition, result in results.items()
        if result is ErrorCode.INELIGIBLE_REPLICA
        and (members := _unassigned(context, partition, changes[partition]))
    }
    if not removed:
        return
    yield from update_partition_states(
        context,
        [partition for partition in removed if not context.is_being_deleted(partition.topic)],
        lambda _, stored: increment_leader_epoch(stored, context.controller_epoch),
    )
    batch = RequestBatch(context)
    for partition, members in removed.items():
        if not context.is_being_deleted(partition.topic):
            batch.add_leader_and_isr(context.replicas_of(partition), partition)
        batch.add_stop_replica(sorted(members), partition, is_delete=True)
    yield from batch.send()


def _write(
    context: ControllerContext, writes: dict[TopicPartition, PartitionStateWrite]
) -> Steps[dict[TopicPartition, VersionedLeaderAndIsr | ErrorCode]]:
    """Write the changes, and read states again that conflict.

    Another broker may have written such a state meanwhile, or this controller itself: a write whose response
    was lost is repeated. The leader must learn that its change is stored, or it waits for a new epoch.
    """
    outcome: WriteOutcome = yield WritePartitionStates(writes)
    context.partitions.update(outcome.written)
    log_failures(outcome)
    yield from read_again(context, outcome.conflicts)
    results: dict[TopicPartition, VersionedLeaderAndIsr | ErrorCode] = {**outcome.written}
    for partition in outcome.conflicts:
        stored = context.partitions.get(partition)
        is_own = stored is not None and stored.leader_and_isr == writes[partition].leader_and_isr
        results[partition] = stored if stored is not None and is_own else ErrorCode.INVALID_UPDATE_VERSION
    return results | dict.fromkeys(outcome.failed, ErrorCode.UNKNOWN_SERVER_ERROR)


def on_isr_changes_notified(context: ControllerContext, event: IsrChangesNotified) -> Steps[None]:
    """Read states that brokers have written themselves, and send them to all brokers."""
    known = [partition for partition in sorted(event.partitions) if partition in context.partitions]
    if known:
        yield from read_again(context, known)
        yield from send_update_metadata(context, context.live_or_shutting_down, known)
        for partition in known:
            yield from maybe_complete_reassignment(context, partition)
    yield RemoveIsrNotifications(event.sequence_numbers)
