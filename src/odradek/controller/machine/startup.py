"""Startup of the controller: its context is loaded (Kafka's onControllerFailover)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.controller.actions import Steps
from odradek.controller.events import ContextLoaded
from odradek.controller.machine import topic_deletion
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.leader_election import elect_after_restart
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
from odradek.controller.machine.request_batch import send_update_metadata
from odradek.controller.machine.states import ReplicaState
from odradek.controller.machine.topic_changes import assign_topic_ids
from odradek.model.ids import TopicPartition
from odradek.store.znodes import LeaderIsrAndControllerEpoch
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
    online, offline = initialize_replica_states(context)
    # Their brokers may have failed while there was no controller.
    failed_in = leader_epochs(context, offline)
    yield from _fail_restarted(context, restarted_replicas(context, event.zxids))
    yield from handle_replica_state_changes(context, online, ReplicaState.ONLINE)
    yield from handle_replica_state_changes(context, offline, ReplicaState.OFFLINE, failed_in)
    initialize_partition_states(context)
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


def _fail_restarted(
    context: ControllerContext, restarted: Mapping[TopicPartition, Collection[int]]
) -> Steps[None]:
    """Start new leader epochs, before a restarted broker gets the state of its former life again."""

    def decide(
        partition: TopicPartition, stored: LeaderIsrAndControllerEpoch
    ) -> LeaderIsrAndControllerEpoch | None:
        live = context.online_replicas_of(partition)
        return elect_after_restart(
            stored, context.replicas_of(partition), live, restarted[partition], context.controller_epoch
        )

    if restarted:
        log.info("brokers_restarted", partitions=len(restarted))
    yield from update_partition_states(context, restarted, decide)
