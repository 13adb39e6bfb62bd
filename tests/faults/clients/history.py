"""The history of clients, for the checker.

Each actor records its own part, so that nothing is shared while it runs. Values are unique per send.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Log = Mapping[int, Sequence[tuple[int, str]]]
"""Offsets and values by partition, as read."""


@dataclass
class Send:
    """A record passed to a producer. ``offset`` is -1 until it is acknowledged."""

    value: str
    partition: int
    offset: int = -1
    error: str = ""
    callbacks: int = 0
    """Number of callbacks."""
    sent_s: float = field(default_factory=time.monotonic, compare=False)
    acknowledged_s: float | None = field(default=None, compare=False)
    """Seconds of the monotonic clock."""

    def acknowledge(self, offset: int) -> None:
        self.offset = offset
        self.acknowledged_s = time.monotonic()


@dataclass
class Transaction:
    """Sends of one transaction. ``outcome`` is committed, aborted or unknown."""

    sends: list[Send] = field(default_factory=list)
    outcome: str = "unknown"
    commit_began_s: float | None = None
    """Time of the first call to commit, in seconds of the monotonic clock."""


@dataclass
class ProducerPart:
    """The calls of one producer, in order; ``transactions`` is empty for a non-transactional one."""

    name: str
    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class Poll:
    """A record read by a consumer."""

    partition: int
    offset: int
    value: str
    polled_s: float = field(default_factory=time.monotonic, compare=False)


@dataclass(frozen=True)
class Assigned:
    """An assignment: the consumer continues from the committed offsets."""

    partitions: tuple[int, ...]


@dataclass
class ConsumerPart:
    """The records and assignments of one read_committed consumer, in order."""

    name: str
    events: list[Poll | Assigned] = field(default_factory=list)
    commits: int = 0
    problem: str = ""


@dataclass
class History:
    producers: list[ProducerPart] = field(default_factory=list)
    consumers: list[ConsumerPart] = field(default_factory=list)
