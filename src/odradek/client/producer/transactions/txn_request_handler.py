"""Requests of the transaction manager to coordinators, one at a time, and the handling of their responses."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from odradek.client.network.node_selection import CoordinatorType
from odradek.client.producer.transactions.errors import (
    fatal_producer_error,
    producer_fenced,
    request_error,
    transaction_aborted,
)
from odradek.client.producer.transactions.request_queue import (
    STARTING_REQUESTS,
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
    gravest,
    init_request,
    response_errors,
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
"""Backoff while the coordinator completes the previous transaction, which is quick."""
CONCURRENT_MAX_MS: Final = 5_000
"""Time after which the coordinator is looked up again: a replaced one never completes a transaction."""


class TxnRequestHandler:
    """Queued requests, the one in flight, and the transaction as the coordinator knows it.

    ``partitions_in_transaction`` holds the partitions that the coordinator has added; ``new_partitions``
    those to add, appended by application threads and taken by the loop.
    """

    def __init__(
        self, status: TransactionStatus, sequences: Sequences, timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self.partitions_in_transaction: frozenset[TopicPartition] = frozenset()
        self.new_partitions: deque[TopicPartition] = deque()
        self.queue = RequestQueue()
        self.lost_coordinator: CoordinatorRequest | None = None
        self._status = status
        self._sequences = sequences
        self._timeout_ms = timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._in_flight: PendingTxnRequest | None = None
        self._is_started = False
        self._checked_ms = 0
        self._init_at_ms = 0

    # Called by the transaction manager.

    def init(self, result: TransactionalRequestResult | None) -> None:
        self._status.transition(TxnManagerState.INITIALIZING)
        self.queue.push(PendingTxnRequest(TxnRequestType.INIT, result))

    def commit(self, result: TransactionalRequestResult) -> None:
        self._status.transition(TxnManagerState.COMMITTING)
        self.queue.push(PendingTxnRequest(TxnRequestType.END, result, committed=True))

    def abort(self, result: TransactionalRequestResult) -> None:
        """Abort the transaction, without adding more to it."""
        error = self._status.error
        if error is not None and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # The coordinator has another producer for the id, and would reject EndTxn of this one.
            self._is_started = False
        self._status.transition(TxnManagerState.ABORTING)
        self.new_partitions.clear()
        self.queue.fail_unstarted(transaction_aborted(self._status.transactional_id))
        self.queue.push(PendingTxnRequest(TxnRequestType.END, result))

    def fail_producer(self, cause: BaseException) -> None:
        """Enter the fatal state, and fail everything that is pending."""
        error = fatal_producer_error(self._status.transactional_id, self._sequences.identity, cause)
        self._status.transition(TxnManagerState.FATAL_ERROR, error)
        self.fail_all(error)

    def fail_all(self, error: ClientError) -> None:
        self.queue.fail_all(error)
        if self._in_flight is not None:
            self._in_flight.fail(error)

    # Called by the sender.

    @property
    def next_check_ms(self) -> int | None:
        first = self.queue.first
        if self._status.state is TxnManagerState.UNINITIALIZED and self._init_at_ms > self._checked_ms:
            return self._init_at_ms
        if self._in_flight is not None or first is None or first.not_before_ms <= self._checked_ms:
            return None
        return first.not_before_ms

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        self._checked_ms = now_ms
        status = self._status
        if self._in_flight is not None or status.is_fatal:
            return None
        if status.state is TxnManagerState.ABORTABLE_ERROR:
            assert status.error is not None
            self.queue.fail_unstarted(status.error)
            if status.transactional_id is None:
                self._recover_from_rejection(now_ms, has_incomplete)
            return None
        if status.state is TxnManagerState.UNINITIALIZED and status.transactional_id is None:
            self._init_if_due(now_ms, has_incomplete)
        self._add_new_partitions()
        while (first := self.queue.first) is not None:
            if first.request_type is TxnRequestType.END and has_incomplete:
                return None
            if first.request_type is TxnRequestType.END and not self._is_started:
                self._on_ended(self.queue.pop())
                continue
            return self._send(self.queue.pop()) if first.not_before_ms <= now_ms else None
        return None

    def handle_response(self, request: CoordinatorRequest, response: Any | ClientError, now_ms: int) -> None:
        pending, self._in_flight = self._in_flight, None
        if pending is None:
            return
        if self._status.error is not None and self._status.is_fatal:
            pending.fail(self._status.error)
        elif isinstance(response, ClientClosed):
            pending.fail(response)
        elif isinstance(response, ClientError):
            action = _action_without_response(pending.request_type, response)
            self._handle_error(pending, action, response, request, now_ms)
        else:
            self._read_response(pending, response, request, now_ms)

    # Requests.

    def _init_if_due(self, now_ms: int, has_incomplete: bool) -> None:
        """Request a producer id for a producer without transactions; after a rejection only if needed."""
        if self._init_at_ms == 0 or (has_incomplete and now_ms >= self._init_at_ms):
            self.init(None)

    def _add_new_partitions(self) -> None:
        if not self.new_partitions:
            return
        partitions = set()
        while self.new_partitions:
            partitions.add(self.new_partitions.popleft())
        partitions -= self.partitions_in_transaction
        partitions -= self.queue.partitions
        if not partitions:
            return
        unsent = self.queue.unsent(TxnRequestType.ADD_PARTITIONS)
        if unsent is not None:
            unsent.partitions |= partitions
        else:
            self.queue.push(PendingTxnRequest(TxnRequestType.ADD_PARTITIONS, partitions=partitions))

    def _send(self, pending: PendingTxnRequest) -> CoordinatorRequest:
        self._in_flight = pending
        pending.was_sent = True
        request = _build_request(
            pending, self._status.transactional_id, self._sequences.identity, self._timeout_ms
        )
        if pending.request_type is TxnRequestType.COMMIT_OFFSETS:
            assert pending.offsets is not None
            key_type, key = CoordinatorType.GROUP, pending.offsets.group.group_id
            return CoordinatorRequest(request, key_type, key)
        if self._status.transactional_id is None:
            return CoordinatorRequest(request)
        is_add_partitions = pending.request_type is TxnRequestType.ADD_PARTITIONS
        return CoordinatorRequest(
            request,
            CoordinatorType.TRANSACTION,
            self._status.transactional_id,
            version_max=ADD_PARTITIONS_VERSION_MAX if is_add_partitions else None,
        )

    # Responses.

    def _read_response(
        self, pending: PendingTxnRequest, response: Any, request: CoordinatorRequest, now_ms: int
    ) -> None:
        errors = response_errors(pending.request_type, response)
        if pending.request_type is TxnRequestType.COMMIT_OFFSETS:
            pending.drop_offsets({partition for partition, code in errors.items() if code is ErrorCode.NONE})
        partition, code = gravest(pending.request_type, errors)
        action = txn_error_action(pending.request_type, code)
        if action is TxnErrorAction.DONE:
            self._on_success(pending, response)
            return
        key = partition if partition is not None else request.key
        error = request_error(pending.request_type, code, key)
        self._handle_error(pending, action, error, request, now_ms)

    def _handle_error(
        self,
        pending: PendingTxnRequest,
        action: TxnErrorAction,
        error: ClientError,
        request: CoordinatorRequest,
        now_ms: int,
    ) -> None:
        if action in (TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR):
            if action is TxnErrorAction.FIND_COORDINATOR or _note_concurrent(pending, error, now_ms):
                pending.concurrent_since_ms = None
                if request.key_type is not None:
                    self.lost_coordinator = request
            self._retry(pending, error, now_ms)
        elif action is TxnErrorAction.FENCED:
            self.fail_producer(producer_fenced(self._status.transactional_id, self._sequences.identity))
            pending.fail(self._status.error or error)
        elif action is TxnErrorAction.FATAL or (
            action is TxnErrorAction.ABORT_AND_BUMP and not self._status.can_bump
        ):
            self.fail_producer(error)
            pending.fail(self._status.error or error)
        elif pending.request_type in (TxnRequestType.INIT, TxnRequestType.BUMP):
            self._on_init_rejected(pending, error)
        else:
            self._fail_transaction(pending, action, error)

    def _retry(self, pending: PendingTxnRequest, error: ClientError, now_ms: int) -> None:
        is_quick = (
            error.code is ErrorCode.CONCURRENT_TRANSACTIONS
            and pending.request_type in STARTING_REQUESTS
            and not self.partitions_in_transaction
        )
        backoff_ms = (
            min(CONCURRENT_BACKOFF_MS, self._retry_backoff_ms) if is_quick else self._retry_backoff_ms
        )
        pending.not_before_ms = now_ms + backoff_ms
        if pending.result is not None:
            pending.result.last_error = error
        is_aborting = self._status.state is TxnManagerState.ABORTING
        if is_aborting and pending.request_type is TxnRequestType.COMMIT_OFFSETS:
            pending.fail(transaction_aborted(self._status.transactional_id))
        else:
            self.queue.requeue(pending)

    def _on_init_rejected(self, pending: PendingTxnRequest, error: ClientError) -> None:
        """Fail the call; the application may try again.

        A producer without transactions tries again by itself, once the batches that need its id have failed.
        """
        self._status.transition(TxnManagerState.ABORTABLE_ERROR, error)
        if self._status.transactional_id is not None:
            self._status.transition(TxnManagerState.UNINITIALIZED)
        pending.fail(error)

    def _recover_from_rejection(self, now_ms: int, has_incomplete: bool) -> None:
        if not has_incomplete:
            self._status.transition(TxnManagerState.UNINITIALIZED)
            self._init_at_ms = now_ms + self._retry_backoff_ms

    def _fail_transaction(
        self, pending: PendingTxnRequest, action: TxnErrorAction, error: ClientError
    ) -> None:
        self._status.needs_bump |= action is TxnErrorAction.ABORT_AND_BUMP
        is_aborting = self._status.state is TxnManagerState.ABORTING
        if is_aborting and pending.request_type is TxnRequestType.END:
            # The coordinator no longer has the transaction: it is aborted, and the next needs a new epoch.
            self._status.needs_bump = self._status.can_bump
            self._on_ended(pending)
        else:
            pending.fail(error)
            self._status.fail_transaction(error)

    def _on_success(self, pending: PendingTxnRequest, response: Any) -> None:
        request_type, result = pending.request_type, pending.result
        if request_type in (TxnRequestType.INIT, TxnRequestType.BUMP):
            if self._status.transactional_id is not None:
                self._sequences.forget_all()
            self._sequences.set_identity(ProducerIdentity(response.producer_id, response.producer_epoch))
            self._status.transition(TxnManagerState.READY)
        elif request_type is TxnRequestType.END:
            self._on_ended(pending)
            return
        elif request_type is TxnRequestType.ADD_PARTITIONS:
            self._is_started = True
            self.partitions_in_transaction |= pending.partitions
        elif request_type is TxnRequestType.ADD_OFFSETS:
            self._is_started = True
            if result is not None and not result.is_done:
                self.queue.push(
                    PendingTxnRequest(TxnRequestType.COMMIT_OFFSETS, result, offsets=pending.offsets)
                )
            return
        if result is not None:
            result.succeed()

    def _on_ended(self, pending: PendingTxnRequest) -> None:
        """End the transaction; bump the epoch first if sequences were unresolved."""
        self._is_started = False
        self.partitions_in_transaction = frozenset()
        needs_bump, self._status.needs_bump = self._status.needs_bump, False
        if needs_bump and self._status.state is TxnManagerState.ABORTING:
            self._status.transition(TxnManagerState.INITIALIZING)
            self.queue.push(PendingTxnRequest(TxnRequestType.BUMP, pending.result))
        else:
            self._status.transition(TxnManagerState.READY)
            if pending.result is not None:
                pending.result.succeed()


def _build_request(
    pending: PendingTxnRequest, transactional_id: str | None, identity: ProducerIdentity, timeout_ms: int
) -> Any:
    if pending.request_type is TxnRequestType.INIT:
        return init_request(transactional_id, timeout_ms)
    if pending.request_type is TxnRequestType.BUMP:
        return init_request(transactional_id, timeout_ms, identity)
    assert transactional_id is not None, "only transactions send the other requests"
    if pending.request_type is TxnRequestType.ADD_PARTITIONS:
        return add_partitions_request(transactional_id, identity, pending.partitions)
    if pending.request_type is TxnRequestType.END:
        return end_request(transactional_id, identity, committed=pending.committed)
    assert pending.offsets is not None
    group, offsets = pending.offsets
    if pending.request_type is TxnRequestType.ADD_OFFSETS:
        return add_offsets_request(transactional_id, identity, group.group_id)
    return commit_offsets_request(transactional_id, identity, group, offsets)


def _note_concurrent(pending: PendingTxnRequest, error: ClientError, now_ms: int) -> bool:
    """Note a CONCURRENT_TRANSACTIONS error; return whether it has lasted for ``CONCURRENT_MAX_MS``."""
    if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
        return False
    if pending.concurrent_since_ms is None:
        pending.concurrent_since_ms = now_ms
    return now_ms - pending.concurrent_since_ms >= CONCURRENT_MAX_MS


def _action_without_response(request_type: TxnRequestType, error: ClientError) -> TxnErrorAction:
    """Return what to do when the coordinator was not found or did not respond."""
    if isinstance(error, RequestRefused) and error.code is not None:
        return txn_error_action(request_type, error.code)
    return TxnErrorAction.FIND_COORDINATOR if error.retriable else TxnErrorAction.FATAL
