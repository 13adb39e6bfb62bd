"""Handle on a sent record.

Invariant: a delivery has its batch and its index there, nothing more; the batch has the result. When a batch
is split, its deliveries look up the part with their record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NoReturn, Protocol

from odradek.model.client_errors import InvalidState
from odradek.records.layout import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]
Call = tuple[Callable[..., object], tuple[Any, ...]]


class CompletionWaiter(Protocol):
    """Notification of batch completion, implemented by the client for threads and for event loops."""

    def deliver(self, batch: Any, calls: list[Call]) -> None:
        """Wake all waiters of a completed batch, then run its callbacks in order."""

    def wait(self, batch: Any, timeout_s: float | None) -> None:
        """Block until the batch is complete, or raise."""

    def future(self, batch: Any) -> Awaitable[object]:
        """Return an awaitable for the completion of the batch; cancelling it does not affect others."""


class DeliveryBatch(Protocol):
    """Attributes of a batch used by its deliveries."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def log_append_time(self) -> int: ...
    @property
    def waiter(self) -> CompletionWaiter | None: ...
    def find_part(self, index: int) -> tuple[DeliveryBatch, int]: ...
    def error_of(self, index: int) -> BaseException | None: ...


class Delivery:
    """Handle on a sent record: gives its metadata or error once its batch is complete.

    >>> from odradek import Producer
    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     delivery = producer.send("greetings", b"hello")
    >>> delivery.done(), delivery.exception(), delivery.result().topic
    (True, None, 'greetings')
    """

    __slots__ = ("_batch", "index", "serialized_key_size", "serialized_value_size", "timestamp")

    _batch: DeliveryBatch
    index: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int

    def __init__(self) -> None:
        raise TypeError("deliveries are created by send()")

    def __reduce__(self) -> NoReturn:
        raise TypeError("deliveries cannot be pickled")

    def _locate(self) -> tuple[DeliveryBatch, int]:
        return self._batch.find_part(self.index)

    @property
    def batch(self) -> Any:
        """The ``ProducerBatch`` that has the record, after any splits."""
        return self._locate()[0]

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed."""
        return self._locate()[0].done

    def metadata_and_error(self) -> tuple[RecordMetadata | None, BaseException | None]:
        batch, index = self._locate()
        error = batch.error_of(index)
        if error is not None:
            return None, error
        metadata = RecordMetadata(
            batch.topic,
            batch.partition,
            -1 if batch.base_offset < 0 else batch.base_offset + index,
            self.timestamp if batch.log_append_time == -1 else batch.log_append_time,
            self.serialized_key_size,
            self.serialized_value_size,
        )
        return metadata, None

    def _wait(self, timeout_s: float | None) -> None:
        while not (batch := self.batch).done:
            waiter_of(batch).wait(batch, timeout_s)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the metadata; raise the error if the record failed.

        >>> delivery.result(timeout_s=10).offset  # doctest: +SKIP
        42
        """
        self._wait(timeout_s)
        return result_of(self)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait as ``result`` does and return the error, or ``None``."""
        self._wait(timeout_s)
        return self.metadata_and_error()[1]

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Call ``function`` with this delivery once it is done, immediately if it already is."""
        batch = self.batch
        if batch.done:
            function(self)
        else:
            batch.add_callback(self, function, True)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return awaited(self).__await__()

    def __repr__(self) -> str:
        state = "pending"
        if self.done():
            state = "failed" if self.metadata_and_error()[1] is not None else "delivered"
        return f"<Delivery to {self.topic}-{self.partition}, {state}>"


async def awaited(delivery: Delivery) -> RecordMetadata:
    """Coroutine of ``await delivery``."""
    while not (batch := delivery.batch).done:
        await waiter_of(batch).future(batch)
    return result_of(delivery)


def waiter_of(batch: DeliveryBatch) -> CompletionWaiter:
    if batch.waiter is None:
        raise InvalidState("batch has no client to wait for its completion")
    return batch.waiter


def result_of(delivery: Delivery) -> RecordMetadata:
    metadata, error = delivery.metadata_and_error()
    if metadata is None:
        raise error or InvalidState("batch is not complete")
    return metadata
