"""Deletion of topics (Kafka's TopicDeletionManager).

Brokers drop a queued topic from their metadata caches, then stop and delete its replicas. When all are
deleted, the topic's znodes are removed. A topic is ineligible while a replica is down or a reassignment runs:
live replicas are deleted, and the rest waits until the broker is back or the reassignment has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.controller.actions import RemoveDeletionMarks, RemoveTopic, Steps
from odradek.controller.events import StopReplicaAnswered, TopicDeletionsRequested
from odradek.controller.machine.context import ControllerContext, Replica
from odradek.controller.machine.partition_state_machine import handle_partition_state_changes
from odradek.controller.machine.replica_state_machine import handle_replica_state_changes
from odradek.controller.machine.request_batch import send_update_metadata
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.model.errors import ErrorCode
from odradek.telemetry import events

log = events.logger("controller")


def initialize_deletions(context: ControllerContext) -> Steps[None]:
    """Queue the topics marked for deletion when the controller was elected."""
    deletions = context.deletions
    if not context.settings.is_delete_enabled:
        yield from _remove_marks(context, deletions.queued)
        deletions.queued.clear()
        return
    deletions.ineligible = {
        topic
        for topic in deletions.queued
        if context.is_reassigning(topic)
        or any(not _is_online(context, r) for r in context.replicas_of_topic(topic))
    }


def on_deletions_requested(context: ControllerContext, event: TopicDeletionsRequested) -> Steps[None]:
    """Queue topics, and remove the marks of those that do not exist."""
    unknown = event.topics - context.topics.keys() - context.deletions.queued
    yield from _remove_marks(context, unknown)
    requested = event.topics - unknown
    if not context.settings.is_delete_enabled:
        yield from _remove_marks(context, requested)
        return
    new = requested - context.deletions.queued
    context.deletions.queued |= new
    mark_ineligible(context, {topic for topic in new if context.is_reassigning(topic)}, "reassignment")
    yield from resume_deletions(context, new)


def on_stop_replica_answered(context: ControllerContext, event: StopReplicaAnswered) -> Steps[None]:
    """Note which replicas of queued topics were deleted and which were not."""
    deleted: list[Replica] = []
    failed: list[Replica] = []
    for partition, error in event.errors.items():
        if context.is_queued_for_deletion(partition.topic):
            (failed if error else deleted).append(Replica(partition, event.broker_id))
            if error:
                log.warning(
                    "replica_deletion_failed",
                    partition=partition,
                    broker=event.broker_id,
                    error=ErrorCode(error).name,
                )
    yield from fail_replica_deletion(context, failed)
    if deleted:
        yield from handle_replica_state_changes(
            context, _in_deletion(context, deleted), ReplicaState.DELETION_SUCCESSFUL
        )
        yield from resume_deletions(context, _topics(deleted))


def fail_replica_deletion(context: ControllerContext, replicas: Iterable[Replica]) -> Steps[None]:
    """Halt the deletion of topics whose replicas could not be deleted, or went offline."""
    failed = [replica for replica in replicas if context.is_queued_for_deletion(replica.partition.topic)]
    if failed:
        yield from handle_replica_state_changes(
            context,
            [r for r in failed if context.replica_state(r) is not ReplicaState.DELETION_SUCCESSFUL],
            ReplicaState.DELETION_INELIGIBLE,
        )
        mark_ineligible(context, _topics(failed), "replica deletion failure")
        yield from resume_deletions(context, _topics(failed))


def mark_ineligible(context: ControllerContext, topics: Collection[str], reason: str) -> None:
    """Halt the deletion of queued topics until ``resume_deletions_for``."""
    halted = context.deletions.queued.intersection(topics)
    for topic in sorted(halted - context.deletions.ineligible):
        log.info("topic_deletion_halted", topic=topic, reason=reason)
    context.deletions.ineligible |= halted


def resume_deletions_for(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """Resume deletions that were halted: a broker is back, or a reassignment has ended."""
    resumed = {t for t in context.deletions.queued.intersection(topics) if not context.is_reassigning(t)}
    context.deletions.ineligible -= resumed
    yield from resume_deletions(context, resumed)


def resume_deletions(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """Start, retry or complete the deletion of queued topics."""
    deletions = context.deletions
    to_retry: list[Replica] = []
    eligible: list[str] = []
    for topic in sorted(deletions.queued.intersection(topics)):
        states = {context.replica_state(replica) for replica in context.replicas_of_topic(topic)}
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            yield from _complete(context, topic)
            continue
        if ReplicaState.DELETION_STARTED in states:
            continue
        if ReplicaState.DELETION_INELIGIBLE in states:
            to_retry += context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
        if topic not in deletions.ineligible:
            eligible.append(topic)
    yield from handle_replica_state_changes(context, to_retry, ReplicaState.OFFLINE)
    if eligible:
        yield from _delete(context, eligible)


def _complete(context: ControllerContext, topic: str) -> Steps[None]:
    yield from handle_replica_state_changes(
        context, context.replicas_of_topic(topic), ReplicaState.NON_EXISTENT
    )
    yield RemoveTopic(topic)
    context.remove_topic(topic)
    log.info("topic_deleted", topic=topic)


def _delete(context: ControllerContext, topics: list[str]) -> Steps[None]:
    """Take partitions offline, drop them from metadata caches, stop and delete their live replicas."""
    partitions = {topic: context.partitions_of(topic) for topic in topics}
    new = [p for topic in topics if topic not in context.deletions.started for p in partitions[topic]]
    yield from handle_partition_state_changes(context, new, PartitionState.OFFLINE)
    yield from handle_partition_state_changes(context, new, PartitionState.NON_EXISTENT)
    context.deletions.started.update(topics)
    yield from send_update_metadata(
        context, context.brokers, [partition for of_topic in partitions.values() for partition in of_topic]
    )
    yield from _delete_replicas(context, topics)


def _delete_replicas(context: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    remaining = [
        replica
        for topic in topics
        for replica in context.replicas_of_topic(topic)
        if context.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL
    ]
    online = [replica for replica in remaining if _is_online(context, replica)]
    dead = [replica for replica in remaining if not _is_online(context, replica)]
    yield from handle_replica_state_changes(context, dead, ReplicaState.DELETION_INELIGIBLE)
    yield from handle_replica_state_changes(context, online, ReplicaState.OFFLINE)
    yield from handle_replica_state_changes(context, online, ReplicaState.DELETION_STARTED)
    mark_ineligible(context, _topics(dead), "offline replicas")


def _remove_marks(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    if topics:
        log.warning("deletion_marks_removed", topics=",".join(sorted(topics)))
        yield RemoveDeletionMarks(sorted(topics))


def _in_deletion(context: ControllerContext, replicas: Iterable[Replica]) -> list[Replica]:
    """Return replicas whose deletion has started: a response may come after its broker has failed."""
    return [r for r in replicas if context.replica_state(r) is ReplicaState.DELETION_STARTED]


def _is_online(context: ControllerContext, replica: Replica) -> bool:
    return context.is_replica_online(replica.broker_id, replica.partition)


def _topics(replicas: Iterable[Replica]) -> set[str]:
    return {replica.partition.topic for replica in replicas}
