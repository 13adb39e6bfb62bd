"""Changes of topics: creation, more partitions, topic ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.controller.actions import AssignTopicIds, Steps, WriteAssignment
from odradek.controller.events import TopicsChanged
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.partition_state_machine import handle_partition_state_changes
from odradek.controller.machine.replica_state_machine import handle_replica_state_changes
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import TopicAssignment
from odradek.telemetry import events

log = events.logger("controller")


def on_topics_changed(context: ControllerContext, event: TopicsChanged) -> Steps[None]:
    """Create the partitions of new topics, and new partitions of known ones."""
    if event.is_complete:
        for topic in [topic for topic in context.topics if topic not in event.topics]:
            context.remove_topic(topic)
    added: list[TopicPartition] = []
    new_topics = {topic: event.topics[topic] for topic in event.topics if topic not in context.topics}
    for topic, assignment in (yield from assign_topic_ids(context, new_topics)).items():
        context.set_topic(topic, assignment)
        added += context.partitions_of(topic)
    for topic, assignment in event.topics.items():
        if topic not in new_topics:
            added += yield from _grow(context, topic, assignment)
    yield from _create_partitions(context, added)


def assign_topic_ids(
    context: ControllerContext, topics: Mapping[str, TopicAssignment]
) -> Steps[Mapping[str, TopicAssignment]]:
    """Give an id to topics without one: those were created before Kafka 2.8, or by an old tool."""
    without = {topic: assignment for topic, assignment in topics.items() if assignment.topic_id is None}
    if not without or not context.settings.metadata_version.is_topic_id_supported:
        return topics
    assigned: dict[str, TopicAssignment] = yield AssignTopicIds(without)
    return {**topics, **assigned}


def _grow(context: ControllerContext, topic: str, assignment: TopicAssignment) -> Steps[list[TopicPartition]]:
    """Add the partitions that a topic has not had; return them."""
    known = context.topics[topic]
    added = {n: p for n, p in assignment.partitions.items() if n not in known.partitions}
    if not added:
        return []
    if assignment.topic_id not in (None, known.topic_id):
        # Deleted and recreated meanwhile: the deletion of the old topic is still to be processed.
        return []
    if context.is_queued_for_deletion(topic):
        log.warning("partitions_not_added", topic=topic, reason="the topic is being deleted")
        yield WriteAssignment(topic, known)
        return []
    context.set_topic(topic, TopicAssignment(known.topic_id, {**known.partitions, **added}))
    return [TopicPartition(topic, number) for number in sorted(added)]


def _create_partitions(context: ControllerContext, partitions: Iterable[TopicPartition]) -> Steps[None]:
    new = list(partitions)
    if not new:
        return
    replicas = context.replicas_of_partitions(new)
    yield from handle_partition_state_changes(context, new, PartitionState.NEW)
    yield from handle_replica_state_changes(context, replicas, ReplicaState.NEW)
    yield from handle_partition_state_changes(context, new, PartitionState.ONLINE)
    yield from handle_replica_state_changes(context, replicas, ReplicaState.ONLINE)
