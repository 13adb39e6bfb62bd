"""State changes of partitions (Kafka's PartitionStateMachine).

``ONLINE`` elects a leader: the first one of a new partition, or another one. Its state is written, then the
replicas get LeaderAndIsr and all brokers UpdateMetadata. Other states are only noted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from odradek.controller.actions import (
    NO_VERSION,
    PartitionStateWrite,
    ReadUncleanElection,
    Steps,
    WriteOutcome,
    WritePartitionStates,
)
from odradek.controller.machine import leader_election
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.leader_election import Election
from odradek.controller.machine.partition_state_updates import (
    ATTEMPTS_MAX,
    attempt_update,
    log_failures,
    read_again,
)
from odradek.controller.machine.request_batch import RequestBatch
from odradek.controller.machine.states import PARTITION_TRANSITIONS, PartitionState
from odradek.controller.machine.turns import give_turn
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.telemetry import events

log = events.logger("controller")


class ElectionFailed(NamedTuple):
    """Reason why a partition got no leader."""

    reason: str


ElectionResults = dict[TopicPartition, VersionedLeaderAndIsr | ElectionFailed]


def initialize_partition_states(context: ControllerContext) -> None:
    """Note the states of partitions as the store has them."""
    for partition in context.all_partitions():
        stored = context.partitions.get(partition)
        if stored is None:
            state = PartitionState.NEW
        elif context.is_replica_online(stored.leader_and_isr.leader, partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.set_partition_state(partition, state)


def trigger_online_state_change(
    context: ControllerContext, topics: Collection[str] | None = None
) -> Steps[ElectionResults]:
    """Elect leaders of new and offline partitions, of these topics or of all."""
    partitions = [
        partition
        for partition in context.without_leader
        if not context.is_being_deleted(partition.topic) and (topics is None or partition.topic in topics)
    ]
    return (yield from handle_partition_state_changes(context, partitions, PartitionState.ONLINE))


def handle_partition_state_changes(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    election: Election = Election.OFFLINE,
) -> Steps[ElectionResults]:
    """Move partitions to a state; return the results of elections."""
    valid = [partition for partition in partitions if _check_transition(context, partition, target)]
    yield from give_turn(len(valid))
    if target is not PartitionState.ONLINE:
        for partition in valid:
            context.set_partition_state(partition, target)
        return {}
    batch = RequestBatch(context)
    new = [p for p in valid if context.partition_state(p) is PartitionState.NEW]
    results, existing = yield from _initialize(context, new, batch)
    existing += [
        p for p in valid if context.partition_state(p) is not PartitionState.NEW and p not in results
    ]
    results.update((yield from _elect(context, existing, election, batch)))
    yield from give_turn(len(results))
    yield from batch.send()
    return results


def _check_transition(context: ControllerContext, partition: TopicPartition, target: PartitionState) -> bool:
    state = context.partition_state(partition)
    if state in PARTITION_TRANSITIONS[target]:
        return True
    log.error("partition_state_illegal", partition=partition, state=state.value, target=target.value)
    return False


def _initialize(
    context: ControllerContext, partitions: Iterable[TopicPartition], batch: RequestBatch
) -> Steps[tuple[ElectionResults, list[TopicPartition]]]:
    """Create the first states. Also return the partitions that have a state already and need an election."""
    results: ElectionResults = {}
    writes: dict[TopicPartition, PartitionStateWrite] = {}
    for partition in partitions:
        first = leader_election.elect_first_leader(
            context.replicas_of(partition), context.online_replicas_of(partition), context.controller_epoch
        )
        if first is None:
            results[partition] = _fail(partition, "no replica is online")
        else:
            writes[partition] = PartitionStateWrite(first, NO_VERSION)
    if not writes:
        return results, []
    yield from give_turn(len(writes))
    outcome: WriteOutcome = yield WritePartitionStates(writes)
    context.partitions.update(outcome.written)
    log_failures(outcome)
    yield from give_turn(len(writes))
    # A state that exists was written by an earlier attempt, whose response was lost.
    existing = yield from read_again(context, outcome.conflicts)
    to_elect = []
    for partition in [*outcome.written, *existing]:
        leader_and_isr = context.partitions[partition].leader_and_isr
        if context.is_replica_online(leader_and_isr.leader, partition):
            context.set_partition_state(partition, PartitionState.ONLINE)
            batch.add_leader_and_isr(leader_and_isr.isr, partition, is_new=True)
            results[partition] = context.partitions[partition]
        else:
            context.set_partition_state(partition, PartitionState.OFFLINE)
            to_elect.append(partition)
    return results, to_elect


def _elect(
    context: ControllerContext, partitions: list[TopicPartition], election: Election, batch: RequestBatch
) -> Steps[ElectionResults]:
    """Elect leaders of partitions that have a state, deciding anew after conflicts."""
    results: ElectionResults = {}
    remaining = partitions
    for _ in range(ATTEMPTS_MAX):
        if not remaining:
            break
        unclean = yield from _read_unclean_topics(context, remaining, election)

        def decide(
            partition: TopicPartition, stored: LeaderIsrAndControllerEpoch, unclean: Collection[str] = unclean
        ) -> LeaderIsrAndControllerEpoch | None:
            return _select(context, partition, stored, election, is_unclean=partition.topic in unclean)

        attempt = yield from attempt_update(context, remaining, decide)
        for partition in attempt.written:
            context.set_partition_state(partition, PartitionState.ONLINE)
            batch.add_leader_and_isr(_recipients(context, partition, election), partition)
            results[partition] = context.partitions[partition]
        remaining = attempt.conflicts
    for partition in partitions:
        if partition not in results:
            results[partition] = _fail(partition, f"{election.value} election found no leader")
    return results


def _read_unclean_topics(
    context: ControllerContext, partitions: Iterable[TopicPartition], election: Election
) -> Steps[Collection[str]]:
    """Return the topics that may elect a replica outside the ISR. Those with a live member are not read."""
    if election not in (Election.OFFLINE, Election.UNCLEAN):
        return ()
    topics = {
        partition.topic
        for partition in partitions
        if partition in context.partitions and not _has_online_isr(context, partition)
    }
    if not topics or election is Election.UNCLEAN:
        return topics
    enabled: dict[str, bool] = yield ReadUncleanElection(sorted(topics))
    return {topic for topic, is_enabled in enabled.items() if is_enabled}


def _has_online_isr(context: ControllerContext, partition: TopicPartition) -> bool:
    isr = context.partitions[partition].leader_and_isr.isr
    return any(context.is_replica_online(replica, partition) for replica in isr)


def _select(
    context: ControllerContext,
    partition: TopicPartition,
    stored: LeaderIsrAndControllerEpoch,
    election: Election,
    *,
    is_unclean: bool,
) -> LeaderIsrAndControllerEpoch | None:
    assignment = context.assignment_of(partition)
    replicas, epoch = assignment.replicas, context.controller_epoch
    live = context.online_replicas_of(partition)
    match election:
        case Election.OFFLINE | Election.UNCLEAN:
            return leader_election.elect_offline_leader(
                stored,
                replicas,
                live,
                epoch,
                is_unclean=is_unclean,
                is_recovery_supported=context.settings.metadata_version.is_leader_recovery_supported,
            )
        case Election.PREFERRED:
            return leader_election.elect_preferred_leader(stored, replicas, live, epoch)
        case Election.REASSIGNMENT:
            target = tuple(replica for replica in replicas if replica not in assignment.removing)
            return leader_election.elect_reassignment_leader(stored, target, live, epoch)
        case Election.CONTROLLED_SHUTDOWN:
            return leader_election.elect_shutdown_leader(stored, replicas, live, context.shutting_down, epoch)


def _recipients(context: ControllerContext, partition: TopicPartition, election: Election) -> list[int]:
    """Return the brokers that get LeaderAndIsr after an election, as in Kafka."""
    assignment = context.assignment_of(partition)
    left_out = assignment.removing if election is Election.REASSIGNMENT else ()
    is_shutdown = election is Election.CONTROLLED_SHUTDOWN
    return [
        replica
        for replica in assignment.replicas
        if replica not in left_out
        and context.is_replica_online(replica, partition, include_shutting_down=is_shutdown)
    ]


def _fail(partition: TopicPartition, reason: str) -> ElectionFailed:
    log.debug("partition_without_leader", partition=partition, reason=reason)
    return ElectionFailed(reason)
