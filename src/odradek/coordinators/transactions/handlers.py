"""Handlers of commands and timers of the transaction coordinator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from odradek.coordinators.transactions import transitions
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    InitProducerId,
    InitProducerIdResult,
    MarkersWritten,
)
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata, TxnTransitMetadata
from odradek.coordinators.transactions.transaction_state import TransactionState
from odradek.coordinators.transactions.transition_appends import (
    IdTransition,
    RetryTimer,
    append_transitions,
    complete_markers,
    resume,
)
from odradek.model.errors import ErrorCode

IDS_PER_RUN_MAX: Final = 500
"""Ids checked, and possibly written, in one run of a timer, so that many ids do not block other requests.
This takes about a millisecond if none is due."""
NEXT_RUN_MS: Final = 1
TOMBSTONES_BYTES_MAX: Final = 65_536
"""Bound on the ids in one append, exceeded by at most one: a batch must not exceed the topic's maximum."""

Transactions = dict[str, TransactionMetadata]
"""By transactional id."""


# Commands.


def handle_init_producer_id(
    ids: Transactions, command: InitProducerId, to: object, context: EventContext
) -> None:
    metadata = ids.get(command.transactional_id)
    decision = transitions.prepare_init_producer_id(
        metadata, command, context.settings.timeout_max_ms, context.now.wall_ms
    )
    if not isinstance(decision, TxnTransitMetadata):
        context.reply(to, InitProducerIdResult(decision) if isinstance(decision, ErrorCode) else decision)
        return
    if metadata is None:
        metadata = ids[command.transactional_id] = TransactionMetadata(command.transactional_id)
    append_transitions(
        [IdTransition(metadata, decision)], context, to, lambda code: _init_result(decision, code)
    )


def _init_result(transition: TxnTransitMetadata, code: ErrorCode) -> InitProducerIdResult:
    """Return the result of InitProducerId. If it aborted a transaction, the client has to retry until the
    abort is complete."""
    target = transition.target
    if code is not ErrorCode.NONE or target is None:
        return InitProducerIdResult(code)
    if target.state is not TransactionState.EMPTY:
        return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    return InitProducerIdResult(code, target.producer_id, target.producer_epoch)


def handle_add_partitions(
    ids: Transactions, command: AddPartitions, to: object, context: EventContext
) -> None:
    metadata = ids.get(command.transactional_id)
    if command.verify_only:
        context.reply(to, AddPartitionsResult(transitions.verify_partitions(metadata, command)))
        return

    def make_response(code: ErrorCode) -> AddPartitionsResult:
        return AddPartitionsResult(dict.fromkeys(command.partitions, code))

    decision = transitions.prepare_add_partitions(metadata, command, context.now.wall_ms)
    _append_or_reply(metadata, decision, context, to, make_response)


def handle_end_transaction(
    ids: Transactions, command: EndTransaction, to: object, context: EventContext
) -> None:
    metadata = ids.get(command.transactional_id)
    decision = transitions.prepare_end(metadata, command, context.now.wall_ms)
    _append_or_reply(metadata, decision, context, to, lambda code: code)


def _append_or_reply(
    metadata: TransactionMetadata | None,
    decision: ErrorCode | TxnTransitMetadata,
    context: EventContext,
    to: object,
    make_response: Callable[[ErrorCode], object],
) -> None:
    if isinstance(decision, ErrorCode):
        context.reply(to, make_response(decision))
    else:
        assert metadata is not None
        append_transitions([IdTransition(metadata, decision)], context, to, make_response)


def handle_markers_written(
    ids: Transactions, command: MarkersWritten, to: object, context: EventContext
) -> None:
    metadata = ids.get(command.task.transactional_id)
    context.reply(to, complete_markers(metadata, command, context))


# Timers.


@dataclass(frozen=True, slots=True)
class TimeoutTimer:
    """Timer of the check for transactions that exceed their timeout."""


@dataclass(frozen=True, slots=True)
class ExpirationTimer:
    """Timer of the check for unused transactional ids."""


TIMEOUT_TIMER: Final = TimeoutTimer()
EXPIRATION_TIMER: Final = ExpirationTimer()


def on_retry_timer(ids: Transactions, timer: RetryTimer, context: EventContext) -> None:
    metadata = ids.get(timer.transactional_id)
    if metadata is not None:
        resume(metadata, context)


def on_timeout_timer(ids: Transactions, _timer: TimeoutTimer, context: EventContext) -> None:
    """Abort the transactions that exceed their timeout."""
    for metadata in _next_batch(ids, context.timeout_queue, context.unfinished):
        if transitions.has_timed_out(metadata, context.now.wall_ms):
            assert metadata.stored is not None
            fenced = transitions.prepare_fence(metadata.stored, context.now.wall_ms)
            append_transitions([IdTransition(metadata, fenced)], context)
    interval_ms = context.settings.timeouts_check_interval_ms
    context.schedule_timer(TIMEOUT_TIMER, NEXT_RUN_MS if context.timeout_queue else interval_ms)


def on_expiration_timer(ids: Transactions, _timer: ExpirationTimer, context: EventContext) -> None:
    """Delete the ids that have not been used for the retention time."""
    retention_ms, now_ms = context.settings.id_retention_ms, context.now.wall_ms
    expired: list[IdTransition] = []
    size_bytes = 0
    for metadata in _next_batch(ids, context.expiration_queue, ids):
        if transitions.has_expired(metadata, retention_ms, now_ms):
            expired.append(IdTransition(metadata, TxnTransitMetadata(None)))
            size_bytes += len(metadata.transactional_id.encode())
        if size_bytes >= TOMBSTONES_BYTES_MAX:
            break
    if expired:
        append_transitions(expired, context)
    interval_ms = context.settings.ids_check_interval_ms
    context.schedule_timer(EXPIRATION_TIMER, NEXT_RUN_MS if context.expiration_queue else interval_ms)


def _next_batch(
    ids: Transactions, queue: deque[str], candidates: Collection[str]
) -> Iterator[TransactionMetadata]:
    """Yield the next ids of the current check, or the first ids of the next one."""
    if not queue:
        queue.extend(candidates)
    for _ in range(min(len(queue), IDS_PER_RUN_MAX)):
        metadata = ids.get(queue.popleft())
        if metadata is not None:
            yield metadata
