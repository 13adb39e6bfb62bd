"""The seam between sending and exactly-once: who numbers batches, and what answers mean for the numbers.

The accumulator and the sender ask an ``TransactionManagerPort`` whenever order or identity matter; without
idempotence
there is none (``None``). It is a pure machine: it holds no socket and no clock, requests that it wants made
are given by ``next_request`` and their answers told to ``answered``.

A batch is *numbered* once its ``base_sequence`` is not ``NO_SEQUENCE``. Invariants the sender keeps:

- ``may_drain`` and ``assign`` are called for the head of a partition's deque only, ``assign`` at once before
  the batch leaves; a batch that comes back keeps its numbers, unless the machine renumbers it.
- Each assigned batch ends in exactly one of ``acknowledged``, ``failed`` or ``split``.
- A batch that goes back to its deque (``may_retry``, then ``requeued``) lies there in the order of sequences.
- All calls come from the event loop's thread, except ``before_append``, which the application's thread makes
  under the accumulator's lock, and ``send_failed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


class NumberedBatch(Protocol):
    """What idempotence needs of a batch; ``records.codec.ProducerBatch`` has it."""

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
    """A request of the machine: to the coordinator of a transactional id or group, else to any broker.

    ``kind`` and ``key`` name the coordinator (``kind`` is a ``CoordinatorType``); both are None for any
    broker. ``not_before_ms`` holds a retry back. ``version_max`` bounds the version, None is the highest.
    """

    request: Any
    kind: Any | None = None
    key: str | None = None
    not_before_ms: int = 0
    version_max: int | None = None


class TransactionManagerPort(Protocol):
    """What the sender asks of idempotence and transactions."""

    @property
    def is_transactional(self) -> bool: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def fatal_error(self) -> ClientError | None:
        """Set for good once only a new producer can go on: everything not yet answered fails with it."""
        ...

    # Asked by send, before the first record of a new batch.

    def before_append(self, partition: TopicPartition) -> None:
        """Note that a transaction writes to a partition; raises ClientError where sending makes no sense.

        Raised: InvalidState outside a transaction, the fatal error, the error that a transaction must abort
        for. While such an error stands the accumulator keeps no open batch, so that every send asks.
        """
        ...

    def send_failed(self, error: ClientError) -> None:
        """A record was not taken: its transaction, if there is one, must abort. Called from any thread."""
        ...

    # Asked while draining, with the head of a partition's deque.

    def may_drain(self, batch: NumberedBatch) -> bool:
        """Whether the batch may leave now.

        No while there is no producer id, the partition is not yet part of the transaction, its numbers are in
        doubt (a batch without numbers waits then), or an earlier numbered batch must be answered first.
        """
        ...

    def assign(self, batch: NumberedBatch) -> None:
        """Number the batch unless it has numbers, and hold it as being in flight."""
        ...

    # Told when the fate of a batch is known.

    def may_retry(self, batch: NumberedBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether an answer with an error calls for the same batch again, time and attempts left.

        Decides also whether the producer's epoch must be bumped or its sequences begin anew. For a lost
        connection or an overdue answer ``code`` is NETWORK_EXCEPTION or REQUEST_TIMED_OUT.
        """
        ...

    def requeued(self, batch: NumberedBatch) -> None:
        """The batch is in its deque again; its numbers stay in use."""
        ...

    def acknowledged(self, batch: NumberedBatch, base_offset: int) -> None:
        """Written; ``base_offset`` is -1 for a duplicate whose place the broker does not know any more."""
        ...

    def failed(self, batch: NumberedBatch, error: BaseException, *, adjust_sequences: bool) -> None:
        """Given up for good. ``adjust_sequences`` says that the broker has certainly not written it.

        That is the case when it refused the batch while attempts were left: sequences after it move down
        (or the epoch is bumped). Without it, and with the batch once sent, its numbers are in doubt.
        A batch that was never assigned is told too: a transaction must abort for it.
        """
        ...

    def split(self, batch: NumberedBatch, parts: Sequence[NumberedBatch]) -> None:
        """MESSAGE_TOO_LARGE: the parts, numbered by the sender from the batch's own, take its place."""
        ...

    # Asked once in each round of the sender.

    def resolve(self, now_ms: int) -> None:
        """Settle numbers in doubt whose batches are all answered, bump epochs that wait for that."""
        ...

    def next_request(self, now_ms: int, *, has_incomplete: bool) -> CoordinatorRequest | None:
        """What to ask a broker now; at most one is under way at a time.

        ``has_incomplete`` says that batches are not answered yet: the end of a transaction waits for them.
        """
        ...

    def coordinator_ready(self, versions: Mapping[int, range]) -> None:
        """Told before a request leaves for the transaction coordinator: which versions it speaks.

        They say whether the epoch of a transactional id can be bumped there (InitProducerId 3 and later).
        """
        ...

    def handle_response(self, asked: CoordinatorRequest, answer: Any | ClientError, now_ms: int) -> None:
        """The decoded answer, or why there is none (coordinator unknown, connection lost, no time)."""
        ...

    def take_lost_coordinator(self) -> CoordinatorRequest | None:
        """The last request whose answer says that its coordinator has moved; given once."""
        ...

    @property
    def is_completing(self) -> bool:
        """A commit or abort has been asked for: batches go at once, as in a flush."""
        ...

    @property
    def abort_reason(self) -> ClientError | None:
        """Set while a transaction is being aborted: batches that were never sent fail with it."""
        ...

    @property
    def next_wake_ms(self) -> int | None:
        """When to look again although nothing happens (a held back retry); None for never."""
        ...
