"""How far a batch that waits may grow: beyond ``batch.size``, up to ``batch.backlog.size``.

A full batch is ready to leave. While it cannot, because requests before it have no answer yet or the loop is
busy, it takes more records instead of having another batch behind it: what waits is in few large batches, and
what need not wait in small ones. Nothing ever waits in order to grow.

A batch grows in steps, each four times the last, so that its records are copied little more than once for
all of them. It stops growing when it is old: its records expire with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch

_FACTOR: Final = 4
_AGE_MS_MAX: Final = 1000
_AGE_SHARE: Final = 10
"""A batch grows for no more than this part of ``delivery.timeout.ms``."""


def steps(batch_bytes: int, backlog_bytes: int) -> tuple[int, ...]:
    """The sizes that a batch of ``batch_bytes`` grows to, one after the other."""
    found = []
    size_bytes = batch_bytes
    while size_bytes < backlog_bytes:
        size_bytes = min(size_bytes * _FACTOR, backlog_bytes)
        found.append(size_bytes)
    return tuple(found)


class BatchGrowth:
    """The next size of a batch; a topic whose broker refused a large one gets smaller ones from then on."""

    __slots__ = ("_age_ms_max", "_bounds", "_steps")

    def __init__(self, sizes: Sequence[int], delivery_timeout_ms: int) -> None:
        self._steps = sizes
        self._age_ms_max = min(_AGE_MS_MAX, delivery_timeout_ms // _AGE_SHARE)
        self._bounds: dict[str, int] = {}

    def next_bytes(self, batch: ProducerBatch, record_bytes: int, now_ms: int) -> int:
        """What an open batch should have room for to take a record of this size; 0 if it is not to grow."""
        if now_ms - batch.created_ms > self._age_ms_max:
            return 0
        needed_bytes = max(batch.size_bytes + record_bytes, batch.capacity_bytes + 1)
        for size_bytes in self._steps:
            if size_bytes >= needed_bytes:
                return size_bytes if size_bytes <= self._bounds.get(batch.topic, size_bytes) else 0
        return 0

    def was_too_large(self, topic: str, size_bytes: int) -> None:
        """A broker refused a batch of this size: none grows beyond half of it."""
        self._bounds[topic] = min(self._bounds.get(topic, size_bytes), size_bytes // 2)
