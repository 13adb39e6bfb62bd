"""The machine of a producer with an id: it numbers batches, and runs transactions if the id allows that.

It is told what the application calls, what becomes of batches and what brokers answer, and says what to ask
brokers next and which batches may leave. It waits for nothing and knows no clock; times are passed in.

Invariants: a batch leaves only under a known id, and with transactions only for a partition that the
coordinator has been told of; at most one request is under way; every operation ends, in success or with an
error; a fatal error stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from odradek.client.producer.transactions.errors import closed, doubtful, ends_the_producer
from odradek.client.producer.transactions.request_queue import (
    OffsetsToCommit,
    PendingTxnRequest,
    TransactionalRequestResult,
)
from odradek.client.producer.transactions.requests import TxnRequestType
from odradek.client.producer.transactions.sequence_errors import give_up, may_retry
from odradek.client.producer.transactions.sequences import Sequences, is_numbered, partition_of
from odradek.client.producer.transactions.states import TxnManagerState
from odradek.client.producer.transactions.transaction_manager_port import CoordinatorRequest, NumberedBatch
from odradek.client.producer.transactions.transaction_status import TransactionStatus
from odradek.client.producer.transactions.txn_request_handler import TxnRequestHandler
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError, InvalidState, TransactionAborted
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

_INIT_PRODUCER_ID_KEY: Final = 22
_BUMPS_SINCE: Final = 3
"""The version of InitProducerId that takes the id and epoch held so far, and gives the next epoch."""


class TransactionManager:
    """TransactionManagerPort for a sender, and the transactional calls of a producer.

    Calls that take a while give an ``TransactionalRequestResult``. All but ``before_append`` and
    ``send_failed`` belong to the loop's thread.
    """

    def __init__(
        self, transactional_id: str | None, transaction_timeout_ms: int, retry_backoff_ms: int
    ) -> None:
        self._sequences = Sequences()
        self._status = TransactionStatus(transactional_id)
        self._requests = TxnRequestHandler(
            self._status, self._sequences, transaction_timeout_ms, retry_backoff_ms
        )
        self._operation: TransactionalRequestResult | None = None
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
        """Get an id, fence whoever has it now, and end the transaction that was left open."""
        return self._begin("init_transactions", self._requests.init)

    def begin_transaction(self) -> None:
        self._refuse_untold("begin_transaction")
        self._status.refuse("begin_transaction")
        self._status.move(TxnManagerState.IN_TRANSACTION)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TransactionalRequestResult:
        """Let a consumer's offsets count if, and when, the transaction is committed."""
        call = "send_offsets_to_transaction"
        self._refuse_untold(call)
        self._status.refuse(call)
        if group.generation_id > 0 and not group.member_id:
            raise InvalidState(f"{call}: a generation ({group.generation_id}) was given without a member id")
        operation = TransactionalRequestResult(call)
        if offsets:
            wanted = OffsetsToCommit(group, dict(offsets))
            self._requests.queue.push(
                PendingTxnRequest(TxnRequestType.ADD_OFFSETS, operation, offsets=wanted)
            )
        else:
            operation.succeed()
        return operation

    def commit_transaction(self) -> TransactionalRequestResult:
        """Send what was given to send so far, and commit once all of it is written."""
        return self._begin("commit_transaction", self._requests.commit)

    def abort_transaction(self) -> TransactionalRequestResult:
        """Drop what was not sent yet, wait for the rest, and abort."""
        return self._begin("abort_transaction", self._requests.abort)

    def end_transaction(self) -> TransactionalRequestResult:
        """Before the producer closes: the end that is under way, else an abort."""
        held = self._operation
        if self._status.is_completing and held is not None:
            return held
        if held is not None:
            held.is_acked = True
        return self.abort_transaction()

    def send_failed(self, error: ClientError) -> None:
        """A record could not be taken: its transaction would be incomplete without it."""
        self._send_failures.append(error)

    def close(self) -> None:
        """Nothing more will be asked or answered: whoever waits is told so."""
        self._requests.fail_all(closed())

    def _begin(
        self, call: str, begin: Callable[[TransactionalRequestResult], None]
    ) -> TransactionalRequestResult:
        """Begin an operation, or give the one whose caller lost patience and calls again."""
        held = self._operation
        if held is not None and held.call == call and not held.is_acked:
            return held
        self._refuse_untold(call)
        self._status.refuse(call)
        operation = TransactionalRequestResult(call)
        begin(operation)
        self._operation = operation
        return operation

    def _refuse_untold(self, call: str) -> None:
        """After a call that ended without its caller knowing how, only the same call makes sense.

        But what has failed may be aborted.
        """
        self._note_send_failures()
        held = self._operation
        if held is None or held.is_acked or (held.error is not None and call == "abort_transaction"):
            return
        if not self._status.is_fatal:
            raise InvalidState(
                f"{call}: what came of the last {held.call} is not known yet; call it again first"
            )

    # Asked and told by the sender: batches.

    def before_append(self, partition: TopicPartition) -> None:
        self._status.refuse("send")
        if self.is_transactional and partition not in self._requests.added:
            self._requests.wanted.append(partition)

    def may_drain(self, batch: NumberedBatch) -> bool:
        if self._status.is_fatal:
            return False
        if self.is_transactional and partition_of(batch) not in self._requests.added:
            return False
        if self._status.abort_reason is not None and not is_numbered(batch):
            return False
        return self._sequences.may_leave(batch)

    def assign(self, batch: NumberedBatch) -> None:
        self._sequences.leave(batch)

    def may_retry(self, batch: NumberedBatch, code: ErrorCode, log_start_offset: int) -> bool:
        return may_retry(
            self._sequences, batch, code, log_start_offset, is_transactional=self.is_transactional
        )

    def requeued(self, batch: NumberedBatch) -> None:
        """Its numbers stay in use; there is nothing to note."""

    def acknowledged(self, batch: NumberedBatch, base_offset: int) -> None:
        self._sequences.of(partition_of(batch)).acknowledge(batch, base_offset)

    def failed(self, batch: NumberedBatch, error: BaseException, *, adjust_sequences: bool) -> None:
        if not self._status.is_fatal:
            if is_numbered(batch) and ends_the_producer(error):
                self._requests.end(error)
            elif isinstance(error, ClientError) and not isinstance(error, TransactionAborted):
                self._fail_transaction(error)
        code = error.code if isinstance(error, ClientError) else None
        give_up(
            self._sequences, batch, code, is_refused=adjust_sequences, is_transactional=self.is_transactional
        )

    def split(self, batch: NumberedBatch, parts: Sequence[NumberedBatch]) -> None:
        self._sequences.of(partition_of(batch)).replace(batch, list(parts))

    def _note_send_failures(self) -> None:
        while self._send_failures:
            self._fail_transaction(self._send_failures.popleft())

    def _fail_transaction(self, error: ClientError) -> None:
        if self.is_transactional and self._status.is_ongoing:
            self._status.needs_bump |= self._status.can_bump
            self._status.must_abort(error)

    # Asked and told by the sender: requests.

    def resolve(self, now_ms: int) -> None:
        del now_ms  # numbers in doubt are settled by answers, not by time
        self._note_send_failures()
        _, lost = self._sequences.settled()
        if not self.is_transactional:
            self._sequences.needs_bump.update(lost)
            self._bump()
        elif lost and not self._status.is_fatal:
            if self._status.can_bump:
                self._fail_transaction(doubtful(can_go_on=True))
            else:
                self._requests.end(doubtful(can_go_on=False))

    def _bump(self) -> None:
        """Go on with the next epoch; after the last one with a new id."""
        if (
            self._sequences.needs_bump
            and self._status.state is TxnManagerState.READY
            and not self._sequences.bump()
        ):
            self._status.move(TxnManagerState.UNINITIALIZED)

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        return self._requests.next_request(now_ms, has_incomplete=has_incomplete)

    def coordinator_ready(self, versions: Mapping[int, range]) -> None:
        spoken = versions.get(_INIT_PRODUCER_ID_KEY, range(0))
        self._status.can_bump = spoken.stop > _BUMPS_SINCE

    def handle_response(self, asked: CoordinatorRequest, answer: Any | ClientError, now_ms: int) -> None:
        self._requests.handle_response(asked, answer, now_ms)

    def take_lost_coordinator(self) -> CoordinatorRequest | None:
        asked, self._requests.to_forget = self._requests.to_forget, None
        return asked

    @property
    def next_wake_ms(self) -> int | None:
        return self._requests.next_wake_ms
