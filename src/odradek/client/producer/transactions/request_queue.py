"""Queued requests of the transaction manager by priority, and the results that callers wait for."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple

from odradek.client.producer.transactions.requests import PRIORITY, TxnRequestType
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition

STARTING_REQUESTS: Final = frozenset({TxnRequestType.ADD_PARTITIONS, TxnRequestType.ADD_OFFSETS})
"""Requests that start a transaction at the coordinator."""


class TransactionalRequestResult:
    """Result of a transactional call: completed once, and *acked* once the caller has received it.

    A caller that timed out may repeat the call and gets the same result. ``last_error`` is the error of the
    last attempt that is retried.
    """

    __slots__ = ("_listeners", "call", "error", "is_acked", "is_done", "last_error")

    def __init__(self, call: str) -> None:
        self.call = call
        self.is_done = False
        self.is_acked = False
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        self._listeners: list[Callable[[], None]] = []

    def succeed(self) -> None:
        self._end(None)

    def fail(self, error: ClientError) -> None:
        self._end(error)

    def when_done(self, listener: Callable[[], None]) -> None:
        """Call a listener on completion; immediately if completed."""
        if self.is_done:
            listener()
        else:
            self._listeners.append(listener)

    def _end(self, error: ClientError | None) -> None:
        if self.is_done:
            return
        self.is_done, self.error = True, error
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


class OffsetsToCommit(NamedTuple):
    """A consumer's offsets to commit with the transaction."""

    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class PendingTxnRequest:
    """A queued request. It is built when it is sent."""

    __slots__ = (
        "committed",
        "concurrent_since_ms",
        "not_before_ms",
        "offsets",
        "partitions",
        "request_type",
        "result",
        "was_sent",
    )

    def __init__(
        self,
        request_type: TxnRequestType,
        result: TransactionalRequestResult | None = None,
        *,
        partitions: set[TopicPartition] | None = None,
        offsets: OffsetsToCommit | None = None,
        committed: bool = False,
    ) -> None:
        self.request_type = request_type
        self.result = result
        self.partitions = partitions or set()
        self.offsets = offsets
        self.committed = committed
        self.not_before_ms = 0
        self.concurrent_since_ms: int | None = None
        """Time of the first CONCURRENT_TRANSACTIONS since the last lookup of the coordinator."""
        self.was_sent = False

    def fail(self, error: ClientError) -> None:
        if self.result is not None:
            self.result.fail(error)

    def drop_offsets(self, partitions: Set[TopicPartition | None]) -> None:
        """Remove committed offsets, so that a retry only has the others."""
        assert self.offsets is not None
        remaining = {
            partition: offset
            for partition, offset in self.offsets.offsets.items()
            if partition not in partitions
        }
        self.offsets = self.offsets._replace(offsets=remaining)


class RequestQueue:
    """Requests by priority; with equal priority, first in, first out."""

    def __init__(self) -> None:
        self._waiting: list[PendingTxnRequest] = []

    @property
    def first(self) -> PendingTxnRequest | None:
        return self._waiting[0] if self._waiting else None

    def push(self, pending: PendingTxnRequest) -> None:
        insort(self._waiting, pending, key=lambda queued: PRIORITY[queued.request_type])

    def requeue(self, pending: PendingTxnRequest) -> None:
        """Queue a request for a retry, before others of its priority."""
        priority = PRIORITY[pending.request_type]
        index = next(
            (i for i, queued in enumerate(self._waiting) if PRIORITY[queued.request_type] >= priority),
            len(self._waiting),
        )
        self._waiting.insert(index, pending)

    def pop(self) -> PendingTxnRequest:
        return self._waiting.pop(0)

    def unsent(self, request_type: TxnRequestType) -> PendingTxnRequest | None:
        """Return the last unsent request of a type, to which more can be added."""
        unsent = [
            queued for queued in self._waiting if queued.request_type is request_type and not queued.was_sent
        ]
        return unsent[-1] if unsent else None

    @property
    def partitions(self) -> set[TopicPartition]:
        """Partitions that queued requests add to the transaction."""
        return {partition for queued in self._waiting for partition in queued.partitions}

    def fail_all(self, error: ClientError) -> None:
        """Fail and drop all requests."""
        self._fail(error, keep=lambda _: False)

    def fail_unstarted(self, error: ClientError) -> None:
        """Fail the requests of a failed transaction.

        Those that may have started it are retried before its end, so that the coordinator does not keep it
        open.
        """
        self._fail(error, keep=lambda queued: queued.was_sent and queued.request_type in STARTING_REQUESTS)

    def _fail(self, error: ClientError, *, keep: Callable[[PendingTxnRequest], bool]) -> None:
        """Fail the results of all requests, and drop the requests except those to keep."""
        waiting, self._waiting = self._waiting, [queued for queued in self._waiting if keep(queued)]
        for queued in waiting:
            queued.fail(error)
