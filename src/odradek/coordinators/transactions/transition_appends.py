"""Appends of transitions to the log, and the completion of transactions.

A transition whose append failed is dropped, and the client may retry. One with an unknown outcome keeps its
transactional id busy until it is replayed: a second one, decided on the state before it, could end a
transaction twice. If it is not even known to be in the log, it is appended again, which has no effect if it
already is.

Invariant: a prepared transaction whose markers or completion are not in progress is retried soon. ``resume``
derives the next step from the current state, wherever the transaction stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.coordinators.append_errors import transaction_error
from odradek.coordinators.transactions.commands import MarkersWritten, WriteMarkers
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.records import transaction_record
from odradek.coordinators.transactions.transaction_metadata import (
    AppendStatus,
    TransactionMetadata,
    TxnTransitMetadata,
)
from odradek.coordinators.transactions.transaction_state import TransactionState
from odradek.coordinators.transactions.transitions import prepare_complete
from odradek.model.errors import ErrorCode

RETRY_MS: Final = 1_000
"""Delay before a failed or slow step is retried."""

_APPEND_STATUS: Final[dict[ErrorCode, AppendStatus]] = {
    ErrorCode.REQUEST_TIMED_OUT: AppendStatus.TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR: AppendStatus.UNCERTAIN,
}
"""Errors after which a record may be in the log: it waits for replication, or a flush failed."""


class RetryTimer(NamedTuple):
    """Timer of a transactional id whose transaction has to be resumed."""

    transactional_id: str


class IdTransition(NamedTuple):
    metadata: TransactionMetadata
    transition: TxnTransitMetadata


class TransitionAppend:
    """Transitions of one or more ids in one append. ``make_response`` converts the final error code to the
    response."""

    __slots__ = ("_make_response", "_to", "transitions")

    def __init__(
        self,
        transitions: Sequence[IdTransition],
        to: object = None,
        make_response: Callable[[ErrorCode], object] | None = None,
    ) -> None:
        self.transitions = transitions
        self._to = to
        self._make_response = make_response

    def on_committed(self, context: EventContext) -> None:
        self._reply(ErrorCode.NONE, context)
        for metadata, _ in self.transitions:
            # If a transition was appended twice the first one counts, and another may have begun since.
            if metadata.pending_transition is None:
                resume(metadata, context)

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        self._reply(transaction_error(code), context)
        for metadata, transition in self.transitions:
            if metadata.pending_transition is transition:
                metadata.on_append_failed(_APPEND_STATUS.get(code))
            if metadata.is_busy:
                context.schedule_timer(RetryTimer(metadata.transactional_id), RETRY_MS)

    def on_unloaded(self, context: EventContext) -> None:
        """Reply to the waiting request: the partition is no longer led here."""
        self._reply(ErrorCode.NOT_COORDINATOR, context)

    def _reply(self, code: ErrorCode, context: EventContext) -> None:
        if self._make_response is not None:
            context.reply(self._to, self._make_response(code))


def append_transitions(
    transitions: Sequence[IdTransition],
    context: EventContext,
    to: object = None,
    make_response: Callable[[ErrorCode], object] | None = None,
) -> None:
    """Begin transitions in one append; reply to ``to`` when it completes, if a request waits for it."""
    for metadata, transition in transitions:
        metadata.begin_transition(transition)
    _append(TransitionAppend(transitions, to, make_response), context)


def _append(append: TransitionAppend, context: EventContext) -> None:
    records = (
        transaction_record(metadata.transactional_id, transition.target)
        for metadata, transition in append.transitions
    )
    context.append(tuple(records), append)


def resume(metadata: TransactionMetadata, context: EventContext) -> None:
    """Take the next step of an id, if any: an idle id needs none."""
    if metadata.pending_transition is not None:
        if metadata.append_status is AppendStatus.UNCERTAIN:
            _append(TransitionAppend([IdTransition(metadata, metadata.pending_transition)]), context)
        else:
            context.schedule_timer(RetryTimer(metadata.transactional_id), RETRY_MS)
    elif metadata.is_prepared:
        if metadata.task is None:
            _write_markers(metadata, context)
        if not metadata.partitions_without_marker:
            completed = prepare_complete(metadata, context.now.wall_ms)
            append_transitions([IdTransition(metadata, completed)], context)


def _write_markers(metadata: TransactionMetadata, context: EventContext) -> None:
    stored = metadata.stored
    assert stored is not None
    metadata.task = WriteMarkers(
        metadata.transactional_id,
        stored.producer_id,
        stored.producer_epoch,
        stored.state is TransactionState.PREPARE_COMMIT,
        tuple(sorted(stored.partitions)),
    )
    metadata.partitions_without_marker = set(stored.partitions)
    if metadata.partitions_without_marker:
        context.start_task(metadata.task)


def complete_markers(
    metadata: TransactionMetadata | None, command: MarkersWritten, context: EventContext
) -> ErrorCode:
    """Note written markers. A report on the task of an earlier transaction or leader is rejected."""
    if metadata is None or metadata.task is not command.task:
        return ErrorCode.INVALID_TXN_STATE
    was_incomplete = bool(metadata.partitions_without_marker)
    metadata.partitions_without_marker.difference_update(command.partitions)
    if was_incomplete and not metadata.partitions_without_marker:
        resume(metadata, context)
    return ErrorCode.NONE
