"""What a producer with an id asks coordinators, one request at a time, and what it makes of the answers."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from odradek.client.producer.idempotence import CoordinatorRequest
from odradek.client.producer.transactions.errors import aborted, failed_step, fatal, fenced
from odradek.client.producer.transactions.operations import Operation, Pending, RequestQueue
from odradek.client.producer.transactions.requests import (
    ADD_PARTITIONS_VERSION_MAX,
    Meaning,
    Step,
    add_offsets_request,
    add_partitions_request,
    commit_offsets_request,
    end_request,
    errors_in,
    gravest,
    init_request,
    meaning,
)
from odradek.client.producer.transactions.sequences import ProducerIdentity, Sequences
from odradek.client.producer.transactions.standing import Standing
from odradek.client.producer.transactions.states import State
from odradek.client.routing import CoordinatorKind
from odradek.model.client_errors import ClientClosed, ClientError, RequestRefused
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

CONCURRENT_BACKOFF_MS: Final = 20
"""How long to wait while the coordinator completes the transaction before: that takes a moment only."""
_BEGINNINGS: Final = frozenset({Step.ADD_PARTITIONS, Step.ADD_OFFSETS})
"""Requests with which a transaction begins at the coordinator."""


class Exchange:
    """Requests to come, the one under way, and what the coordinator knows of the transaction.

    ``added`` holds the partitions that the coordinator knows; ``wanted`` those that the application writes
    to, appended by its threads and taken by the loop's.
    """

    def __init__(
        self, standing: Standing, sequences: Sequences, timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self.added: frozenset[TopicPartition] = frozenset()
        self.wanted: deque[TopicPartition] = deque()
        self.queue = RequestQueue()
        self.to_forget: CoordinatorRequest | None = None
        self._standing = standing
        self._sequences = sequences
        self._timeout_ms = timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._under_way: Pending | None = None
        self._is_begun = False
        self._looked_ms = 0
        self._init_at_ms = 0

    # What the machine wants.

    def init(self, operation: Operation | None) -> None:
        self._standing.move(State.INITIALIZING)
        self.queue.push(Pending(Step.INIT, operation))

    def commit(self, operation: Operation) -> None:
        self._standing.move(State.COMMITTING)
        self.queue.push(Pending(Step.END, operation, committed=True))

    def abort(self, operation: Operation) -> None:
        """End the transaction with nothing more in it than the coordinator may know of already."""
        error = self._standing.error
        if error is not None and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # The coordinator has another producer for the id and would not end a transaction of this one.
            self._is_begun = False
        self._standing.move(State.ABORTING)
        self.wanted.clear()
        self._drop(aborted(self._standing.transactional_id))
        self.queue.push(Pending(Step.END, operation))

    def end(self, cause: BaseException) -> None:
        """The producer is at its end: everything that waits fails."""
        error = fatal(self._standing.transactional_id, self._sequences.identity, cause)
        self._standing.move(State.FATAL_ERROR, error)
        self.fail_all(error)

    def fail_all(self, error: ClientError) -> None:
        self.queue.fail_all(error, keep=lambda _: False)
        if self._under_way is not None:
            self._under_way.fail(error)

    # What the sender asks and tells.

    @property
    def next_wake_ms(self) -> int | None:
        first = self.queue.first
        if self._standing.state is State.UNINITIALIZED and self._init_at_ms > self._looked_ms:
            return self._init_at_ms
        if self._under_way is not None or first is None or first.not_before_ms <= self._looked_ms:
            return None
        return first.not_before_ms

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        self._looked_ms = now_ms
        standing = self._standing
        if self._under_way is not None or standing.is_fatal:
            return None
        if standing.state is State.ABORTABLE_ERROR:
            assert standing.error is not None
            self._drop(standing.error)
            if standing.transactional_id is None:
                self._leave_refusal(now_ms, has_incomplete)
            return None
        if standing.state is State.UNINITIALIZED and standing.transactional_id is None:
            self._init_if_due(now_ms, has_incomplete)
        self._add_wanted()
        while (first := self.queue.first) is not None:
            if first.step is Step.END and has_incomplete:
                return None
            if first.step is Step.END and not self._is_begun:
                self._ended(self.queue.pop())
                continue
            return self._leave(self.queue.pop()) if first.not_before_ms <= now_ms else None
        return None

    def answered(self, asked: CoordinatorRequest, answer: Any | ClientError, now_ms: int) -> None:
        pending, self._under_way = self._under_way, None
        if pending is None:
            return
        if self._standing.error is not None and self._standing.is_fatal:
            pending.fail(self._standing.error)
        elif isinstance(answer, ClientClosed):
            pending.fail(answer)
        elif isinstance(answer, ClientError):
            self._act(pending, _meaning_without_answer(pending.step, answer), answer, asked, now_ms)
        else:
            self._read(pending, answer, asked, now_ms)

    # Requests on their way.

    def _init_if_due(self, now_ms: int, has_incomplete: bool) -> None:
        """A producer without transactions gets its id by itself; after a refusal only if it is needed."""
        if self._init_at_ms == 0 or (has_incomplete and now_ms >= self._init_at_ms):
            self.init(None)

    def _add_wanted(self) -> None:
        if not self.wanted:
            return
        wanted = set()
        while self.wanted:
            wanted.add(self.wanted.popleft())
        wanted -= self.added
        wanted -= self.queue.partitions
        if not wanted:
            return
        unsent = self.queue.unsent(Step.ADD_PARTITIONS)
        if unsent is not None:
            unsent.partitions |= wanted
        else:
            self.queue.push(Pending(Step.ADD_PARTITIONS, partitions=wanted))

    def _drop(self, error: ClientError) -> None:
        """Nobody waits for requests of a transaction that fails.

        Those that may have begun it are sent again before its end: the coordinator must not be left with it.
        """
        self.queue.fail_all(error, keep=lambda one: one.was_sent and one.step in _BEGINNINGS)

    def _leave(self, pending: Pending) -> CoordinatorRequest:
        self._under_way = pending
        pending.was_sent = True
        if pending.step is Step.COMMIT_OFFSETS:
            assert pending.offsets is not None
            kind, key = CoordinatorKind.GROUP, pending.offsets.group.group_id
            return CoordinatorRequest(self._built(pending), kind, key)
        if self._standing.transactional_id is None:
            return CoordinatorRequest(self._built(pending))
        version_max = ADD_PARTITIONS_VERSION_MAX if pending.step is Step.ADD_PARTITIONS else None
        return CoordinatorRequest(
            self._built(pending),
            CoordinatorKind.TRANSACTION,
            self._standing.transactional_id,
            version_max=version_max,
        )

    def _built(self, pending: Pending) -> Any:
        identity, name = self._sequences.identity, self._standing.transactional_id
        if pending.step is Step.INIT:
            return init_request(name, self._timeout_ms)
        if pending.step is Step.BUMP:
            return init_request(name, self._timeout_ms, identity)
        assert name is not None, "only a transaction asks this"
        if pending.step is Step.ADD_PARTITIONS:
            return add_partitions_request(name, identity, pending.partitions)
        if pending.step is Step.END:
            return end_request(name, identity, committed=pending.committed)
        assert pending.offsets is not None
        group, offsets = pending.offsets
        if pending.step is Step.ADD_OFFSETS:
            return add_offsets_request(name, identity, group.group_id)
        return commit_offsets_request(name, identity, group, offsets)

    # Answers.

    def _read(self, pending: Pending, answer: Any, asked: CoordinatorRequest, now_ms: int) -> None:
        errors = errors_in(pending.step, answer)
        if pending.step is Step.COMMIT_OFFSETS:
            pending.drop_offsets({one for one, code in errors.items() if code is ErrorCode.NONE})
        partition, code = gravest(pending.step, errors)
        verdict = meaning(pending.step, code)
        if verdict is Meaning.DONE:
            self._succeeded(pending, answer)
            return
        about = partition if partition is not None else asked.key
        self._act(pending, verdict, failed_step(pending.step, code, about), asked, now_ms)

    def _act(
        self, pending: Pending, verdict: Meaning, error: ClientError, asked: CoordinatorRequest, now_ms: int
    ) -> None:
        if verdict in (Meaning.RETRY, Meaning.FIND_COORDINATOR):
            if verdict is Meaning.FIND_COORDINATOR and asked.kind is not None:
                self.to_forget = asked
            self._retry(pending, error, now_ms)
        elif verdict is Meaning.FENCED:
            self.end(fenced(self._standing.transactional_id, self._sequences.identity))
            pending.fail(self._ended_by(error))
        elif verdict is Meaning.FATAL or (verdict is Meaning.ABORT_AND_BUMP and not self._standing.can_bump):
            self.end(error)
            pending.fail(self._ended_by(error))
        elif pending.step in (Step.INIT, Step.BUMP):
            self._refused(pending, error)
        else:
            self._failed(pending, verdict, error)

    def _ended_by(self, error: ClientError) -> ClientError:
        return self._standing.error or error

    def _retry(self, pending: Pending, error: ClientError, now_ms: int) -> None:
        code = error.code
        is_quick = (
            code is ErrorCode.CONCURRENT_TRANSACTIONS and pending.step in _BEGINNINGS and not self.added
        )
        wait_ms = min(CONCURRENT_BACKOFF_MS, self._retry_backoff_ms) if is_quick else self._retry_backoff_ms
        pending.not_before_ms = now_ms + wait_ms
        if pending.operation is not None:
            pending.operation.trouble = error
        if self._standing.state is State.ABORTING and pending.step is Step.COMMIT_OFFSETS:
            pending.fail(aborted(self._standing.transactional_id))
        else:
            self.queue.push_back(pending)

    def _refused(self, pending: Pending, error: ClientError) -> None:
        """There is no id to be had; the application may ask again.

        A producer without transactions asks by itself, once what waits for its id has failed.
        """
        self._standing.move(State.ABORTABLE_ERROR, error)
        if self._standing.transactional_id is not None:
            self._standing.move(State.UNINITIALIZED)
        pending.fail(error)

    def _leave_refusal(self, now_ms: int, has_incomplete: bool) -> None:
        if not has_incomplete:
            self._standing.move(State.UNINITIALIZED)
            self._init_at_ms = now_ms + self._retry_backoff_ms

    def _failed(self, pending: Pending, verdict: Meaning, error: ClientError) -> None:
        self._standing.needs_bump |= verdict is Meaning.ABORT_AND_BUMP
        if self._standing.state is State.ABORTING and pending.step is Step.END:
            # The coordinator has no such transaction any more: it is over, and the next has a new epoch.
            self._standing.needs_bump = self._standing.can_bump
            self._ended(pending)
        else:
            pending.fail(error)
            self._standing.must_abort(error)

    def _succeeded(self, pending: Pending, answer: Any) -> None:
        step, operation = pending.step, pending.operation
        if step in (Step.INIT, Step.BUMP):
            if self._standing.transactional_id is not None:
                self._sequences.forget_all()
            self._sequences.become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
            self._standing.move(State.READY)
        elif step is Step.END:
            self._ended(pending)
            return
        elif step is Step.ADD_PARTITIONS:
            self._is_begun = True
            self.added |= pending.partitions
        elif step is Step.ADD_OFFSETS:
            self._is_begun = True
            if operation is not None and not operation.is_done:
                self.queue.push(Pending(Step.COMMIT_OFFSETS, operation, offsets=pending.offsets))
            return
        if operation is not None:
            operation.succeed()

    def _ended(self, pending: Pending) -> None:
        """The transaction is over; after numbers in doubt the producer needs another epoch for the next."""
        self._is_begun = False
        self.added = frozenset()
        needs_bump, self._standing.needs_bump = self._standing.needs_bump, False
        if needs_bump and self._standing.state is State.ABORTING:
            self._standing.move(State.INITIALIZING)
            self.queue.push(Pending(Step.BUMP, pending.operation))
        else:
            self._standing.move(State.READY)
            if pending.operation is not None:
                pending.operation.succeed()


def _meaning_without_answer(step: Step, error: ClientError) -> Meaning:
    """What to do when the coordinator could not be found or asked."""
    if isinstance(error, RequestRefused) and error.code is not None:
        return meaning(step, error.code)
    return Meaning.FIND_COORDINATOR if error.retriable else Meaning.FATAL
