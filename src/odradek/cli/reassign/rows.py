"""Rows of tables and JSON: moves of partitions, and states of partitions and log directories. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from odradek.cli.output import as_size
from odradek.cli.reassign.plan import Move
from odradek.cli.reassign.states import LogDirState, PartitionState

MOVES: Final = ["partition", "from", "to", "to_copy"]


def move_rows(moves: Sequence[Move]) -> list[dict[str, Any]]:
    """Return a row for each move."""
    return [
        {
            "partition": str(move.partition),
            "from": list(move.before),
            "to": list(move.after),
            "bytes_to_copy": move.bytes_to_copy,
            "to_copy": as_size(move.bytes_to_copy),
        }
        for move in moves
    ]


def summary_line(moves: Sequence[Move]) -> str:
    """Return the size of a reassignment in one line."""
    replicas = sum(len(move.added) for move in moves)
    sizes = [move.bytes_to_copy for move in moves if move.added]
    known = [size for size in sizes if size is not None]
    size = as_size(sum(known)) if len(known) == len(sizes) else "unknown"
    return f"partitions: {len(moves)}, replicas to add: {replicas}, to copy: {size}"


def state_rows(partitions: Sequence[PartitionState], log_dirs: Sequence[LogDirState]) -> list[dict[str, Any]]:
    """Return a row for each partition, then for each replica with a target log directory."""
    rows: list[dict[str, Any]] = [
        {
            "partition": str(entry.partition),
            "state": entry.state.value,
            "replicas": None if entry.replicas is None else list(entry.replicas),
            "target": list(entry.target),
        }
        for entry in partitions
    ]
    rows += [
        {
            "partition": f"{entry.partition} of broker {entry.broker}",
            "state": entry.state.value,
            "replicas": entry.log_dirs.current,
            "target": entry.target,
        }
        for entry in log_dirs
    ]
    return rows
