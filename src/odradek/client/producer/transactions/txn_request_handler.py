"""What a producer with an id asks coordinators, one request at a time, and what it makes of the answers."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from odradek.client.network.node_selection import CoordinatorType
from odradek.client.producer.transactions.errors import aborted, failed_step, fatal, fenced
from odradek.client.producer.transactions.request_queue import (
    PendingTxnRequest,
    RequestQueue,
    TransactionalRequestResult,
)
from odradek.client.producer.transactions.requests import (
    ADD_PARTITIONS_VERSION_MAX,
    TxnErrorAction,
    TxnRequestType,
    add_offsets_request,
    add_partitions_request,
    commit_offsets_request,
    end_request,
    errors_in,
    gravest,
    init_request,
    txn_error_action,
)
from odradek.client.producer.transactions.sequences import ProducerIdentity, Sequences
from odradek.client.producer.transactions.states import TxnManagerState
from odradek.client.producer.transactions.transaction_manager_port import CoordinatorRequest
from odradek.client.producer.transactions.transaction_status import TransactionStatus
from odradek.model.client_errors import ClientClosed, ClientError, RequestRefused
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

CONCURRENT_BACKOFF_MS: Final = 20
"""How long to wait while the coordinator completes the transaction before: that takes a moment only."""
_BEGINNINGS: Final = frozenset({TxnRequestType.ADD_PARTITIONS, TxnRequestType.ADD_OFFSETS})
"""Requests with which a transaction begins at the coordinator."""


class TxnRequestHandler:
    """Requests to come, the one under way, and what the coordinator knows of the transaction.

    ``added`` holds the partitions that the coordinator knows; ``wanted`` those that the application writes
    to, appended by its threads and taken by the loop's.
    """

    def __init__(
        self, standing: TransactionStatus, sequences: Sequences, timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self.added: frozenset[TopicPartition] = frozenset()
        self.wanted: deque[TopicPartition] = deque()
        self.queue = RequestQueue()
        self.to_forget: CoordinatorRequest | None = None
        self._status = standing
        self._sequences = sequences
        self._timeout_ms = timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._under_way: PendingTxnRequest | None = None
        self._is_begun = False
        self._looked_ms = 0
        self._init_at_ms = 0

    # What the machine wants.

    def init(self, operation: TransactionalRequestResult | None) -> None:
        self._status.move(TxnManagerState.INITIALIZING)
        self.queue.push(PendingTxnRequest(TxnRequestType.INIT, operation))

    def commit(self, operation: TransactionalRequestResult) -> None:
        self._status.move(TxnManagerState.COMMITTING)
        self.queue.push(PendingTxnRequest(TxnRequestType.END, operation, committed=True))

    def abort(self, operation: TransactionalRequestResult) -> None:
        """End the transaction with nothing more in it than the coordinator may know of already."""
        error = self._status.error
        if error is not None and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # The coordinator has another producer for the id and would not end a transaction of this one.
            self._is_begun = False
        self._status.move(TxnManagerState.ABORTING)
        self.wanted.clear()
        self._drop(aborted(self._status.transactional_id))
        self.queue.push(PendingTxnRequest(TxnRequestType.END, operation))

    def end(self, cause: BaseException) -> None:
        """The producer is at its end: everything that waits fails."""
        error = fatal(self._status.transactional_id, self._sequences.identity, cause)
        self._status.move(TxnManagerState.FATAL_ERROR, error)
        self.fail_all(error)

    def fail_all(self, error: ClientError) -> None:
        self.queue.fail_all(error, keep=lambda _: False)
        if self._under_way is not None:
            self._under_way.fail(error)

    # What the sender asks and tells.

    @property
    def next_wake_ms(self) -> int | None:
        first = self.queue.first
        if self._status.state is TxnManagerState.UNINITIALIZED and self._init_at_ms > self._looked_ms:
            return self._init_at_ms
        if self._under_way is not None or first is None or first.not_before_ms <= self._looked_ms:
            return None
        return first.not_before_ms

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        self._looked_ms = now_ms
        standing = self._status
        if self._under_way is not None or standing.is_fatal:
            return None
        if standing.state is TxnManagerState.ABORTABLE_ERROR:
            assert standing.error is not None
            self._drop(standing.error)
            if standing.transactional_id is None:
                self._leave_refusal(now_ms, has_incomplete)
            return None
        if standing.state is TxnManagerState.UNINITIALIZED and standing.transactional_id is None:
            self._init_if_due(now_ms, has_incomplete)
        self._add_wanted()
        while (first := self.queue.first) is not None:
            if first.step is TxnRequestType.END and has_incomplete:
                return None
            if first.step is TxnRequestType.END and not self._is_begun:
                self._ended(self.queue.pop())
                continue
            return self._leave(self.queue.pop()) if first.not_before_ms <= now_ms else None
        return None

    def handle_response(self, asked: CoordinatorRequest, answer: Any | ClientError, now_ms: int) -> None:
        pending, self._under_way = self._under_way, None
        if pending is None:
            return
        if self._status.error is not None and self._status.is_fatal:
            pending.fail(self._status.error)
        elif isinstance(answer, ClientClosed):
            pending.fail(answer)
        elif isinstance(answer, ClientError):
            self._act(pending, _meaning_without_answer(pending.step, answer), answer, asked, now_ms)
        else:
            self._read(pending, answer, asked, now_ms)

    # Requests on their way.

    def _init_if_due(self, now_ms: int, has_incomplete: bool) -> None:
        """A producer without transactions gets its id by itself; after a broker_error only if it is
        needed.
        """
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
        unsent = self.queue.unsent(TxnRequestType.ADD_PARTITIONS)
        if unsent is not None:
            unsent.partitions |= wanted
        else:
            self.queue.push(PendingTxnRequest(TxnRequestType.ADD_PARTITIONS, partitions=wanted))

    def _drop(self, error: ClientError) -> None:
        """Nobody waits for requests of a transaction that fails.

        Those that may have begun it are sent again before its end: the coordinator must not be left with it.
        """
        self.queue.fail_all(error, keep=lambda one: one.was_sent and one.step in _BEGINNINGS)

    def _leave(self, pending: PendingTxnRequest) -> CoordinatorRequest:
        self._under_way = pending
        pending.was_sent = True
        if pending.step is TxnRequestType.COMMIT_OFFSETS:
            assert pending.offsets is not None
            kind, key = CoordinatorType.GROUP, pending.offsets.group.group_id
            return CoordinatorRequest(self._built(pending), kind, key)
        if self._status.transactional_id is None:
            return CoordinatorRequest(self._built(pending))
        version_max = ADD_PARTITIONS_VERSION_MAX if pending.step is TxnRequestType.ADD_PARTITIONS else None
        return CoordinatorRequest(
            self._built(pending),
            CoordinatorType.TRANSACTION,
            self._status.transactional_id,
            version_max=version_max,
        )

    def _built(self, pending: PendingTxnRequest) -> Any:
        identity, name = self._sequences.identity, self._status.transactional_id
        if pending.step is TxnRequestType.INIT:
            return init_request(name, self._timeout_ms)
        if pending.step is TxnRequestType.BUMP:
            return init_request(name, self._timeout_ms, identity)
        assert name is not None, "only a transaction asks this"
        if pending.step is TxnRequestType.ADD_PARTITIONS:
            return add_partitions_request(name, identity, pending.partitions)
        if pending.step is TxnRequestType.END:
            return end_request(name, identity, committed=pending.committed)
        assert pending.offsets is not None
        group, offsets = pending.offsets
        if pending.step is TxnRequestType.ADD_OFFSETS:
            return add_offsets_request(name, identity, group.group_id)
        return commit_offsets_request(name, identity, group, offsets)

    # Answers.

    def _read(self, pending: PendingTxnRequest, answer: Any, asked: CoordinatorRequest, now_ms: int) -> None:
        errors = errors_in(pending.step, answer)
        if pending.step is TxnRequestType.COMMIT_OFFSETS:
            pending.drop_offsets({one for one, code in errors.items() if code is ErrorCode.NONE})
        partition, code = gravest(pending.step, errors)
        verdict = txn_error_action(pending.step, code)
        if verdict is TxnErrorAction.DONE:
            self._succeeded(pending, answer)
            return
        about = partition if partition is not None else asked.key
        self._act(pending, verdict, failed_step(pending.step, code, about), asked, now_ms)

    def _act(
        self,
        pending: PendingTxnRequest,
        verdict: TxnErrorAction,
        error: ClientError,
        asked: CoordinatorRequest,
        now_ms: int,
    ) -> None:
        if verdict in (TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR):
            if verdict is TxnErrorAction.FIND_COORDINATOR and asked.kind is not None:
                self.to_forget = asked
            self._retry(pending, error, now_ms)
        elif verdict is TxnErrorAction.FENCED:
            self.end(fenced(self._status.transactional_id, self._sequences.identity))
            pending.fail(self._ended_by(error))
        elif verdict is TxnErrorAction.FATAL or (
            verdict is TxnErrorAction.ABORT_AND_BUMP and not self._status.can_bump
        ):
            self.end(error)
            pending.fail(self._ended_by(error))
        elif pending.step in (TxnRequestType.INIT, TxnRequestType.BUMP):
            self._refused(pending, error)
        else:
            self._failed(pending, verdict, error)

    def _ended_by(self, error: ClientError) -> ClientError:
        return self._status.error or error

    def _retry(self, pending: PendingTxnRequest, error: ClientError, now_ms: int) -> None:
        code = error.code
        is_quick = (
            code is ErrorCode.CONCURRENT_TRANSACTIONS and pending.step in _BEGINNINGS and not self.added
        )
        wait_ms = min(CONCURRENT_BACKOFF_MS, self._retry_backoff_ms) if is_quick else self._retry_backoff_ms
        pending.not_before_ms = now_ms + wait_ms
        if pending.operation is not None:
            pending.operation.trouble = error
        if self._status.state is TxnManagerState.ABORTING and pending.step is TxnRequestType.COMMIT_OFFSETS:
            pending.fail(aborted(self._status.transactional_id))
        else:
            self.queue.push_back(pending)

    def _refused(self, pending: PendingTxnRequest, error: ClientError) -> None:
        """There is no id to be had; the application may ask again.

        A producer without transactions asks by itself, once what waits for its id has failed.
        """
        self._status.move(TxnManagerState.ABORTABLE_ERROR, error)
        if self._status.transactional_id is not None:
            self._status.move(TxnManagerState.UNINITIALIZED)
        pending.fail(error)

    def _leave_refusal(self, now_ms: int, has_incomplete: bool) -> None:
        if not has_incomplete:
            self._status.move(TxnManagerState.UNINITIALIZED)
            self._init_at_ms = now_ms + self._retry_backoff_ms

    def _failed(self, pending: PendingTxnRequest, verdict: TxnErrorAction, error: ClientError) -> None:
        self._status.needs_bump |= verdict is TxnErrorAction.ABORT_AND_BUMP
        if self._status.state is TxnManagerState.ABORTING and pending.step is TxnRequestType.END:
            # The coordinator has no such transaction any more: it is over, and the next has a new epoch.
            self._status.needs_bump = self._status.can_bump
            self._ended(pending)
        else:
            pending.fail(error)
            self._status.must_abort(error)

    def _succeeded(self, pending: PendingTxnRequest, answer: Any) -> None:
        step, operation = pending.step, pending.operation
        if step in (TxnRequestType.INIT, TxnRequestType.BUMP):
            if self._status.transactional_id is not None:
                self._sequences.forget_all()
            self._sequences.become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
            self._status.move(TxnManagerState.READY)
        elif step is TxnRequestType.END:
            self._ended(pending)
            return
        elif step is TxnRequestType.ADD_PARTITIONS:
            self._is_begun = True
            self.added |= pending.partitions
        elif step is TxnRequestType.ADD_OFFSETS:
            self._is_begun = True
            if operation is not None and not operation.is_done:
                self.queue.push(
                    PendingTxnRequest(TxnRequestType.COMMIT_OFFSETS, operation, offsets=pending.offsets)
                )
            return
        if operation is not None:
            operation.succeed()

    def _ended(self, pending: PendingTxnRequest) -> None:
        """The transaction is over; after numbers in doubt the producer needs another epoch for the next."""
        self._is_begun = False
        self.added = frozenset()
        needs_bump, self._status.needs_bump = self._status.needs_bump, False
        if needs_bump and self._status.state is TxnManagerState.ABORTING:
            self._status.move(TxnManagerState.INITIALIZING)
            self.queue.push(PendingTxnRequest(TxnRequestType.BUMP, pending.operation))
        else:
            self._status.move(TxnManagerState.READY)
            if pending.operation is not None:
                pending.operation.succeed()


def _meaning_without_answer(step: TxnRequestType, error: ClientError) -> TxnErrorAction:
    """What to do when the coordinator could not be found or asked."""
    if isinstance(error, RequestRefused) and error.code is not None:
        return txn_error_action(step, error.code)
    return TxnErrorAction.FIND_COORDINATOR if error.retriable else TxnErrorAction.FATAL
