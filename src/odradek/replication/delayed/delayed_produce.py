"""A produce request with acks=all in the purgatory: it waits until its records are committed.

It completes when each partition has failed, lost its leader here, or reached its required offset; or at the
timeout, which goes through the same single completion with REQUEST_TIMED_OUT for the partitions still
pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.timers.purgatory import DelayedOperation


class PartitionResult(Protocol):
    """Entry of a response that reports one append, for instance ``PartitionProduceResponse``."""

    error_code: int
    error_message: str | None
    base_offset: int


class ProducePartitionStatus:
    """One partition's append: the offset that must be committed, and the response entry it completes."""

    __slots__ = ("entry", "leader", "partition", "required_offset")

    def __init__(self, partition: Partition, required_offset: int, entry: PartitionResult) -> None:
        self.partition = partition
        self.leader = partition.leader_state
        self.required_offset = required_offset
        self.entry = entry

    def error(self) -> ErrorCode | None:
        """Return the error code the append completes with; None while acks are pending."""
        return self.partition.check_enough_replicas_reach_offset(self.required_offset, self.leader)


def required_offsets(statuses: Iterable[ProducePartitionStatus]) -> dict[Partition, int]:
    """Return the offset that the high watermark of each partition must reach."""
    return {status.partition: status.required_offset for status in statuses}


class DelayedProduce(DelayedOperation):
    __slots__ = ("_pending", "_send_response")

    def __init__(self, pending: list[ProducePartitionStatus], send_response: Callable[[], None]) -> None:
        super().__init__()
        self._pending = pending
        self._send_response = send_response

    def try_complete(self) -> bool:
        pending = []
        for status in self._pending:
            error = status.error()
            if error is None:
                pending.append(status)
            elif error:
                _set_error(status.entry, error)
        self._pending = pending
        return not pending and self.force_complete()

    def on_complete(self) -> None:
        for status in self._pending:
            _set_error(status.entry, ErrorCode.REQUEST_TIMED_OUT)
        self._send_response()


def _set_error(entry: PartitionResult, code: ErrorCode) -> None:
    entry.error_code = code
    entry.base_offset = -1
