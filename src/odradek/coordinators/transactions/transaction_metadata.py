"""State of one transactional id: its record in the log, and its pending transition and markers.

``stored`` is durable and changes in ``replay`` alone. Everything else is volatile and lost with the
leadership: the previous producer (which Kafka does not store either), the pending transition, and the markers
being written.

Invariant: an id has at most one pending transition, and while its markers are being written none but the one
that completes the transaction; hence its states in the log follow ``VALID_PREVIOUS_STATES``.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from odradek.coordinators.effects import ProducerIdAndEpoch
from odradek.coordinators.transactions.commands import WriteMarkers
from odradek.coordinators.transactions.records import StoredTransaction
from odradek.coordinators.transactions.transaction_state import (
    PREPARED,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from odradek.model.ids import TopicPartition

NO_PRODUCER: Final = ProducerIdAndEpoch()


class TxnTransitMetadata(NamedTuple):
    """Target of a transition; None deletes the id. ``previous`` is the producer that requested a higher
    epoch, and may request it again if the response was lost."""

    target: StoredTransaction | None
    previous: ProducerIdAndEpoch = NO_PRODUCER


class AppendStatus(enum.Enum):
    """Status of the append of a pending transition."""

    PENDING = enum.auto()
    """It will be completed."""
    TIMED_OUT = enum.auto()
    """The record is in the log, and takes effect when it is committed."""
    UNCERTAIN = enum.auto()
    """The record may be in the log or not."""


class TransactionMetadata:
    __slots__ = (
        "append_status",
        "partitions_without_marker",
        "pending_transition",
        "previous",
        "stored",
        "task",
        "transactional_id",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.stored: StoredTransaction | None = None
        self.previous = NO_PRODUCER
        self.pending_transition: TxnTransitMetadata | None = None
        self.append_status = AppendStatus.PENDING
        """Status of ``pending_transition``."""
        self.task: WriteMarkers | None = None
        self.partitions_without_marker: set[TopicPartition] = set()
        """Partitions of ``task`` whose marker has not been reported as written."""

    @property
    def is_prepared(self) -> bool:
        return self.stored is not None and self.stored.state in PREPARED

    @property
    def is_busy(self) -> bool:
        """True if clients have to retry requests that change the state (CONCURRENT_TRANSACTIONS)."""
        return self.pending_transition is not None or self.is_prepared

    @property
    def is_removable(self) -> bool:
        """True if there is neither a record nor a pending transition."""
        return self.stored is None and self.pending_transition is None

    def begin_transition(self, transition: TxnTransitMetadata) -> None:
        """Set the pending transition. Its append follows."""
        assert self.pending_transition is None, f"{self.transactional_id} has a pending transition"
        state = TransactionState.DEAD if transition.target is None else transition.target.state
        before = TransactionState.EMPTY if self.stored is None else self.stored.state
        assert before in VALID_PREVIOUS_STATES[state], f"{before.name} cannot become {state.name}"
        self.pending_transition, self.append_status = transition, AppendStatus.PENDING

    def replay(self, stored: StoredTransaction | None) -> None:
        """Apply a committed record; None is a tombstone."""
        self.stored = stored
        if self.pending_transition is not None and self.pending_transition.target == stored:
            self.previous = self.pending_transition.previous
            self.pending_transition = None
        if not self.is_prepared:
            self.task = None
            self.partitions_without_marker.clear()

    def on_append_failed(self, status: AppendStatus | None) -> None:
        """Note the failure of an append of the pending transition, which may have been appended before.
        A status of None means that the log does not have the record of this append."""
        if status is AppendStatus.TIMED_OUT or (
            status is AppendStatus.UNCERTAIN and self.append_status is AppendStatus.PENDING
        ):
            self.append_status = status
        elif self.append_status is AppendStatus.PENDING:
            self.pending_transition = None
