"""Growth of queued batches beyond ``batch.size``, up to ``batch.backlog.size``.

A full batch is ready to be sent. While it cannot be sent, because earlier requests are in flight or the loop
is busy, it takes more records instead of being followed by another batch: a backlog is sent in few large
batches, and without a backlog batches stay small. No batch ever waits in order to grow.

A batch grows in steps, each four times the last, so that copying costs little more than one copy per record.
It stops growing when it is old: its records expire with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

_FACTOR: Final = 4
_AGE_MS_MAX: Final = 1000
_AGE_SHARE: Final = 10
"""A batch grows for at most this fraction of ``delivery.timeout.ms``."""


def growth_steps(batch_bytes: int, backlog_bytes: int) -> tuple[int, ...]:
    """Return the sizes that a batch of ``batch_bytes`` grows to, in order."""
    steps = []
    size_bytes = batch_bytes
    while size_bytes < backlog_bytes:
        size_bytes = min(size_bytes * _FACTOR, backlog_bytes)
        steps.append(size_bytes)
    return tuple(steps)


class BatchGrowth:
    """Chooses the next size of a batch; limits growth for topics that rejected a large batch."""

    __slots__ = ("_age_ms_max", "_limits", "_steps")

    def __init__(self, steps: Sequence[int], delivery_timeout_ms: int) -> None:
        self._steps = steps
        self._age_ms_max = min(_AGE_MS_MAX, delivery_timeout_ms // _AGE_SHARE)
        self._limits: dict[str, int] = {}

    def next_bytes(self, batch: ProducerBatch, record_bytes: int, now_ms: int) -> int:
        """Return the size to which an open batch grows for a record of this size; 0 if it does not grow."""
        if now_ms - batch.created_ms > self._age_ms_max:
            return 0
        needed_bytes = max(batch.size_bytes + record_bytes, batch.capacity_bytes + 1)
        for size_bytes in self._steps:
            if size_bytes >= needed_bytes:
                return size_bytes if size_bytes <= self._limits.get(batch.topic, size_bytes) else 0
        return 0

    def on_batch_too_large(self, topic: str, size_bytes: int) -> None:
        """Limit growth to half the size of a batch that a broker rejected."""
        self._limits[topic] = min(self._limits.get(topic, size_bytes), size_bytes // 2)
