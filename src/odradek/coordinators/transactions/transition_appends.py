"""Transitions on their way into the log, and transactions on their way to an end.

A transition that the log refused is forgotten, and whoever asked for it may ask again. One of which nobody
knows whether it will count keeps its transactional id busy until it is applied: a second one, judged by the
state before it, could end a transaction twice. If it is not even known to be in the log, it is written again,
which changes nothing if it is.

Invariant: a prepared transaction whose markers are not being written, or whose end is not, is looked at again
soon. ``resume`` finds what is to be done next from what is known, wherever things stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from odradek.coordinators.transactions.commands import MarkersWritten, WriteMarkers
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.records import transaction_entry
from odradek.coordinators.transactions.transaction_metadata import (
    AppendStatus,
    TransactionMetadata,
    TxnTransitMetadata,
)
from odradek.coordinators.transactions.transaction_state import TransactionState
from odradek.coordinators.transactions.transitions import completed
from odradek.model.errors import ErrorCode

RETRY_MS: Final = 1_000
"""Until something that was refused or takes too long is looked at again."""

_TOLD: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What clients are told when the log refuses: they know coordinators, and nothing of their partitions."""

_FATES: Final[dict[ErrorCode, AppendStatus]] = {
    ErrorCode.REQUEST_TIMED_OUT: AppendStatus.LATE,
    ErrorCode.KAFKA_STORAGE_ERROR: AppendStatus.DOUBTFUL,
}
"""With these an entry may be in the log: it waits for replicas, or perhaps for a flush that failed."""


class RetryTimer(NamedTuple):
    """The timer of a transactional id that did not get on."""

    transactional_id: str


class IdTransition(NamedTuple):
    one: TransactionMetadata
    transition: TxnTransitMetadata


class TransitionAppend:
    """Transitions of some ids in one append. ``answer`` makes of the code it ends with what is answered."""

    __slots__ = ("_answer", "_to", "changes")

    def __init__(
        self,
        changes: Sequence[IdTransition],
        to: Any = None,
        answer: Callable[[ErrorCode], Any] | None = None,
    ) -> None:
        self.changes = changes
        self._to = to
        self._answer = answer

    def committed(self, turn: EventContext) -> None:
        self._tell(ErrorCode.NONE, turn)
        for one, _ in self.changes:
            # Of a transition that was written twice the first counts, and another may have begun since.
            if one.pending_transition is None:
                resume(one, turn)

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        self._tell(_TOLD.get(code, code), turn)
        for one, transition in self.changes:
            if one.pending_transition is transition:
                one.refused(_FATES.get(code))
            if one.is_busy:
                turn.arm(RetryTimer(one.name), RETRY_MS)

    def abandoned(self, turn: EventContext) -> None:
        """The partition is led elsewhere now."""
        self._tell(ErrorCode.NOT_COORDINATOR, turn)

    def _tell(self, code: ErrorCode, turn: EventContext) -> None:
        if self._answer is not None:
            turn.reply(self._to, self._answer(code))


def write(
    changes: Sequence[IdTransition],
    turn: EventContext,
    to: Any = None,
    answer: Callable[[ErrorCode], Any] | None = None,
) -> None:
    """Begin transitions, in one append; ``to`` is answered when it ends, if anybody waits for that."""
    for one, transition in changes:
        one.begin(transition)
    _append(TransitionAppend(changes, to, answer), turn)


def _append(completion: TransitionAppend, turn: EventContext) -> None:
    entries = (transaction_entry(one.name, transition.target) for one, transition in completion.changes)
    turn.append(tuple(entries), completion)


def resume(one: TransactionMetadata, turn: EventContext) -> None:
    """Do what is to be done next, if it is known: an id that is at rest needs nothing."""
    if one.pending_transition is not None:
        if one.fate is AppendStatus.DOUBTFUL:
            _append(TransitionAppend([IdTransition(one, one.pending_transition)]), turn)
        else:
            turn.arm(RetryTimer(one.name), RETRY_MS)
    elif one.is_prepared:
        if one.task is None:
            _ask_for_markers(one, turn)
        if not one.partitions_without_marker:
            write([IdTransition(one, completed(one, turn.now.wall_ms))], turn)


def _ask_for_markers(one: TransactionMetadata, turn: EventContext) -> None:
    stored = one.stored
    assert stored is not None
    one.task = WriteMarkers(
        one.name,
        stored.producer_id,
        stored.producer_epoch,
        stored.state is TransactionState.PREPARE_COMMIT,
        tuple(sorted(stored.partitions)),
    )
    one.partitions_without_marker = set(stored.partitions)
    if one.partitions_without_marker:
        turn.perform(one.task)


def complete_markers(
    one: TransactionMetadata | None, command: MarkersWritten, turn: EventContext
) -> ErrorCode:
    """A task of an earlier transaction, or of an earlier leader, says nothing of this one."""
    if one is None or one.task is not command.task:
        return ErrorCode.INVALID_TXN_STATE
    was_unmarked = bool(one.partitions_without_marker)
    one.partitions_without_marker.difference_update(command.partitions)
    if was_unmarked and not one.partitions_without_marker:
        resume(one, turn)
    return ErrorCode.NONE
