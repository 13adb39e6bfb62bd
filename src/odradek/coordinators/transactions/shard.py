"""The transactional ids of one partition of ``__transaction_state``.

Invariant: ``replay`` alone changes durable state (``stored`` of each id), and replaying the same log gives
the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Final

from odradek.coordinators.effects import AppendRecords, CoordinatorRecord, Effects, Now
from odradek.coordinators.transactions import transitions
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    AddPartitionsResult,
    Command,
    EndTransaction,
    InitProducerId,
    InitProducerIdResult,
    MarkersWritten,
    TransactionDescription,
    TransactionListing,
)
from odradek.coordinators.transactions.description import describe_transaction, list_transactions
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.records import read_key, read_transaction
from odradek.coordinators.transactions.settings import TransactionSettings
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata, TxnTransitMetadata
from odradek.coordinators.transactions.transaction_state import IDLE, TransactionState
from odradek.coordinators.transactions.transition_appends import (
    IdTransition,
    RetryTimer,
    TransitionAppend,
    append_transitions,
    complete_markers,
    resume,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID

TIMEOUT_TIMER: Final = "timeouts"
"""Timer that aborts transactions that exceed their timeout."""
EXPIRATION_TIMER: Final = "expiry"
"""Timer that deletes unused transactional ids."""

IDS_PER_RUN_MAX: Final = 500
"""Ids checked, and possibly written, in one run of a timer, so that many ids do not block other requests.
This takes about a millisecond if none is due."""
NEXT_RUN_MS: Final = 1
TOMBSTONES_BYTES_MAX: Final = 65_536
"""Bound on the ids in one append, exceeded by at most one: a batch must not exceed the topic's maximum."""


class TransactionCoordinatorShard:
    """``settings`` returns the current settings."""

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        self.ids: dict[str, TransactionMetadata] = {}
        self._settings = settings
        self._pending_appends: dict[TransitionAppend, None] = {}
        self._unfinished: dict[str, None] = {}
        """Ids whose transaction is open or ending, so that idle ids cost nothing."""
        self._to_time_out: deque[str] = deque()
        self._to_expire: deque[str] = deque()

    def _effects(self, context: EventContext) -> Effects:
        """Return the effects of an event, and remember its appends until they complete."""
        self._pending_appends.update(
            (effect.completion, None) for effect in context.effects if isinstance(effect, AppendRecords)
        )
        return context.effects

    # Commands.

    def handle(self, command: Command, to: Any, now: Now) -> Effects:
        context = EventContext(now, self._settings)
        match command:
            case InitProducerId():
                self._init_producer_id(command, to, context)
            case AddPartitions():
                self._add_partitions(command, to, context)
            case EndTransaction():
                self._end_transaction(command, to, context)
            case MarkersWritten():
                metadata = self.ids.get(command.task.transactional_id)
                context.reply(to, complete_markers(metadata, command, context))
        return self._effects(context)

    def _init_producer_id(self, command: InitProducerId, to: Any, context: EventContext) -> None:
        metadata = self.ids.get(command.transactional_id)
        decision = transitions.prepare_init_producer_id(
            metadata, command, context.settings.timeout_max_ms, context.now.wall_ms
        )
        if not isinstance(decision, TxnTransitMetadata):
            context.reply(to, InitProducerIdResult(decision) if isinstance(decision, ErrorCode) else decision)
            return
        if metadata is None:
            metadata = self.ids[command.transactional_id] = TransactionMetadata(command.transactional_id)
        append_transitions(
            [IdTransition(metadata, decision)], context, to, lambda code: _init_result(decision, code)
        )

    def _add_partitions(self, command: AddPartitions, to: Any, context: EventContext) -> None:
        metadata = self.ids.get(command.transactional_id)
        if command.verify_only:
            context.reply(to, AddPartitionsResult(transitions.verify_partitions(metadata, command)))
            return

        def make_response(code: ErrorCode) -> AddPartitionsResult:
            return AddPartitionsResult(dict.fromkeys(command.partitions, code))

        decision = transitions.prepare_add_partitions(metadata, command, context.now.wall_ms)
        self._append_or_reply(metadata, decision, context, to, make_response)

    def _end_transaction(self, command: EndTransaction, to: Any, context: EventContext) -> None:
        metadata = self.ids.get(command.transactional_id)
        decision = transitions.prepare_end(metadata, command, context.now.wall_ms)
        self._append_or_reply(metadata, decision, context, to, lambda code: code)

    def _append_or_reply(
        self,
        metadata: TransactionMetadata | None,
        decision: ErrorCode | TxnTransitMetadata,
        context: EventContext,
        to: Any,
        make_response: Callable[[ErrorCode], Any],
    ) -> None:
        if isinstance(decision, ErrorCode):
            context.reply(to, make_response(decision))
        else:
            assert metadata is not None
            append_transitions([IdTransition(metadata, decision)], context, to, make_response)

    # Completion of appends.

    def on_append_committed(self, completion: TransitionAppend, now: Now) -> Effects:
        context = EventContext(now, self._settings)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_committed(context)
        return self._effects(context)

    def on_append_failed(self, completion: TransitionAppend, code: ErrorCode, now: Now) -> Effects:
        context = EventContext(now, self._settings)
        if completion in self._pending_appends:
            del self._pending_appends[completion]
            completion.on_failed(code, context)
            self._remove_uncreated(completion)
        return self._effects(context)

    def _remove_uncreated(self, completion: TransitionAppend) -> None:
        """Remove ids whose first record was not written."""
        for metadata, _ in completion.transitions:
            if metadata.is_removable and self.ids.get(metadata.transactional_id) is metadata:
                del self.ids[metadata.transactional_id]

    # Timers.

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        context = EventContext(now, self._settings)
        if timer == TIMEOUT_TIMER:
            self._abort_timed_out(context)
        elif timer == EXPIRATION_TIMER:
            self._delete_expired(context)
        elif isinstance(timer, RetryTimer) and timer.transactional_id in self.ids:
            resume(self.ids[timer.transactional_id], context)
        return self._effects(context)

    def _abort_timed_out(self, context: EventContext) -> None:
        for metadata in self._next_batch(self._to_time_out, self._unfinished):
            if transitions.has_timed_out(metadata, context.now.wall_ms):
                assert metadata.stored is not None
                fenced = transitions.prepare_fence(metadata.stored, context.now.wall_ms)
                append_transitions([IdTransition(metadata, fenced)], context)
        interval_ms = context.settings.timeouts_check_interval_ms
        context.schedule_timer(TIMEOUT_TIMER, NEXT_RUN_MS if self._to_time_out else interval_ms)

    def _delete_expired(self, context: EventContext) -> None:
        retention_ms, now_ms = context.settings.id_retention_ms, context.now.wall_ms
        expired: list[IdTransition] = []
        size_bytes = 0
        for metadata in self._next_batch(self._to_expire, self.ids):
            if transitions.has_expired(metadata, retention_ms, now_ms):
                expired.append(IdTransition(metadata, TxnTransitMetadata(None)))
                size_bytes += len(metadata.transactional_id.encode())
            if size_bytes >= TOMBSTONES_BYTES_MAX:
                break
        if expired:
            append_transitions(expired, context)
        interval_ms = context.settings.ids_check_interval_ms
        context.schedule_timer(EXPIRATION_TIMER, NEXT_RUN_MS if self._to_expire else interval_ms)

    def _next_batch(self, waiting: deque[str], ids: Collection[str]) -> Iterator[TransactionMetadata]:
        """Yield the next ids of the current check, or the first ids of the next one."""
        if not waiting:
            waiting.extend(ids)
        for _ in range(min(len(waiting), IDS_PER_RUN_MAX)):
            metadata = self.ids.get(waiting.popleft())
            if metadata is not None:
                yield metadata

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
        context = EventContext(now, self._settings)
        for transactional_id in self._unfinished:
            resume(self.ids[transactional_id], context)
        context.schedule_timer(TIMEOUT_TIMER, context.settings.timeouts_check_interval_ms)
        context.schedule_timer(EXPIRATION_TIMER, context.settings.ids_check_interval_ms)
        return self._effects(context)

    def on_unloaded(self) -> Effects:
        context = EventContext(Now(0, 0), self._settings)
        for completion in self._pending_appends:
            completion.on_unloaded(context)
        self._pending_appends.clear()
        self._unfinished.clear()
        self.ids.clear()
        return context.effects

    # Queries.

    def describe(self, transactional_id: str) -> TransactionDescription:
        return describe_transaction(transactional_id, self.ids.get(transactional_id))

    def listing(
        self, states: Collection[str], producer_ids: Collection[int], duration_min_ms: int, now_ms: int
    ) -> list[TransactionListing]:
        """List ids. Empty or negative filters match all. ``now_ms`` is wall clock time."""
        return list_transactions(self.ids.values(), states, producer_ids, duration_min_ms, now_ms)


def _init_result(transition: TxnTransitMetadata, code: ErrorCode) -> InitProducerIdResult:
    """Return the result of InitProducerId. If it aborted a transaction, the client has to retry until the
    abort is complete."""
    target = transition.target
    if code is not ErrorCode.NONE or target is None:
        return InitProducerIdResult(code)
    if target.state is not TransactionState.EMPTY:
        return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    return InitProducerIdResult(code, target.producer_id, target.producer_epoch)
