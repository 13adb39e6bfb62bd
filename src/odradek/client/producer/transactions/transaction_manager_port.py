"""The interface between the sender and the transaction manager.

The accumulator and the sender call a ``TransactionManagerPort`` wherever order or producer identity matter;
without idempotence there is none (``None``). It is a pure state machine: it has no socket and no clock. Its
requests are returned by ``next_request``, and their responses passed to ``handle_response``.

Invariants that the sender keeps:

- ``may_drain`` and ``assign`` are called for the head of a partition's queue only, ``assign`` directly before
  the batch is sent; a requeued batch keeps its sequence, unless the transaction manager changes it.
- Each assigned batch ends in exactly one of ``acknowledged``, ``failed`` or ``split``.
- A requeued batch (``may_retry``, then ``requeued``) is in its queue in the order of sequences.
- All calls come from the loop thread, except ``before_append``, which application threads call under the
  accumulator's lock, and ``send_failed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


class SequencedBatch(Protocol):
    """The part of ``records.client.producer.ProducerBatch`` that the transaction manager needs."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def count(self) -> int: ...

    producer_id: int
    producer_epoch: int
    base_sequence: int
    attempts: int
    in_retry: bool


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator of a transactional id or group, or to any broker.

    ``key_type`` (a ``CoordinatorType``) and ``key`` name the coordinator; both are None for any broker. It is
    not sent before ``not_before_ms``. ``version_max`` limits the version; None is the highest.
    """

    request: Any
    key_type: Any | None = None
    key: str | None = None
    not_before_ms: int = 0
    version_max: int | None = None


class TransactionManagerPort(Protocol):
    """Idempotence and transactions, as the sender sees them."""

    @property
    def is_transactional(self) -> bool: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def fatal_error(self) -> ClientError | None:
        """The error that ended the producer: all incomplete batches fail with it."""
        ...

    # Called by send, before the first record of a new batch.

    def before_append(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction; raise ClientError if sending is not allowed.

        Raised: InvalidState outside a transaction, the fatal error, or the error of a failed transaction.
        While such an error exists the accumulator has no open batch, so that every send calls this.
        """
        ...

    def send_failed(self, error: ClientError) -> None:
        """Fail the transaction of a record that was not accepted. Callable from any thread."""
        ...

    # Called while draining, with the head of a partition's queue.

    def may_drain(self, batch: SequencedBatch) -> bool:
        """Return whether the batch may be sent now.

        Not while there is no producer id, the partition is not part of the transaction, its sequences are
        unresolved (for a batch without a sequence), or an earlier batch must complete first.
        """
        ...

    def assign(self, batch: SequencedBatch) -> None:
        """Assign a sequence to the batch unless it has one, and track it as in flight."""
        ...

    # Called when the result of a batch is known.

    def may_retry(self, batch: SequencedBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Return whether an error allows a retry of the same batch, if time and attempts are left.

        Also decides whether the producer epoch must be bumped or sequences reset. For a lost connection or a
        request timeout ``code`` is NETWORK_EXCEPTION or REQUEST_TIMED_OUT.
        """
        ...

    def requeued(self, batch: SequencedBatch) -> None:
        """Note that the batch is in its queue again; it keeps its sequence."""
        ...

    def acknowledged(self, batch: SequencedBatch, base_offset: int) -> None:
        """Note a written batch; ``base_offset`` is -1 for a duplicate whose offset is unknown."""
        ...

    def failed(self, batch: SequencedBatch, error: BaseException, *, adjust_sequences: bool) -> None:
        """Note a failed batch. ``adjust_sequences`` if the broker has certainly not written it.

        That is so when it rejected the batch while attempts were left: later sequences move down (or the
        epoch is bumped). Otherwise the sequence of a batch that was sent is unresolved. Also called for a
        batch that was never assigned: its transaction must be aborted.
        """
        ...

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """Replace a batch that was too large by its parts, which share its sequences."""
        ...

    # Called once in each run of the sender.

    def resolve_sequences(self, now_ms: int) -> None:
        """Resolve sequences whose batches have all completed, and bump epochs that wait for that."""
        ...

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        """Return the next request to send; at most one is in flight.

        The end of a transaction waits while ``has_incomplete``: batches are not completed yet.
        """
        ...

    def coordinator_ready(self, versions: Mapping[int, range]) -> None:
        """Note the versions of the transaction coordinator, before a request is sent to it.

        Its epochs can be bumped with InitProducerId 3 and later.
        """
        ...

    def handle_response(self, request: CoordinatorRequest, response: Any | ClientError, now_ms: int) -> None:
        """Handle the decoded response, or the failure of the request."""
        ...

    def take_lost_coordinator(self) -> CoordinatorRequest | None:
        """Return the last request whose coordinator has moved; once."""
        ...

    @property
    def is_completing(self) -> bool:
        """True while a commit or abort is in progress: batches are sent without linger."""
        ...

    @property
    def abort_reason(self) -> ClientError | None:
        """The error with which unsent batches fail while a transaction is failed or aborting."""
        ...

    @property
    def next_check_ms(self) -> int | None:
        """The time of the next retry; None if there is none."""
        ...
