"""What clients did and were told: a history that a judge can read.

Each actor keeps its own part, so that nothing is shared while it is made. Values are texts that no two sends
have in common. Names of what can be wrong follow Jepsen's Kafka workload; they are in ``clients_judge``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Log = Mapping[int, Sequence[tuple[int, str]]]
"""By partition: offsets and values, as a reader found them."""


@dataclass
class Send:
    """A record that was given to a producer. ``offset`` is -1 until it is acknowledged."""

    value: str
    partition: int
    offset: int = -1
    error: str = ""
    told: int = 0
    """How often the program heard what became of it."""


@dataclass
class Transaction:
    """Sends that count together. ``outcome`` is committed, aborted or unknown."""

    sends: list[Send] = field(default_factory=list)
    outcome: str = "unknown"


@dataclass
class ProducerPart:
    """What one producer did, in the order of its calls; ``transactions`` are empty for one without."""

    name: str
    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class Poll:
    """A record that a consumer got."""

    partition: int
    offset: int
    value: str


@dataclass(frozen=True)
class Assigned:
    """From here on a consumer reads partitions anew, from wherever their group has come to."""

    partitions: tuple[int, ...]


@dataclass
class ConsumerPart:
    """What one consumer got, in order. It reads committed records only."""

    name: str
    events: list[Poll | Assigned] = field(default_factory=list)
    commits: int = 0
    problem: str = ""


@dataclass
class History:
    producers: list[ProducerPart] = field(default_factory=list)
    consumers: list[ConsumerPart] = field(default_factory=list)
