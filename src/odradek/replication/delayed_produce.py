"""A produce with acks=all that waits until the in-sync replicas have what it wrote.

It ends when every partition has failed, lost its leader here, or reached its offset; or when its time is up,
and then goes through the same single completion, with those still waiting answered REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.timers.purgatory import DelayedOperation


class ProducePartitionStatus:
    """One partition's append: the offset that must be committed, and the entry of the answer it decides."""

    __slots__ = ("entry", "leader_epoch", "partition", "required_offset")

    def __init__(self, partition: Partition, required_offset: int, entry: Any) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.required_offset = required_offset
        self.entry = entry

    def verdict(self) -> ErrorCode | None:
        """How the wait ended; None while it goes on."""
        return self.partition.check_enough_replicas_reach_offset(self.required_offset, self.leader_epoch)


class DelayedProduce(DelayedOperation):
    __slots__ = ("_then", "_waiting")

    def __init__(self, waiting: list[ProducePartitionStatus], then: Callable[[], None]) -> None:
        super().__init__()
        self._waiting = waiting
        self._then = then

    def try_complete(self) -> bool:
        still = []
        for awaited in self._waiting:
            verdict = awaited.verdict()
            if verdict is None:
                still.append(awaited)
            elif verdict:
                _refuse(awaited.entry, verdict)
        self._waiting = still
        return not still and self.force_complete()

    def on_complete(self) -> None:
        for awaited in self._waiting:
            _refuse(awaited.entry, ErrorCode.REQUEST_TIMED_OUT)
        self._then()


def _refuse(entry: Any, code: ErrorCode) -> None:
    entry.error_code = code
    entry.base_offset = -1
