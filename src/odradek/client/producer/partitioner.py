"""Choice of a partition for records without one.

Records with a key are partitioned by murmur2, as in Kafka, so that all clients agree. Records without a key
stick to a partition for about ``batch.size`` bytes, then another is drawn: partitions with shorter queues are
more likely, and partitions whose broker has not been ready for ``partitioner.availability.timeout.ms`` are
excluded. Randomness and queue lengths are passed in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from odradek.client.values import PartitionInfo

Below = Callable[[int], int]
"""Returns a random integer from 0 up to, but not including, its argument."""


class Partitioner(Protocol):
    """A custom partitioner: any function with this signature.

    ``partitions`` are all partitions of the topic in order, including those with ``leader`` -1. The result is
    the number of one of them.
    """

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[PartitionInfo]
    ) -> int: ...


class LoadTable:
    """Weights of partitions for a random draw: the shorter the queue, the higher the weight."""

    __slots__ = ("_cumulative", "_partitions")

    def __init__(self, partitions: Sequence[int], queue_lengths: Sequence[int]) -> None:
        longest = max(queue_lengths) + 1
        self._partitions = partitions
        self._cumulative = list(accumulate(longest - length for length in queue_lengths))

    def draw(self, below: Below) -> int:
        draw = below(self._cumulative[-1])
        return self._partitions[bisect_right(self._cumulative, draw)]


def next_sticky(
    partitions: Sequence[int], with_leader: Sequence[int], load: LoadTable | None, below: Below
) -> int:
    """Return the next sticky partition; without a load table, uniformly among those with a leader."""
    if load is not None:
        return load.draw(below)
    choice = with_leader or partitions
    return choice[below(len(choice))]


def load_table(candidates: Sequence[int], queue_lengths: Sequence[int]) -> LoadTable | None:
    """Return the load table; None if the draw is uniform, with equal queues or fewer than two candidates."""
    if len(candidates) < 2 or min(queue_lengths) == max(queue_lengths):
        return None
    return LoadTable(candidates, queue_lengths)


class RoundRobin:
    """Partitions in turn, skipping those without a leader; also for records with a key.

    >>> from odradek.client.producer.partitioner import RoundRobin
    >>> partitions = [PartitionInfo("t", number, 0, (0,), (0,)) for number in range(2)]
    >>> choose = RoundRobin()
    >>> [choose("t", b"k", b"v", partitions) for _ in range(3)]
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[PartitionInfo]
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        # All partitions while none has a leader: the record waits in one of them.
        choice = [info for info in partitions if info.leader >= 0] or partitions
        return choice[turn % len(choice)].partition
