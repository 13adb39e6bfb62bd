"""The transactional ids behind one partition of ``__transaction_state``.

Invariant: ``apply`` alone changes what is durable (``stored`` of each id), and a shard that is told the
same again knows the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Final

from odradek.coordinators.effects import AppendRecords, CoordinatorRecord, Effects, Now
from odradek.coordinators.transactions import description, transitions
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
from odradek.coordinators.transactions.event_context import EventContext
from odradek.coordinators.transactions.records import read_key, read_transaction
from odradek.coordinators.transactions.settings import TransactionSettings
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata, TxnTransitMetadata
from odradek.coordinators.transactions.transaction_state import AT_REST, TransactionState
from odradek.coordinators.transactions.transition_appends import (
    IdTransition,
    RetryTimer,
    TransitionAppend,
    complete_markers,
    resume,
    write,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID

TIMEOUT_TIMER: Final = "timeouts"
"""The timer that looks for transactions that are open for too long."""
EXPIRATION_TIMER: Final = "expiry"
"""The timer that looks for ids that nobody uses any more."""

IDS_AT_ONCE_MAX: Final = 500
"""Ids that one turn of a timer looks at, and may write of: whoever has many must not keep all others waiting.
This takes about a millisecond if none is due."""
NEXT_TURN_MS: Final = 1
TOMBSTONES_BYTES_MAX: Final = 65_536
"""Of names in one append, but for the last one: a batch must not be larger than the topic takes."""


class TransactionCoordinatorShard:
    """``settings`` is asked for what holds now."""

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        self.ids: dict[str, TransactionMetadata] = {}
        self._settings = settings
        self._writes: dict[TransitionAppend, None] = {}
        self._not_at_rest: dict[str, None] = {}
        """Ids with a transaction that has not ended, so that all others cost nothing."""
        self._to_time_out: deque[str] = deque()
        self._to_expire: deque[str] = deque()

    def _done(self, turn: EventContext) -> Effects:
        """The effects of a turn; writes among them are remembered until their fate is known."""
        self._writes.update((one.completion, None) for one in turn.effects if isinstance(one, AppendRecords))
        return turn.effects

    # Commands.

    def handle(self, command: Command, to: Any, now: Now) -> Effects:
        turn = EventContext(now, self._settings)
        match command:
            case InitProducerId():
                self._init(command, to, turn)
            case AddPartitions():
                self._add(command, to, turn)
            case EndTransaction():
                self._end(command, to, turn)
            case MarkersWritten():
                one = self.ids.get(command.task.transactional_id)
                turn.reply(to, complete_markers(one, command, turn))
        return self._done(turn)

    def _init(self, command: InitProducerId, to: Any, turn: EventContext) -> None:
        one = self.ids.get(command.transactional_id)
        verdict = transitions.prepare_init_producer_id(
            one, command, turn.settings.timeout_max_ms, turn.now.wall_ms
        )
        if not isinstance(verdict, TxnTransitMetadata):
            turn.reply(to, InitProducerIdResult(verdict) if isinstance(verdict, ErrorCode) else verdict)
            return
        if one is None:
            one = self.ids[command.transactional_id] = TransactionMetadata(command.transactional_id)
        write([IdTransition(one, verdict)], turn, to, lambda code: _initialised(verdict, code))

    def _add(self, command: AddPartitions, to: Any, turn: EventContext) -> None:
        one = self.ids.get(command.transactional_id)
        if command.verify_only:
            turn.reply(to, AddPartitionsResult(transitions.verify_partitions(one, command)))
            return

        def answer(code: ErrorCode) -> AddPartitionsResult:
            return AddPartitionsResult(dict.fromkeys(command.partitions, code))

        verdict = transitions.prepare_add_partitions(one, command, turn.now.wall_ms)
        self._write_or_reply(one, verdict, turn, to, answer)

    def _end(self, command: EndTransaction, to: Any, turn: EventContext) -> None:
        one = self.ids.get(command.transactional_id)
        verdict = transitions.prepare_end(one, command, turn.now.wall_ms)
        self._write_or_reply(one, verdict, turn, to, lambda code: code)

    def _write_or_reply(
        self,
        one: TransactionMetadata | None,
        verdict: ErrorCode | TxnTransitMetadata,
        turn: EventContext,
        to: Any,
        answer: Callable[[ErrorCode], Any],
    ) -> None:
        if isinstance(verdict, ErrorCode):
            turn.reply(to, answer(verdict))
        else:
            assert one is not None
            write([IdTransition(one, verdict)], turn, to, answer)

    # What became of writes.

    def on_append_committed(self, completion: TransitionAppend, now: Now) -> Effects:
        turn = EventContext(now, self._settings)
        if completion in self._writes:
            del self._writes[completion]
            completion.committed(turn)
        return self._done(turn)

    def on_append_failed(self, completion: TransitionAppend, code: ErrorCode, now: Now) -> Effects:
        turn = EventContext(now, self._settings)
        if completion in self._writes:
            del self._writes[completion]
            completion.refused(code, turn)
            self._forget(completion)
        return self._done(turn)

    def _forget(self, completion: TransitionAppend) -> None:
        """An id that did not come into being is none."""
        for one, _ in completion.changes:
            if one.is_nothing and self.ids.get(one.name) is one:
                del self.ids[one.name]

    # Timers.

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        turn = EventContext(now, self._settings)
        if timer == TIMEOUT_TIMER:
            self._abort_overdue(turn)
        elif timer == EXPIRATION_TIMER:
            self._expire(turn)
        elif isinstance(timer, RetryTimer) and timer.transactional_id in self.ids:
            resume(self.ids[timer.transactional_id], turn)
        return self._done(turn)

    def _abort_overdue(self, turn: EventContext) -> None:
        for one in self._next_of(self._to_time_out, self._not_at_rest):
            if transitions.has_timed_out(one, turn.now.wall_ms):
                assert one.stored is not None
                write([IdTransition(one, transitions.fenced(one.stored, turn.now.wall_ms))], turn)
        interval_ms = turn.settings.timeouts_check_interval_ms
        turn.arm(TIMEOUT_TIMER, NEXT_TURN_MS if self._to_time_out else interval_ms)

    def _expire(self, turn: EventContext) -> None:
        retention_ms, now_ms = turn.settings.id_retention_ms, turn.now.wall_ms
        gone: list[IdTransition] = []
        size_bytes = 0
        for one in self._next_of(self._to_expire, self.ids):
            if transitions.has_expired(one, retention_ms, now_ms):
                gone.append(IdTransition(one, TxnTransitMetadata(None)))
                size_bytes += len(one.name.encode())
            if size_bytes >= TOMBSTONES_BYTES_MAX:
                break
        if gone:
            write(gone, turn)
        turn.arm(EXPIRATION_TIMER, NEXT_TURN_MS if self._to_expire else turn.settings.ids_check_interval_ms)

    def _next_of(self, waiting: deque[str], names: Collection[str]) -> Iterator[TransactionMetadata]:
        """Some ids: the next where the last turn left off, or the first ones."""
        if not waiting:
            waiting.extend(names)
        for _ in range(min(len(waiting), IDS_AT_ONCE_MAX)):
            one = self.ids.get(waiting.popleft())
            if one is not None:
                yield one

    # What the log says.

    def replay(self, entry: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Bytes that cannot be read raise ``BrokerError``, and change nothing."""
        name = read_key(entry.key)
        if name is None:
            return
        stored = None if entry.value is None else read_transaction(entry.value)
        one = self.ids.get(name) or TransactionMetadata(name)
        one.applied(stored)
        if one.is_nothing:
            self.ids.pop(name, None)
        else:
            self.ids[name] = one
        if stored is not None and stored.state not in AT_REST:
            self._not_at_rest[name] = None
        else:
            self._not_at_rest.pop(name, None)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        """Nobody writes here as part of a transaction."""

    def on_loaded(self, now: Now) -> Effects:
        turn = EventContext(now, self._settings)
        for name in self._not_at_rest:
            resume(self.ids[name], turn)
        turn.arm(TIMEOUT_TIMER, turn.settings.timeouts_check_interval_ms)
        turn.arm(EXPIRATION_TIMER, turn.settings.ids_check_interval_ms)
        return self._done(turn)

    def on_unloaded(self) -> Effects:
        turn = EventContext(Now(0, 0), self._settings)
        for completion in self._writes:
            completion.abandoned(turn)
        self._writes.clear()
        self._not_at_rest.clear()
        self.ids.clear()
        return turn.effects

    # Questions.

    def describe(self, transactional_id: str) -> TransactionDescription:
        return description.describe(transactional_id, self.ids.get(transactional_id))

    def listing(
        self, states: Collection[str], producer_ids: Collection[int], duration_min_ms: int, now_ms: int
    ) -> list[TransactionListing]:
        """Filters that are empty, or negative, let all pass. ``now_ms`` is by the wall clock."""
        return description.listing(self.ids.values(), states, producer_ids, duration_min_ms, now_ms)


def _initialised(transition: TxnTransitMetadata, code: ErrorCode) -> InitProducerIdResult:
    """An aborted transaction has to be ended first; then the producer gets its epoch."""
    target = transition.target
    if code is not ErrorCode.NONE or target is None:
        return InitProducerIdResult(code)
    if target.state is not TransactionState.EMPTY:
        return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    return InitProducerIdResult(code, target.producer_id, target.producer_epoch)
