"""Changes of stored partition states: write, read conflicts again, decide anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from odradek.controller.actions import (
    PartitionStateWrite,
    ReadPartitionStates,
    Steps,
    WriteOutcome,
    WritePartitionStates,
)
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.turns import give_turn
from odradek.model.ids import TopicPartition
from odradek.store.controller_election import ControllerMoved
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.telemetry import events

ATTEMPTS_MAX: Final = 10
"""Only a leader's ISR change conflicts, and each conflict needs another one meanwhile."""

Decide = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], LeaderIsrAndControllerEpoch | None]
"""Returns the next state of a partition; None if it stays as it is."""

log = events.logger("controller")


class Attempt(NamedTuple):
    """Partitions whose state was written, and those to decide anew after a conflict."""

    written: list[TopicPartition]
    conflicts: list[TopicPartition]


def update_partition_states(
    context: ControllerContext, partitions: Iterable[TopicPartition], decide: Decide
) -> Steps[set[TopicPartition]]:
    """Change the stored states of partitions; return those that were written."""
    written: set[TopicPartition] = set()
    remaining = list(partitions)
    for _ in range(ATTEMPTS_MAX):
        attempt = yield from attempt_update(context, remaining, decide)
        written.update(attempt.written)
        remaining = attempt.conflicts
        if not remaining:
            return written
    for partition in remaining:
        log.error("partition_state_conflict", partition=partition, attempts=ATTEMPTS_MAX)
    return written


def attempt_update(
    context: ControllerContext, partitions: Iterable[TopicPartition], decide: Decide
) -> Steps[Attempt]:
    """Write the next states once. The states of conflicts are read again, into the context."""
    writes: dict[TopicPartition, PartitionStateWrite] = {}
    for partition in partitions:
        stored = context.partitions.get(partition)
        state = None if stored is None else decide(partition, stored.leader_and_isr)
        if stored is not None and state is not None:
            writes[partition] = PartitionStateWrite(state, stored.version)
    yield from give_turn(len(writes))
    if not writes:
        return Attempt([], [])
    outcome: WriteOutcome = yield WritePartitionStates(writes)
    context.partitions.update(outcome.written)
    log_failures(outcome)
    yield from give_turn(len(writes))
    conflicts = yield from read_again(context, outcome.conflicts)
    return Attempt(list(outcome.written), conflicts)


def read_again(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> Steps[list[TopicPartition]]:
    """Read states into the context; return the partitions that have one.

    Raises ``ControllerMoved`` if a later controller wrote one.
    """
    requested = list(partitions)
    if not requested:
        return []
    states: dict[TopicPartition, VersionedLeaderAndIsr] = yield ReadPartitionStates(requested)
    for partition in requested:
        stored = states.get(partition)
        if stored is None:
            log.error("partition_state_missing", partition=partition)
        elif stored.leader_and_isr.controller_epoch > context.controller_epoch:
            raise ControllerMoved(
                znode_paths.partition_state(partition),
                f"written by controller epoch {stored.leader_and_isr.controller_epoch}",
            )
        else:
            context.partitions[partition] = stored
    return [partition for partition in requested if partition in states]


def log_failures(outcome: WriteOutcome) -> None:
    for partition, error in outcome.failed.items():
        log.error("partition_state_write_failed", partition=partition, reason=str(error))
