"""States of reassignments and of moves between log directories."""

from __future__ import annotations

from odradek.cli.reassign.rows import state_rows
from odradek.cli.reassign.states import (
    LogDirState,
    PartitionState,
    ReplicaLogDirs,
    State,
    log_dir_states,
    partition_states,
    progress_line,
)
from odradek.model.ids import TopicPartition

A0, A1, A2, A3 = (TopicPartition("a", number) for number in range(4))


def test_states_of_partitions() -> None:
    targets = {A3: (1,), A2: (2, 1), A1: (2,), A0: (1, 2)}
    current = {A0: (1, 2), A1: (2, 1), A2: (1, 2)}
    assert partition_states(targets, current, {A1}) == [
        PartitionState(A0, State.COMPLETED, (1, 2), (1, 2)),
        PartitionState(A1, State.IN_PROGRESS, (2, 1), (2,)),
        PartitionState(A2, State.DIFFERS, (1, 2), (2, 1)),
        PartitionState(A3, State.DIFFERS, None, (1,)),
    ]


def test_partition_with_its_target_replicas_may_still_be_moving() -> None:
    # Brokers show all replicas while some are removed.
    (state,) = partition_states({A0: (1,)}, {A0: (1,)}, {A0})
    assert state.state is State.IN_PROGRESS


def test_states_of_log_directories() -> None:
    targets = {A0: {1: "/b", 2: "/b"}, A1: {1: "/b", 2: "/b", 3: "/b"}}
    log_dirs = {
        (A0, 1): ReplicaLogDirs("/b"),
        (A0, 2): ReplicaLogDirs("/a", "/b"),
        (A1, 1): ReplicaLogDirs("/a"),
        (A1, 2): ReplicaLogDirs("/a", "/c"),
    }
    states = log_dir_states(targets, log_dirs)
    assert [entry.state for entry in states] == [
        State.COMPLETED,
        State.IN_PROGRESS,
        State.DIFFERS,
        State.DIFFERS,
        State.DIFFERS,
    ]
    assert states[-1] == LogDirState(A1, 3, State.DIFFERS, ReplicaLogDirs(), "/b")


def test_rows_of_states() -> None:
    partitions = partition_states({A0: (1, 2), A1: (3,)}, {A0: (1, 2)}, ())
    log_dirs = log_dir_states({A0: {1: "/b"}}, {(A0, 1): ReplicaLogDirs("/a", "/b")})
    assert [list(row.values()) for row in state_rows(partitions, log_dirs)] == [
        ["a-0", "completed", [1, 2], [1, 2]],
        ["a-1", "differs", None, [3]],
        ["a-0 of broker 1", "in progress", "/a", "/b"],
    ]


def test_progress_in_one_line() -> None:
    states = partition_states({A0: (1,), A1: (3,), A2: (2,)}, {A0: (1,), A1: (1, 3)}, {A1})
    assert progress_line(states, [], 1, 5120) == (
        "1 of 3 partitions done, 1 replica to add, 5120 records behind"
    )
    assert progress_line(states, [], 2, None) == "1 of 3 partitions done, 2 replicas to add, lag unknown"
    moving = log_dir_states({A0: {1: "/b", 2: "/b"}}, {(A0, 1): ReplicaLogDirs("/b")})
    assert progress_line(states, moving, 0, None) == (
        "1 of 3 partitions done, 1 replica to move to another log directory"
    )
