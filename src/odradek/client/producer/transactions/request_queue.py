"""What a producer has to ask brokers for, in the order it must be asked, and who waits for it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from odradek.client.producer.transactions.requests import PRIORITY, TxnRequestType
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition


class TransactionalRequestResult:
    """A call of the application on its way: it succeeds or fails once, and is *told* when the caller knows.

    A caller that gave up waiting may make the same call again and gets the same operation. ``trouble`` is why
    the last attempt has to be made again.
    """

    __slots__ = ("_listeners", "call", "error", "is_acked", "is_done", "trouble")

    def __init__(self, call: str) -> None:
        self.call = call
        self.is_done = False
        self.is_acked = False
        self.error: ClientError | None = None
        self.trouble: ClientError | None = None
        self._listeners: list[Callable[[], None]] = []

    def succeed(self) -> None:
        self._end(None)

    def fail(self, error: ClientError) -> None:
        self._end(error)

    def when_done(self, listener: Callable[[], None]) -> None:
        """Call back once it is over; at once if it is."""
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
    """A consumer's offsets that are to count with the transaction."""

    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class PendingTxnRequest:
    """A request that waits for its turn. What it says is settled when it leaves."""

    __slots__ = ("committed", "not_before_ms", "offsets", "operation", "partitions", "step", "was_sent")

    def __init__(
        self,
        step: TxnRequestType,
        operation: TransactionalRequestResult | None = None,
        *,
        partitions: set[TopicPartition] | None = None,
        offsets: OffsetsToCommit | None = None,
        committed: bool = False,
    ) -> None:
        self.step = step
        self.operation = operation
        self.partitions = partitions or set()
        self.offsets = offsets
        self.committed = committed
        self.not_before_ms = 0
        self.was_sent = False

    def fail(self, error: ClientError) -> None:
        if self.operation is not None:
            self.operation.fail(error)

    def drop_offsets(self, partitions: Set[TopicPartition | None]) -> None:
        """These are committed; what is asked again is about the others."""
        assert self.offsets is not None
        left = {one: offset for one, offset in self.offsets.offsets.items() if one not in partitions}
        self.offsets = self.offsets._replace(offsets=left)


class RequestQueue:
    """Requests by priority, those of equal priority in the order they came."""

    def __init__(self) -> None:
        self._waiting: list[PendingTxnRequest] = []

    @property
    def first(self) -> PendingTxnRequest | None:
        return self._waiting[0] if self._waiting else None

    def push(self, pending: PendingTxnRequest) -> None:
        insort(self._waiting, pending, key=lambda one: PRIORITY[one.step])

    def push_back(self, pending: PendingTxnRequest) -> None:
        """A request comes back to be sent again, before those of its priority that came after it."""
        at = next(
            (i for i, one in enumerate(self._waiting) if PRIORITY[one.step] >= PRIORITY[pending.step]),
            len(self._waiting),
        )
        self._waiting.insert(at, pending)

    def pop(self) -> PendingTxnRequest:
        return self._waiting.pop(0)

    def unsent(self, step: TxnRequestType) -> PendingTxnRequest | None:
        """The last request of a kind that has not left yet, so that more can be asked for with it."""
        found = [one for one in self._waiting if one.step is step and not one.was_sent]
        return found[-1] if found else None

    @property
    def partitions(self) -> set[TopicPartition]:
        """Partitions that are on their way into the transaction."""
        return {partition for one in self._waiting for partition in one.partitions}

    def fail_all(self, error: ClientError, *, keep: Callable[[PendingTxnRequest], bool]) -> None:
        """Whoever waits for a request gets the error; requests are dropped but for those to keep."""
        waiting, self._waiting = self._waiting, [one for one in self._waiting if keep(one)]
        for one in waiting:
            one.fail(error)
