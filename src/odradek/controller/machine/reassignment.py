"""Partition reassignment (KIP-455): the replicas of a partition are replaced step by step.

The assignment in the topic's znode holds the reassignment: RS (all replicas, the target first), AR (adding)
and RR (removing). So it survives a failover, and can be cancelled or replaced. In order:

- The new RS, AR and RR are written. Replicas that a replaced reassignment was adding are stopped.
- Until the ISR contains the target: a new leader epoch with the new RS for all replicas, and AR is started.
- Then: RS becomes the target in memory. One write starts a new leader epoch, with a leader in the target and
  without RR in the ISR. RR is deleted. RS is written last, because only the znode knows which replicas are to
  be removed.

An assignment is read before it is written, and written over the version that was read: partitions that were
added to the topic meanwhile stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from odradek.controller.actions import (
    ReadAssignment,
    ReadReassignmentNode,
    RemoveReassignmentNode,
    Steps,
    WriteAssignment,
    WriteReassignmentNode,
)
from odradek.controller.events import ReassignmentNodeChanged, ReassignmentsListed, ReassignmentsRequested
from odradek.controller.machine.context import ControllerContext, Replica
from odradek.controller.machine.leader_election import (
    Election,
    elect_reassignment_leader,
    increment_leader_epoch,
)
from odradek.controller.machine.partition_state_machine import handle_partition_state_changes
from odradek.controller.machine.partition_state_updates import ATTEMPTS_MAX, Decide, update_partition_states
from odradek.controller.machine.replica_state_machine import handle_replica_state_changes
from odradek.controller.machine.request_batch import RequestBatch, send_update_metadata
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.controller.machine.topic_deletion import mark_ineligible, resume_deletions_for
from odradek.controller.replies import ApiError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.port import BadPayload, BadVersion, NoNode, TooLarge
from odradek.store.topics import VersionedTopic
from odradek.telemetry import events

Target = tuple[int, ...]

_REMOVAL = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
"""States of a removed replica. Its deletion is not confirmed: the replica is no longer part of the topic."""

log = events.logger("controller")


# Assignments.


def origin_of(assignment: ReplicaAssignment) -> Target:
    """Return the replicas before the reassignment."""
    return tuple(replica for replica in assignment.replicas if replica not in assignment.adding)


def target_of(assignment: ReplicaAssignment) -> Target:
    """Return the replicas after the reassignment."""
    return tuple(replica for replica in assignment.replicas if replica not in assignment.removing)


def is_in_progress(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding or assignment.removing)


def reassign(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """Return the assignment while the replicas are replaced by the target."""
    origin = origin_of(assignment)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas,
        adding=tuple(replica for replica in replicas if replica not in origin),
        removing=tuple(replica for replica in replicas if replica not in target),
    )


# Events.


def on_reassignments_requested(
    context: ControllerContext, event: ReassignmentsRequested
) -> Steps[dict[TopicPartition, ApiError]]:
    """Start, replace or cancel reassignments. They take precedence over ``/admin/reassign_partitions``."""
    results: dict[TopicPartition, ApiError] = {}
    accepted: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, target in event.targets.items():
        planned = _plan(context, partition, target)
        if isinstance(planned, ApiError):
            results[partition] = planned
        else:
            accepted[partition] = planned
    yield from _remove_from_node(accepted)
    for partition, assignment in accepted.items():
        results[partition] = yield from _proceed(context, partition, assignment)
    return results


def on_reassignment_node_changed(context: ControllerContext, event: ReassignmentNodeChanged) -> Steps[None]:
    """Start the reassignments of ``/admin/reassign_partitions``."""
    yield from _start_from_node(context, event.targets)


def on_reassignments_listed(
    context: ControllerContext, event: ReassignmentsListed
) -> Steps[dict[TopicPartition, ReplicaAssignment]]:
    partitions = context.reassigning if event.partitions is None else event.partitions & context.reassigning
    yield from ()  # nothing to do: a handler is a generator
    return {partition: context.assignment_of(partition) for partition in sorted(partitions)}


def initialize_reassignments(context: ControllerContext) -> Steps[None]:
    """Resume the reassignments of a former controller, and start those that nobody has started yet."""
    targets = yield ReadReassignmentNode()
    started = yield from _start_from_node(context, targets)
    for partition in sorted(context.reassigning - started):
        yield from _proceed(context, partition, context.assignment_of(partition))


def resume_reassignments(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Resume reassignments to brokers that have started."""
    for partition in sorted(context.reassigning):
        assignment = context.assignment_of(partition)
        if any(replica in broker_ids for replica in target_of(assignment)):
            yield from _proceed(context, partition, assignment)


def maybe_complete_reassignment(context: ControllerContext, partition: TopicPartition) -> Steps[None]:
    """Complete the reassignment of a partition whose ISR has changed, if its target is in sync."""
    if partition in context.reassigning:
        assignment = context.assignment_of(partition)
        if _is_complete(context, partition, assignment):
            yield from _proceed(context, partition, assignment)


# Checks.


def _plan(
    context: ControllerContext, partition: TopicPartition, target: Target | None
) -> ReplicaAssignment | ApiError:
    """Return the new assignment of a partition, or the reason why there is none."""
    topic = context.topics.get(partition.topic)
    assignment = None if topic is None else topic.partitions.get(partition.partition)
    if target is None and (assignment is None or not is_in_progress(assignment)):
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if assignment is None or context.is_queued_for_deletion(partition.topic):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    if target is None:
        target = origin_of(assignment)
    elif (error := _check_target(context, assignment, target)) is not None:
        return error
    planned = reassign(assignment, target)
    return _check_in_sync(context, partition, planned) or planned


def _check_target(
    context: ControllerContext, assignment: ReplicaAssignment, target: Target
) -> ApiError | None:
    if not target:
        problem = "replicas must not be empty"
    elif len(set(target)) != len(target):
        problem = f"replicas must be distinct, got {list(target)}"
    elif min(target) < 0:
        problem = f"replicas must be broker ids >= 0, got {list(target)}"
    elif target == target_of(assignment):
        return None  # also if a broker is down: the reassignment goes on when it returns
    elif not (dead := set(reassign(assignment, target).adding) - context.live_brokers):
        return None
    else:
        problem = f"added replicas must be on live brokers {sorted(context.live_brokers)}, got {sorted(dead)}"
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _check_in_sync(
    context: ControllerContext, partition: TopicPartition, planned: ReplicaAssignment
) -> ApiError | None:
    """Refuse to stop all in-sync replicas, which a former reassignment was adding."""
    stored = context.partitions.get(partition)
    if stored is None or any(member in planned.replicas for member in stored.leader_and_isr.isr):
        return None
    isr = list(stored.leader_and_isr.isr)
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"an in-sync replica of {isr} must stay, got {list(planned.replicas)}",
    )


def _is_complete(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    """Return whether the target is in sync, and one of its replicas can lead."""
    if not is_in_progress(assignment):
        return True
    stored = context.partitions.get(partition)
    if stored is None:
        return False
    target = target_of(assignment)
    return set(target) <= set(stored.leader_and_isr.isr) and any(
        context.is_replica_online(replica, partition) for replica in target
    )


# Steps.


def _start_from_node(
    context: ControllerContext, targets: Mapping[TopicPartition, Target]
) -> Steps[set[TopicPartition]]:
    """Start reassignments, and remove rejected ones from the node; return the started partitions."""
    accepted = set()
    for partition, target in targets.items():
        planned = _plan(context, partition, target)
        if isinstance(planned, ApiError):
            log.warning("reassignment_rejected", partition=partition, reason=planned.message)
        elif not (yield from _proceed(context, partition, planned)).code:
            accepted.add(partition)
    if len(accepted) < len(targets):
        yield from _remove_from_node(targets.keys() - accepted)
    return accepted


def _proceed(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> Steps[ApiError]:
    """Take a reassignment as far as the ISR allows. May be called again at any point.

    Return the error of an assignment that cannot be written; nothing has changed then.
    """
    mark_ineligible(context, [partition.topic], "a partition is being reassigned")
    error = yield from _update_assignment(context, partition, assignment)
    if error.code:
        return error
    if _is_complete(context, partition, assignment):
        yield from _complete(context, partition, assignment)
    else:
        yield from _bump_leader_epoch(context, partition)
        for replica in (Replica(partition, broker_id) for broker_id in assignment.adding):
            if context.replica_state(replica) is ReplicaState.NON_EXISTENT:
                yield from handle_replica_state_changes(context, [replica], ReplicaState.NEW)
    return ApiError()


def _update_assignment(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> Steps[ApiError]:
    """Write the new assignment, then stop replicas that only the former one had."""
    former = context.assignment_of(partition)
    if former == assignment:
        return ApiError()
    error = yield from _write_assignment(context, partition, assignment)
    if not error.code:
        context.set_assignment(partition, assignment)
        yield from _remove_replicas(context, partition, set(former.replicas) - set(assignment.replicas))
    return error


def _complete(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> Steps[None]:
    added = [Replica(partition, broker_id) for broker_id in assignment.adding]
    yield from handle_replica_state_changes(context, added, ReplicaState.ONLINE)
    completed = ReplicaAssignment(target_of(assignment))
    context.set_assignment(partition, completed)
    yield from _move_leader(context, partition, completed)
    yield from _remove_replicas(context, partition, assignment.removing)
    yield from _write_assignment(context, partition, completed)
    yield from _remove_from_node({partition}, completed.replicas)
    yield from send_update_metadata(context, context.live_or_shutting_down, [partition])
    log.info("reassignment_completed", partition=partition, replicas=list(completed.replicas))
    yield from resume_deletions_for(context, [partition.topic])


def _move_leader(
    context: ControllerContext, partition: TopicPartition, completed: ReplicaAssignment
) -> Steps[None]:
    """Start a new leader epoch with the target as replicas, in which one of them leads."""
    stored = context.partitions.get(partition)
    leader = None if stored is None else stored.leader_and_isr.leader
    if leader in completed.replicas and context.is_replica_online(leader, partition):
        live, epoch = context.online_replicas_of(partition), context.controller_epoch
        yield from _start_leader_epoch(
            context,
            partition,
            lambda _, state: elect_reassignment_leader(state, completed.replicas, live, epoch),
        )
    else:
        yield from handle_partition_state_changes(
            context, [partition], PartitionState.ONLINE, Election.REASSIGNMENT
        )


def _remove_replicas(
    context: ControllerContext, partition: TopicPartition, broker_ids: Collection[int]
) -> Steps[None]:
    replicas = [Replica(partition, broker_id) for broker_id in sorted(broker_ids)]
    if replicas:
        for state in _REMOVAL:
            yield from handle_replica_state_changes(context, replicas, state)


def _bump_leader_epoch(context: ControllerContext, partition: TopicPartition) -> Steps[None]:
    """Start a new leader epoch with the same leader and ISR."""
    yield from _start_leader_epoch(
        context, partition, lambda _, state: increment_leader_epoch(state, context.controller_epoch)
    )


def _start_leader_epoch(context: ControllerContext, partition: TopicPartition, decide: Decide) -> Steps[None]:
    """Write the next state, and send it to all replicas."""
    written = yield from update_partition_states(context, [partition], decide)
    if partition in written:
        batch = RequestBatch(context)
        batch.add_leader_and_isr(context.replicas_of(partition), partition)
        yield from batch.send()


def _write_assignment(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> Steps[ApiError]:
    """Replace the assignment of one partition in its topic's znode; return the error if that cannot be."""
    topic_id = context.topics[partition.topic].topic_id
    for _ in range(ATTEMPTS_MAX):
        try:
            stored: VersionedTopic | None = yield ReadAssignment(partition.topic)
            if stored is None or stored.assignment.topic_id != topic_id:
                return _refuse_write(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
            partitions = {**stored.assignment.partitions, partition.partition: assignment}
            yield WriteAssignment(partition.topic, TopicAssignment(topic_id, partitions), stored.version)
        except BadVersion:
            continue
        except NoNode:
            return _refuse_write(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
        except (BadPayload, TooLarge) as error:
            return _refuse_write(partition, ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error))
        return ApiError()
    reason = f"the topic was changed {ATTEMPTS_MAX} times meanwhile"
    return _refuse_write(partition, ErrorCode.REASSIGNMENT_IN_PROGRESS, reason)


def _refuse_write(partition: TopicPartition, code: ErrorCode, reason: str) -> ApiError:
    log.error("assignment_not_written", partition=partition, reason=reason)
    return ApiError(code, reason)


def _remove_from_node(partitions: Collection[TopicPartition], replicas: Target | None = None) -> Steps[None]:
    """Remove partitions from ``/admin/reassign_partitions``, or only those with these replicas as target."""
    targets: Mapping[TopicPartition, Target] = yield ReadReassignmentNode()
    remaining = {
        partition: target
        for partition, target in targets.items()
        if partition not in partitions or replicas not in (None, target)
    }
    if targets and not remaining:
        yield RemoveReassignmentNode()
    elif len(remaining) != len(targets):
        yield WriteReassignmentNode(remaining)
