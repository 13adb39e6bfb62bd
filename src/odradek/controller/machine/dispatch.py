"""The handler of each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from odradek.controller import events
from odradek.controller.actions import Steps
from odradek.controller.events import ControllerEvent, UncleanElectionEnabled
from odradek.controller.machine import (
    alter_partition,
    broker_changes,
    leader_balance,
    reassignment,
    startup,
    topic_changes,
    topic_deletion,
)
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.partition_state_machine import trigger_online_state_change


def handle(context: ControllerContext, event: ControllerEvent) -> Steps[Any]:
    """Return the steps of an event; they change the context, and return the reply."""
    return _HANDLERS[type(event)](context, event)


def _on_unclean_election_enabled(context: ControllerContext, event: UncleanElectionEnabled) -> Steps[None]:
    yield from trigger_online_state_change(context, event.topics)


_HANDLERS: Final[dict[type[ControllerEvent], Callable[[ControllerContext, Any], Steps[Any]]]] = {
    events.ContextLoaded: startup.on_context_loaded,
    events.BrokersChanged: broker_changes.on_brokers_changed,
    events.ReplicasOffline: broker_changes.on_replicas_offline,
    events.ReplicasOnline: broker_changes.on_replicas_online,
    events.LeaderAndIsrAnswered: broker_changes.on_leader_and_isr_answered,
    events.ControlledShutdownRequested: broker_changes.on_controlled_shutdown_requested,
    events.TopicsChanged: topic_changes.on_topics_changed,
    events.TopicDeletionsRequested: topic_deletion.on_deletions_requested,
    events.StopReplicaAnswered: topic_deletion.on_stop_replica_answered,
    events.LogDirFailuresNotified: broker_changes.on_log_dir_failures_notified,
    events.AlterPartitionRequested: alter_partition.on_alter_partition_requested,
    events.IsrChangesNotified: alter_partition.on_isr_changes_notified,
    events.ReassignmentsRequested: reassignment.on_reassignments_requested,
    events.ReassignmentNodeChanged: reassignment.on_reassignment_node_changed,
    events.ReassignmentsListed: reassignment.on_reassignments_listed,
    events.ElectLeadersRequested: leader_balance.on_elect_leaders_requested,
    events.PreferredElectionNodeChanged: leader_balance.on_preferred_election_node_changed,
    events.LeaderBalanceDue: leader_balance.on_leader_balance_due,
    events.UncleanElectionEnabled: _on_unclean_election_enabled,
}
