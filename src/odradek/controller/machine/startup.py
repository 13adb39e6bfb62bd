"""Startup of the controller: its context is loaded (Kafka's onControllerFailover)."""

from __future__ import annotations

from odradek.controller.actions import Steps
from odradek.controller.events import ContextLoaded
from odradek.controller.machine import topic_deletion
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.partition_state_machine import (
    initialize_partition_states,
    trigger_online_state_change,
)
from odradek.controller.machine.reassignment import initialize_reassignments
from odradek.controller.machine.replica_state_machine import (
    handle_replica_state_changes,
    initialize_replica_states,
    leader_epochs,
)
from odradek.controller.machine.request_batch import send_update_metadata
from odradek.controller.machine.states import ReplicaState
from odradek.controller.machine.topic_changes import assign_topic_ids


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
    yield from handle_replica_state_changes(context, online, ReplicaState.ONLINE)
    # Their brokers may have failed while there was no controller.
    failed_in = leader_epochs(context, offline)
    yield from handle_replica_state_changes(context, offline, ReplicaState.OFFLINE, failed_in)
    initialize_partition_states(context)
    yield from trigger_online_state_change(context)
    yield from initialize_reassignments(context)
    yield from topic_deletion.resume_deletions(context, frozenset(context.deletions.queued))
