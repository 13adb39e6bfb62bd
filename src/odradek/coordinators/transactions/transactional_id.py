"""One transactional id: what the log says of it, and what is under way with it.

``stored`` is durable and changes in ``applied`` alone. All else is volatile, and lost with the leadership:
who had the id before (Kafka does not write that down either), the transition that is being written, the
markers that are being written.

Invariant: at most one transition of an id is under way, and none while its markers are being written but the
one that completes it; hence the log tells its states in the order of the table in ``states``.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from odradek.coordinators.transactions.commands import WriteMarkers
from odradek.coordinators.transactions.records import StoredTransaction
from odradek.coordinators.transactions.states import MAY_COME_FROM, PREPARED, State
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class Incarnation(NamedTuple):
    """A producer id and its epoch: of all producers with one transactional id, one has the right one."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NOBODY: Final = Incarnation()


class Transition(NamedTuple):
    """What is to be written of an id; without ``target`` it is forgotten. ``previous`` is who asked for a
    higher epoch, and may ask again if the answer was lost."""

    target: StoredTransaction | None
    previous: Incarnation = NOBODY


class Fate(enum.Enum):
    """What is known of a transition that is under way."""

    OPEN = enum.auto()
    """It will be told."""
    LATE = enum.auto()
    """It is in the log, and counts whenever it is committed."""
    DOUBTFUL = enum.auto()
    """It may be in the log or not."""


class TransactionalId:
    __slots__ = ("fate", "name", "previous", "stored", "task", "under_way", "unmarked")

    def __init__(self, name: str) -> None:
        self.name = name
        self.stored: StoredTransaction | None = None
        self.previous = NOBODY
        self.under_way: Transition | None = None
        self.fate = Fate.OPEN
        """Of what is under way."""
        self.task: WriteMarkers | None = None
        self.unmarked: set[TopicPartition] = set()
        """Partitions that have not told yet that they have the marker of ``task``."""

    @property
    def is_prepared(self) -> bool:
        return self.stored is not None and self.stored.state in PREPARED

    @property
    def is_busy(self) -> bool:
        """Whether whoever wants something changed has to come again."""
        return self.under_way is not None or self.is_prepared

    @property
    def is_nothing(self) -> bool:
        """Whether there is no need to know of it."""
        return self.stored is None and self.under_way is None

    def begin(self, transition: Transition) -> None:
        """Its transition is being written."""
        assert self.under_way is None, f"two transitions of {self.name}"
        state = State.DEAD if transition.target is None else transition.target.state
        before = State.EMPTY if self.stored is None else self.stored.state
        assert before in MAY_COME_FROM[state], f"{before.name} does not become {state.name}"
        self.under_way, self.fate = transition, Fate.OPEN

    def applied(self, stored: StoredTransaction | None) -> None:
        """The log says so."""
        self.stored = stored
        if self.under_way is not None and self.under_way.target == stored:
            self.previous = self.under_way.previous
            self.under_way = None
        if not self.is_prepared:
            self.task = None
            self.unmarked.clear()

    def refused(self, fate: Fate | None) -> None:
        """The log did not take the transition, which was perhaps written before; without a fate, the log
        does not have it from this time."""
        if fate is Fate.LATE or (fate is Fate.DOUBTFUL and self.fate is Fate.OPEN):
            self.fate = fate
        elif self.fate is Fate.OPEN:
            self.under_way = None
