"""States of reassignments and of moves between log directories, and their progress in one line. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.cli.reassign.assignment_json import Replicas
from odradek.model.ids import TopicPartition


class State(enum.StrEnum):
    """States of a partition or a replica, compared to its target."""

    COMPLETED = "completed"
    IN_PROGRESS = "in progress"
    DIFFERS = "differs"


class PartitionState(NamedTuple):
    """State of a partition; ``replicas`` is None if it does not exist."""

    partition: TopicPartition
    state: State
    replicas: Replicas | None
    target: Replicas


class ReplicaLogDirs(NamedTuple):
    """The log directory of a replica, and the one that it is being moved to; None if there is none."""

    current: str | None = None
    future: str | None = None


class LogDirState(NamedTuple):
    """State of a replica that has a target log directory."""

    partition: TopicPartition
    broker: int
    state: State
    log_dirs: ReplicaLogDirs
    target: str


def partition_states(
    targets: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
    reassigning: Collection[TopicPartition],
) -> list[PartitionState]:
    """Return the state of each partition, in order.

    The order of replicas counts: the first one is the preferred leader.
    """
    states = []
    for partition, target in sorted(targets.items()):
        replicas = current.get(partition)
        state = State.COMPLETED if replicas == target else State.DIFFERS
        if partition in reassigning:
            state = State.IN_PROGRESS
        states.append(PartitionState(partition, state, replicas, target))
    return states


def log_dir_states(
    targets: Mapping[TopicPartition, Mapping[int, str]],
    log_dirs: Mapping[tuple[TopicPartition, int], ReplicaLogDirs],
) -> list[LogDirState]:
    """Return the state of each replica that has a target log directory, in order."""
    states = []
    for partition, directories in sorted(targets.items()):
        for broker, target in sorted(directories.items()):
            actual = log_dirs.get((partition, broker), ReplicaLogDirs())
            if actual.future is not None:
                state = State.IN_PROGRESS if actual.future == target else State.DIFFERS
            else:
                state = State.COMPLETED if actual.current == target else State.DIFFERS
            states.append(LogDirState(partition, broker, state, actual, target))
    return states


def is_any(state: State, states: Iterable[PartitionState | LogDirState]) -> bool:
    return any(entry.state is state for entry in states)


def progress_line(
    partitions: Sequence[PartitionState],
    log_dirs: Sequence[LogDirState],
    replicas_to_add: int,
    lag_records: int | None,
) -> str:
    """Return the progress of a reassignment in one line."""
    done = sum(entry.state is State.COMPLETED for entry in partitions)
    parts = [f"{done} of {len(partitions)} partitions done"]
    if replicas_to_add:
        parts.append(counted(replicas_to_add, "replica") + " to add")
        parts.append("lag unknown" if lag_records is None else counted(lag_records, "record") + " behind")
    if moving := sum(entry.state is not State.COMPLETED for entry in log_dirs):
        parts.append(counted(moving, "replica") + " to move to another log directory")
    return ", ".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 partition, 2 partitions."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
