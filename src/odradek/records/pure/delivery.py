"""The handle on one record that was sent, in plain Python: what the compiled one must be.

Invariant: a delivery knows its batch and its index there, nothing more; the batch knows what became of it.
When a batch is split its deliveries look up the part that holds their record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NoReturn, Protocol

from odradek.model.client_errors import InvalidState
from odradek.records.layout import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]
Call = tuple[Callable[..., object], tuple[Any, ...]]


class Waiting(Protocol):
    """The client's side of a batch: it knows threads and loops, the codec does not."""

    def deliver(self, batch: Any, calls: list[Call]) -> None:
        """The batch is done: wake whoever waits for it, then call each function in order."""

    def wait(self, batch: Any, timeout_s: float | None) -> None:
        """Block until the batch is done, or raise."""

    def future(self, batch: Any) -> Awaitable[object]:
        """What to await until the batch is done; whoever cancels it disturbs nobody else."""


class Holder(Protocol):
    """What a delivery asks of its batch."""

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
    def waiting(self) -> Waiting | None: ...
    def part_with(self, index: int) -> tuple[Holder, int]: ...
    def error_of(self, index: int) -> BaseException | None: ...


class Delivery:
    """One record on its way: a handle on the batch that holds it, which says what became of it.

    >>> from odradek import Producer
    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     delivery = producer.send("greetings", b"hello")
    >>> delivery.done(), delivery.exception(), delivery.result().topic
    (True, None, 'greetings')
    """

    __slots__ = ("_batch", "index", "serialized_key_size", "serialized_value_size", "timestamp")

    _batch: Holder
    index: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int

    def __init__(self) -> None:
        raise TypeError("sending a record makes its delivery")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a delivery cannot leave the producer that made it")

    def place(self) -> tuple[Holder, int]:
        return self._batch.part_with(self.index)

    @property
    def batch(self) -> Any:
        """The ``ProducerBatch`` that holds the record now."""
        return self.place()[0]

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self.place()[0].done

    def metadata_and_error(self) -> tuple[RecordMetadata | None, BaseException | None]:
        batch, index = self.place()
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
            waiting_of(batch).wait(batch, timeout_s)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait until the record is written and say where; raises what kept it from that.

        >>> delivery.result(timeout_s=10).offset  # doctest: +SKIP
        42
        """
        self._wait(timeout_s)
        return outcome_of(self)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait as ``result`` does and give the error instead of raising it; ``None`` if all went well."""
        self._wait(timeout_s)
        return self.metadata_and_error()[1]

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Call ``function`` with this delivery once it is done: at once, if it is."""
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
    """The coroutine behind ``await delivery``."""
    while not (batch := delivery.batch).done:
        await waiting_of(batch).future(batch)
    return outcome_of(delivery)


def waiting_of(batch: Holder) -> Waiting:
    if batch.waiting is None:
        raise InvalidState("nobody tells when this batch is done")
    return batch.waiting


def outcome_of(delivery: Delivery) -> RecordMetadata:
    metadata, error = delivery.metadata_and_error()
    if metadata is None:
        raise error or InvalidState("the batch is not done")
    return metadata
