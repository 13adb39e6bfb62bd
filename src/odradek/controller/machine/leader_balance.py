"""Leader elections on request: by ElectLeaders, by ``/admin/preferred_replica_election`` and by timer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.controller.actions import RemovePreferredElectionNode, Steps
from odradek.controller.events import ElectLeadersRequested, LeaderBalanceDue, PreferredElectionNodeChanged
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.leader_election import Election
from odradek.controller.machine.partition_state_machine import (
    ElectionFailed,
    handle_partition_state_changes,
)
from odradek.controller.machine.states import PartitionState
from odradek.controller.replies import ApiError
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.telemetry import events

log = events.logger("controller")

Outcomes = Mapping[TopicPartition, VersionedLeaderAndIsr | ElectionFailed]


def on_elect_leaders_requested(
    context: ControllerContext, event: ElectLeadersRequested
) -> Steps[dict[TopicPartition, ApiError]]:
    """Elect leaders; an unclean election accepts a live replica outside the ISR."""
    partitions = context.all_partitions() if event.partitions is None else sorted(event.partitions)
    results: dict[TopicPartition, ApiError] = {}
    electable = []
    for partition in partitions:
        problem = _check_partition(context, partition)
        if problem is not None:
            results[partition] = problem
        elif not _needs_election(context, partition, is_unclean=event.is_unclean):
            results[partition] = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            electable.append(partition)
    election = Election.UNCLEAN if event.is_unclean else Election.PREFERRED
    outcomes: Outcomes = yield from handle_partition_state_changes(
        context, electable, PartitionState.ONLINE, election
    )
    error = (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if event.is_unclean
        else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )
    for partition in electable:
        outcome = outcomes.get(partition)
        failed = outcome is None or isinstance(outcome, ElectionFailed)
        message = outcome.reason if isinstance(outcome, ElectionFailed) else None
        results[partition] = ApiError(error, message) if failed else ApiError()
    return results


def on_preferred_election_node_changed(
    context: ControllerContext, event: PreferredElectionNodeChanged
) -> Steps[None]:
    """Elect the preferred leaders that an operator has written to the store; then remove the node."""
    partitions = [
        partition
        for partition in sorted(event.partitions)
        if _check_partition(context, partition) is None
        and _needs_election(context, partition, is_unclean=False)
    ]
    yield from _elect_preferred(context, partitions)
    yield RemovePreferredElectionNode()


def on_leader_balance_due(context: ControllerContext, event: LeaderBalanceDue) -> Steps[None]:
    """Move leaders back to their preferred replicas, for brokers whose imbalance is above the limit.

    Nothing moves while partitions are being reassigned.
    """
    if context.reassigning:
        return
    preferred: dict[int, list[TopicPartition]] = {}
    for partition in context.all_partitions():
        if not context.is_queued_for_deletion(partition.topic):
            preferred.setdefault(context.replicas_of(partition)[0], []).append(partition)
    for broker_id, partitions in sorted(preferred.items()):
        moved = [p for p in partitions if _is_led_elsewhere(context, p, broker_id)]
        if len(moved) * 100 > len(partitions) * context.settings.leader_imbalance_percentage_max:
            ready = [p for p in moved if _can_preferred_lead(context, p)]
            if ready:
                log.info("leaders_rebalanced", broker=broker_id, partitions=len(ready))
            yield from _elect_preferred(context, ready)


def _elect_preferred(context: ControllerContext, partitions: Collection[TopicPartition]) -> Steps[None]:
    outcomes: Outcomes = yield from handle_partition_state_changes(
        context, partitions, PartitionState.ONLINE, Election.PREFERRED
    )
    for partition, outcome in outcomes.items():
        if isinstance(outcome, ElectionFailed):
            log.warning("preferred_election_failed", partition=partition, reason=outcome.reason)


def _check_partition(context: ControllerContext, partition: TopicPartition) -> ApiError | None:
    topic = context.topics.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    if context.is_queued_for_deletion(partition.topic):
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is being deleted")
    return None


def _leader(context: ControllerContext, partition: TopicPartition) -> int:
    stored = context.partitions.get(partition)
    return NO_LEADER if stored is None else stored.leader_and_isr.leader


def _needs_election(context: ControllerContext, partition: TopicPartition, *, is_unclean: bool) -> bool:
    leader = _leader(context, partition)
    if is_unclean:
        return leader not in context.live_brokers
    return leader != context.replicas_of(partition)[0]


def _is_led_elsewhere(context: ControllerContext, partition: TopicPartition, broker_id: int) -> bool:
    return partition in context.partitions and _leader(context, partition) != broker_id


def _can_preferred_lead(context: ControllerContext, partition: TopicPartition) -> bool:
    preferred = context.replicas_of(partition)[0]
    isr = context.partitions[partition].leader_and_isr.isr
    return preferred in isr and context.is_replica_online(preferred, partition)
