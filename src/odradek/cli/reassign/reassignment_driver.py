"""Running reassignments: send them, start moves between log directories, wait and show the progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.cli.errors import CommandFailed
from odradek.cli.reassign.cluster_reads import ReassignmentStates, read_lag, read_states
from odradek.cli.reassign.states import State, counted, is_any, progress_line

if TYPE_CHECKING:
    from odradek.cli.reassign.assignment_json import Reassignment, Replicas
    from odradek.client.blocking.admin import Admin
    from odradek.model.ids import TopicPartition

POLL_S: Final = 0.1
POLL_MAX_S: Final = 1.0
"""The interval doubles up to this one."""
SETTLING_POLLS_MAX: Final = 8
"""A broker may show the former replicas for a moment after the controller has completed a reassignment."""


def start_reassignments(admin: Admin, targets: Mapping[TopicPartition, Replicas]) -> None:
    """Send the reassignments; fail if some are rejected."""
    from odradek import PartialFailure

    try:
        admin.alter_partition_reassignments(targets)
    except PartialFailure as failure:
        if not failure.results:
            raise
        started = counted(len(failure.results), "partition")
        raise CommandFailed(
            f"{failure}. The reassignment of {started} has started; show it with `odradek reassign verify`"
        ) from failure


def move_log_dirs(
    admin: Admin,
    targets: Mapping[TopicPartition, Mapping[int, str]],
    timeout_s: float,
    sleep_s: Callable[[float], None],
) -> None:
    """Start moves to log directories, and retry while brokers do not have their replicas yet."""
    from odradek import ErrorCode, PartialFailure, Replica

    pending = {
        Replica(*partition, broker): path
        for partition, directories in targets.items()
        for broker, path in directories.items()
    }
    left_s = timeout_s
    while pending:
        try:
            admin.alter_replica_log_dirs(pending)
            return
        except PartialFailure as failure:
            codes = {error.code for error in failure.errors.values()}
            if codes != {ErrorCode.REPLICA_NOT_AVAILABLE}:
                raise
            pending = {replica: pending[replica] for replica in failure.errors}
        if left_s <= 0:
            names = ", ".join(map(str, sorted(pending)))
            raise CommandFailed(
                f"moves to log directories must start within {timeout_s:g} s, got no replica {names}; "
                "execute the file again with --additional when it exists"
            )
        sleep_s(POLL_S)
        left_s -= POLL_S


def wait_for_completion(
    admin: Admin, reassignment: Reassignment, sleep_s: Callable[[float], None], show: Callable[[str], None]
) -> ReassignmentStates:
    """Show the progress until no partition or log directory of the file is moving; return the last states."""
    interval_s, settling_polls = POLL_S, 0
    while True:
        states = read_states(admin, reassignment)
        moving = is_any(State.IN_PROGRESS, [*states.partitions, *states.log_dirs])
        if not moving:
            is_complete = not is_any(State.DIFFERS, [*states.partitions, *states.log_dirs])
            if is_complete or settling_polls >= SETTLING_POLLS_MAX:
                return states
            settling_polls += 1
        else:
            settling_polls = 0
            show(_progress(admin, reassignment, states))
        sleep_s(interval_s)
        interval_s = min(2 * interval_s, POLL_MAX_S)


def _progress(admin: Admin, reassignment: Reassignment, states: ReassignmentStates) -> str:
    own = {
        key: value for key, value in states.ongoing.items() if key in reassignment.targets and value.adding
    }
    to_add = sum(len(ongoing.adding) for ongoing in own.values())
    lag = read_lag(admin, own) if own else None
    return progress_line(states.partitions, states.log_dirs, to_add, lag)


class ProgressLine:
    """Progress on stderr: a line that is rewritten on a terminal, else a line for each change."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def show(self, line: str) -> None:
        if line == self._last:
            return
        if self._is_terminal:
            print("\r" + line.ljust(len(self._last)), end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
        self._last = line

    def close(self) -> None:
        if self._is_terminal and self._last:
            print(file=sys.stderr)
