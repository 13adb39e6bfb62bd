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
from odradek.coordinators.transactions.transaction_state import (
    PREPARED,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch: of all producers with one transactional id, one has the right one."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER: Final = ProducerIdAndEpoch()


class TxnTransitMetadata(NamedTuple):
    """What is to be written of an id; without ``target`` it is forgotten. ``previous`` is who asked for a
    higher epoch, and may ask again if the answer was lost."""

    target: StoredTransaction | None
    previous: ProducerIdAndEpoch = NO_PRODUCER


class AppendStatus(enum.Enum):
    """What is known of a transition that is under way."""

    OPEN = enum.auto()
    """It will be told."""
    LATE = enum.auto()
    """It is in the log, and counts whenever it is committed."""
    DOUBTFUL = enum.auto()
    """It may be in the log or not."""


class TransactionMetadata:
    __slots__ = (
        "fate",
        "name",
        "partitions_without_marker",
        "pending_transition",
        "previous",
        "stored",
        "task",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.stored: StoredTransaction | None = None
        self.previous = NO_PRODUCER
        self.pending_transition: TxnTransitMetadata | None = None
        self.fate = AppendStatus.OPEN
        """Of what is under way."""
        self.task: WriteMarkers | None = None
        self.partitions_without_marker: set[TopicPartition] = set()
        """Partitions that have not told yet that they have the marker of ``task``."""

    @property
    def is_prepared(self) -> bool:
        return self.stored is not None and self.stored.state in PREPARED

    @property
    def is_busy(self) -> bool:
        """Whether whoever wants something changed has to come again."""
        return self.pending_transition is not None or self.is_prepared

    @property
    def is_nothing(self) -> bool:
        """Whether there is no need to know of it."""
        return self.stored is None and self.pending_transition is None

    def begin(self, transition: TxnTransitMetadata) -> None:
        """Its transition is being written."""
        assert self.pending_transition is None, f"two transitions of {self.name}"
        state = TransactionState.DEAD if transition.target is None else transition.target.state
        before = TransactionState.EMPTY if self.stored is None else self.stored.state
        assert before in VALID_PREVIOUS_STATES[state], f"{before.name} does not become {state.name}"
        self.pending_transition, self.fate = transition, AppendStatus.OPEN

    def applied(self, stored: StoredTransaction | None) -> None:
        """The log says so."""
        self.stored = stored
        if self.pending_transition is not None and self.pending_transition.target == stored:
            self.previous = self.pending_transition.previous
            self.pending_transition = None
        if not self.is_prepared:
            self.task = None
            self.partitions_without_marker.clear()

    def refused(self, fate: AppendStatus | None) -> None:
        """The log did not take the transition, which was perhaps written before; without a fate, the log
        does not have it from this time."""
        if fate is AppendStatus.LATE or (fate is AppendStatus.DOUBTFUL and self.fate is AppendStatus.OPEN):
            self.fate = fate
        elif self.fate is AppendStatus.OPEN:
            self.pending_transition = None
