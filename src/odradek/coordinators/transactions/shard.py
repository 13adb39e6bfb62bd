"""The transactional ids of one partition of ``__transaction_state``.

Invariant: ``replay`` alone changes durable state (``stored`` of each id), and replaying the same log gives
the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Any, Final

from odradek.coordinators.effects import CoordinatorRecord, Effects, Now
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    TransactionDescription,
    TransactionListing,
)
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.handlers import (
    EXPIRATION_TIMER,
    TIMEOUT_TIMER,
    ExpirationTimer,
    TimeoutTimer,
    Transactions,
    handle_add_partitions,
    handle_end_transaction,
    handle_init_producer_id,
    handle_markers_written,
    on_expiration_timer,
    on_retry_timer,
    on_timeout_timer,
)
from odradek.coordinators.transactions.records import read_key, read_transaction
from odradek.coordinators.transactions.settings import TransactionSettings
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata
from odradek.coordinators.transactions.transaction_state import IDLE
from odradek.coordinators.transactions.transition_appends import RetryTimer, TransitionAppend, resume
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID

CommandHandler = Callable[[Transactions, Any, object, EventContext], None]
"""Takes the transactional ids, a command, its reply handle and the context."""

COMMAND_HANDLERS: Final[dict[type, CommandHandler]] = {
    InitProducerId: handle_init_producer_id,
    AddPartitions: handle_add_partitions,
    EndTransaction: handle_end_transaction,
    MarkersWritten: handle_markers_written,
}

TimerHandler = Callable[[Transactions, Any, EventContext], None]
"""Takes the transactional ids, a timer and the context."""

TIMER_HANDLERS: Final[dict[type, TimerHandler]] = {
    RetryTimer: on_retry_timer,
    TimeoutTimer: on_timeout_timer,
    ExpirationTimer: on_expiration_timer,
}


class TransactionCoordinatorShard:
    """``settings`` returns the current settings."""

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        self.ids: Transactions = {}
        self._settings = settings
        self._pending_appends: dict[TransitionAppend, None] = {}
        self._unfinished: dict[str, None] = {}
        """Ids whose transaction is open or ending, so that idle ids cost nothing."""
        self._timeout_queue: deque[str] = deque()
        self._expiration_queue: deque[str] = deque()

    def _context(self, now: Now) -> EventContext:
        return EventContext(
            now,
            self._settings,
            self._pending_appends,
            self._unfinished,
            self._timeout_queue,
            self._expiration_queue,
        )

    # Events.

    def handle(self, command: Command, to: object, now: Now) -> Effects:
        context = self._context(now)
        COMMAND_HANDLERS[type(command)](self.ids, command, to, context)
        return context.effects

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        context = self._context(now)
        TIMER_HANDLERS[type(timer)](self.ids, timer, context)
        return context.effects

    def on_append_committed(self, completion: TransitionAppend, now: Now) -> Effects:
        context = self._context(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_committed(context)
        return context.effects

    def on_append_failed(self, completion: TransitionAppend, code: ErrorCode, now: Now) -> Effects:
        context = self._context(now)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_failed(code, context)
            self._remove_uncreated(completion)
        return context.effects

    def _remove_uncreated(self, completion: TransitionAppend) -> None:
        """Remove ids whose first record was not written."""
        for metadata, _ in completion.transitions:
            if metadata.is_removable and self.ids.get(metadata.transactional_id) is metadata:
                del self.ids[metadata.transactional_id]

    # Replay.

    def replay(self, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a committed record. A malformed one raises ``BrokerError`` and changes nothing."""
        transactional_id = read_key(record.key)
        if transactional_id is None:
            return
        stored = None if record.value is None else read_transaction(record.value)
        metadata = self.ids.get(transactional_id) or TransactionMetadata(transactional_id)
        metadata.replay(stored)
        if metadata.is_removable:
            self.ids.pop(transactional_id, None)
        else:
            self.ids[transactional_id] = metadata
        if stored is not None and stored.state not in IDLE:
            self._unfinished[transactional_id] = None
        else:
            self._unfinished.pop(transactional_id, None)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        """Do nothing: records of this topic are never part of a transaction."""

    def on_loaded(self, now: Now) -> Effects:
        context = self._context(now)
        for transactional_id in self._unfinished:
            resume(self.ids[transactional_id], context)
        context.schedule_timer(TIMEOUT_TIMER, context.settings.timeouts_check_interval_ms)
        context.schedule_timer(EXPIRATION_TIMER, context.settings.ids_check_interval_ms)
        return context.effects

    def on_unloaded(self) -> Effects:
        context = self._context(Now(0, 0))
        for completion in self._pending_appends:
            completion.on_unloaded(context)
        self._pending_appends.clear()
        self._unfinished.clear()
        self.ids.clear()
        return context.effects

    # Queries.

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Describe a transactional id; while markers are written, only with partitions without a marker."""
        if not transactional_id:
            return TransactionDescription(ErrorCode.INVALID_REQUEST)
        metadata = self.ids.get(transactional_id)
        if metadata is None or metadata.stored is None:
            return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        stored = metadata.stored
        partitions = stored.partitions if metadata.task is None else metadata.partitions_without_marker
        return TransactionDescription(
            ErrorCode.NONE,
            stored.state.value,
            stored.timeout_ms,
            stored.start_ms,
            stored.producer_id,
            stored.producer_epoch,
            tuple(sorted(partitions)),
        )

    def listing(
        self, states: Collection[str], producer_ids: Collection[int], duration_min_ms: int, now_ms: int
    ) -> list[TransactionListing]:
        """List the ids in one of these states, of one of these producers, whose transaction is open longer
        than ``duration_min_ms``. An empty or negative filter matches all. ``now_ms`` is wall clock time; the
        start of an id that never had a transaction is -1."""
        return [
            TransactionListing(metadata.transactional_id, stored.producer_id, stored.state.value)
            for metadata in self.ids.values()
            if (stored := metadata.stored) is not None
            and (not producer_ids or stored.producer_id in producer_ids)
            and (not states or stored.state.value in states)
            and (duration_min_ms < 0 or now_ms - stored.start_ms > duration_min_ms)
        ]
