"""Which partition a record without one goes to.

Records with a key go where Kafka's murmur2 sends them, so that all clients agree. Records without one stick
to a partition until about ``batch.size`` bytes have gone there, then another is drawn: shorter queues are the
likelier, and partitions whose broker has not been able to take anything for
``partitioner.availability.timeout.ms`` are left out. Decisions only: chance and queue lengths are passed in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from odradek.client.values import PartitionInfo

Below = Callable[[int], int]
"""A whole number from 0 up to, not including, the one given, by chance."""


class Partitioner(Protocol):
    """A partitioner of one's own: any function of these will do.

    ``partitions`` are all of the topic in order, those with ``leader`` -1 included. The result is the number
    of one of them.
    """

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[PartitionInfo]
    ) -> int: ...


class LoadTable:
    """How likely each partition is to be drawn: the shorter its queue, the likelier."""

    __slots__ = ("_cumulative", "_partitions")

    def __init__(self, partitions: Sequence[int], queue_lengths: Sequence[int]) -> None:
        longest = max(queue_lengths) + 1
        self._partitions = partitions
        self._cumulative = list(accumulate(longest - length for length in queue_lengths))

    def draw(self, below: Below) -> int:
        ticket = below(self._cumulative[-1])
        return self._partitions[bisect_right(self._cumulative, ticket)]


def next_sticky(
    partitions: Sequence[int], with_leader: Sequence[int], load: LoadTable | None, below: Below
) -> int:
    """The partition to stick to from now on; without a load table all those with a leader are alike."""
    if load is not None:
        return load.draw(below)
    choice = with_leader or partitions
    return choice[below(len(choice))]


def load_table(candidates: Sequence[int], queue_lengths: Sequence[int]) -> LoadTable | None:
    """None where drawing evenly is the same: all queues are as long as each other, or nobody is left."""
    if len(candidates) < 2 or min(queue_lengths) == max(queue_lengths):
        return None
    return LoadTable(candidates, queue_lengths)


class RoundRobin:
    """One partition after another, those without a leader passed over; also for records with a key.

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
        # All of them in turn while none has a leader: the record waits in one of them.
        choice = [one for one in partitions if one.leader >= 0] or partitions
        return choice[turn % len(choice)].partition
