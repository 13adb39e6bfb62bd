"""The transaction manager of a producer: assigns sequences, and runs transactions.

It gets the application's calls, the results of batches and the responses of coordinators, and decides which
request to send next and which batches may be sent. It never blocks and has no clock; times are passed in.

Invariants: a batch is sent only with a known producer id, and in a transaction only to a partition that the
coordinator has added; at most one request is in flight; every call completes, with success or an error; a
fatal error is final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from odradek.client.producer.transactions.errors import is_fatal_error, producer_closed, unresolved_error
from odradek.client.producer.transactions.request_queue import (
    OffsetsToCommit,
    PendingTxnRequest,
    TransactionalRequestResult,
)
from odradek.client.producer.transactions.requests import TxnRequestType
from odradek.client.producer.transactions.sequence_errors import may_retry, on_batch_failed
from odradek.client.producer.transactions.sequences import Sequences, has_sequence, partition_of
from odradek.client.producer.transactions.states import TxnManagerState
from odradek.client.producer.transactions.transaction_manager_port import CoordinatorRequest, SequencedBatch
from odradek.client.producer.transactions.transaction_status import TransactionStatus
from odradek.client.producer.transactions.txn_request_handler import TxnRequestHandler
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError, InvalidState, TransactionAborted
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

_INIT_PRODUCER_ID_KEY: Final = 22
_BUMPS_SINCE: Final = 3
"""The first version of InitProducerId that bumps the epoch of a producer id."""


class TransactionManager:
    """Implements ``TransactionManagerPort``, and the transactional calls of a producer.

    Asynchronous calls return a ``TransactionalRequestResult``. All methods but ``before_append`` and
    ``send_failed`` are called on the loop thread.
    """

    def __init__(
        self, transactional_id: str | None, transaction_timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self._sequences = Sequences()
        self._status = TransactionStatus(transactional_id)
        self._requests = TxnRequestHandler(
            self._status, self._sequences, transaction_timeout_ms, retry_backoff_ms
        )
        self._result: TransactionalRequestResult | None = None
        self._send_failures: deque[ClientError] = deque()

    @property
    def state(self) -> TxnManagerState:
        return self._status.state

    @property
    def transactional_id(self) -> str | None:
        return self._status.transactional_id

    @property
    def is_transactional(self) -> bool:
        return self._status.transactional_id is not None

    @property
    def fatal_error(self) -> ClientError | None:
        return self._status.error if self._status.is_fatal else None

    @property
    def abort_reason(self) -> ClientError | None:
        return self._status.abort_reason

    @property
    def is_completing(self) -> bool:
        return self._status.is_completing

    @property
    def has_ongoing_transaction(self) -> bool:
        return self._status.is_ongoing

    # Calls of the application.

    def init_transactions(self) -> TransactionalRequestResult:
        """Get a producer id, fence earlier producers, and abort their open transaction."""
        return self._begin("init_transactions", self._requests.init)

    def begin_transaction(self) -> None:
        self._check_last_call("begin_transaction")
        self._status.check_call("begin_transaction")
        self._status.transition(TxnManagerState.IN_TRANSACTION)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TransactionalRequestResult:
        """Commit a consumer's offsets with the transaction."""
        call = "send_offsets_to_transaction"
        self._check_last_call(call)
        self._status.check_call(call)
        if group.generation_id > 0 and not group.member_id:
            raise InvalidState(
                f"{call}: member id of generation {group.generation_id} must be non-empty, got ''"
            )
        result = TransactionalRequestResult(call)
        if offsets:
            to_commit = OffsetsToCommit(group, dict(offsets))
            self._requests.queue.push(
                PendingTxnRequest(TxnRequestType.ADD_OFFSETS, result, offsets=to_commit)
            )
        else:
            result.succeed()
        return result

    def commit_transaction(self) -> TransactionalRequestResult:
        """Send all records of the transaction, and commit once they are written."""
        return self._begin("commit_transaction", self._requests.commit)

    def abort_transaction(self) -> TransactionalRequestResult:
        """Drop unsent records, wait for the others, and abort."""
        return self._begin("abort_transaction", self._requests.abort)

    def end_transaction(self) -> TransactionalRequestResult:
        """End the transaction before close: finish a commit or abort in progress, or abort."""
        last = self._result
        if self._status.is_completing and last is not None:
            return last
        if last is not None:
            last.is_acked = True
        return self.abort_transaction()

    def send_failed(self, error: ClientError) -> None:
        """Fail the transaction of a record that was not accepted."""
        self._send_failures.append(error)

    def close(self) -> None:
        """Fail all pending calls."""
        self._requests.fail_all(producer_closed())

    def _begin(
        self, call: str, begin: Callable[[TransactionalRequestResult], None]
    ) -> TransactionalRequestResult:
        """Begin a call, or return the result of the same call if its caller has timed out."""
        last = self._result
        if last is not None and last.call == call and not last.is_acked:
            return last
        self._check_last_call(call)
        self._status.check_call(call)
        result = TransactionalRequestResult(call)
        begin(result)
        self._result = result
        return result

    def _check_last_call(self, call: str) -> None:
        """Raise if the last call timed out: it must be repeated first. A failed one may be aborted."""
        self._handle_send_failures()
        last = self._result
        if last is None or last.is_acked or (last.error is not None and call == "abort_transaction"):
            return
        if not self._status.is_fatal:
            raise InvalidState(
                f"{call}: the result of {last.call} is not known yet; call {last.call} again first"
            )

    # Called by the sender: batches.

    def before_append(self, partition: TopicPartition) -> None:
        self._status.check_call("send")
        if self.is_transactional and partition not in self._requests.partitions_in_transaction:
            self._requests.new_partitions.append(partition)

    def may_drain(self, batch: SequencedBatch) -> bool:
        if self._status.is_fatal:
            return False
        if self.is_transactional and partition_of(batch) not in self._requests.partitions_in_transaction:
            return False
        if self._status.abort_reason is not None and not has_sequence(batch):
            return False
        return self._sequences.may_send(batch)

    def assign(self, batch: SequencedBatch) -> None:
        self._sequences.assign(batch)

    def may_retry(self, batch: SequencedBatch, code: ErrorCode, log_start_offset: int) -> bool:
        return may_retry(
            self._sequences, batch, code, log_start_offset, is_transactional=self.is_transactional
        )

    def requeued(self, batch: SequencedBatch) -> None:
        """Do nothing: the batch keeps its sequence."""

    def acknowledged(self, batch: SequencedBatch, base_offset: int) -> None:
        self._sequences.of(partition_of(batch)).acknowledge(batch, base_offset)

    def failed(self, batch: SequencedBatch, error: BaseException, *, adjust_sequences: bool) -> None:
        if not self._status.is_fatal:
            if has_sequence(batch) and is_fatal_error(error):
                self._requests.fail_producer(error)
            elif isinstance(error, ClientError) and not isinstance(error, TransactionAborted):
                self._fail_transaction(error)
        code = error.code if isinstance(error, ClientError) else None
        on_batch_failed(
            self._sequences,
            batch,
            code,
            adjust_sequences=adjust_sequences,
            is_transactional=self.is_transactional,
        )

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        self._sequences.of(partition_of(batch)).replace(batch, list(parts))

    def _handle_send_failures(self) -> None:
        while self._send_failures:
            self._fail_transaction(self._send_failures.popleft())

    def _fail_transaction(self, error: ClientError) -> None:
        if self.is_transactional and self._status.is_ongoing:
            self._status.needs_bump |= self._status.can_bump
            self._status.fail_transaction(error)

    # Called by the sender: requests.

    def resolve_sequences(self, now_ms: int) -> None:
        del now_ms  # sequences are resolved by responses, not by time
        self._handle_send_failures()
        _, lost = self._sequences.take_resolved()
        if not self.is_transactional:
            self._sequences.needs_bump.update(lost)
            self._bump()
        elif lost and not self._status.is_fatal:
            if self._status.can_bump:
                self._fail_transaction(unresolved_error(can_bump=True))
            else:
                self._requests.fail_producer(unresolved_error(can_bump=False))

    def _bump(self) -> None:
        """Continue with the next epoch; after the last one with a new producer id."""
        if (
            self._sequences.needs_bump
            and self._status.state is TxnManagerState.READY
            and not self._sequences.bump()
        ):
            self._status.transition(TxnManagerState.UNINITIALIZED)

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        return self._requests.next_request(now_ms, has_incomplete=has_incomplete)

    def coordinator_ready(self, versions: Mapping[int, range]) -> None:
        supported = versions.get(_INIT_PRODUCER_ID_KEY, range(0))
        self._status.can_bump = supported.stop > _BUMPS_SINCE

    def handle_response(self, request: CoordinatorRequest, response: Any | ClientError, now_ms: int) -> None:
        self._requests.handle_response(request, response, now_ms)

    def take_lost_coordinator(self) -> CoordinatorRequest | None:
        request, self._requests.lost_coordinator = self._requests.lost_coordinator, None
        return request

    @property
    def next_check_ms(self) -> int | None:
        return self._requests.next_check_ms
