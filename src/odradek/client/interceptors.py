"""Interceptors: programs that look at records on their way, and may change them, without the application.

A chain calls them in order, each with what the one before it gave. An interceptor that raises is logged and
passed over: it can never stop a client or lose a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from odradek.client.values import Headers, OffsetAndMetadata, RecordMetadata
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

V = TypeVar("V")

_log: Final = events.logger("client")

# What a record that was never sent has in place of a partition, an offset and a time.
_UNKNOWN: Final = -1


class ProducerRecord(NamedTuple):
    """A record as given to ``send``, before serializers and partitioner.

    >>> ProducerRecord("orders", b"book", key=b"7")._replace(partition=0).partition
    0
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Sees each record before it is sent, and what became of it. Inherit to leave out what is not needed.

    ``on_send`` runs where ``send`` was called; ``on_acknowledgement`` on the client's own thread, before the
    record's ``on_delivery``, also for records that failed before they were sent. Both should be quick.

    >>> class Stamp(ProducerInterceptor):
    ...     def on_send(self, record):
    ...         return record._replace(headers=[*(record.headers or ()), ("stamp", b"1")])
    >>> Stamp().on_send(ProducerRecord("castle", b"letter")).headers
    [('stamp', b'1')]
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Gives the record to send."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Told once for each record. With an error, unknown fields of the metadata are -1."""
        return

    def close(self) -> None:
        """The producer has been closed."""
        return


class ConsumerInterceptor(Protocol):
    """Sees records before ``poll`` gives them, and offsets once committed. Inherit to leave out the rest.

    >>> class WithoutTombstones(ConsumerInterceptor):
    ...     def on_consume(self, records):
    ...         return [record for record in records if record.value is not None]
    >>> WithoutTombstones().on_consume([])
    []
    """

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Gives the records that ``poll`` shall give."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Told after each commit that succeeded."""
        return

    def close(self) -> None:
        """The consumer has been closed."""
        return


class ProducerInterceptors:
    """The chain of a producer; false if it is empty, so that a send without interceptors can pass it by."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor] = ()) -> None:
        self._interceptors = _complete(interceptors, ProducerInterceptor)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._interceptors:
            given: object = _call(interceptor, interceptor.on_send, record, otherwise=record)
            if isinstance(given, ProducerRecord):
                record = given
            else:
                _log.warning("interceptor_returned_no_record", interceptor=type(interceptor).__name__)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.on_acknowledgement, metadata, error, otherwise=None)

    def on_send_failed(self, record: ProducerRecord, error: BaseException) -> None:
        """For a record that was refused before it had a place in a batch."""
        partition = _UNKNOWN if record.partition is None else record.partition
        self.on_acknowledgement(
            RecordMetadata(record.topic, partition, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN), error
        )

    def close(self) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.close, otherwise=None)


class ConsumerInterceptors:
    """The chain of a consumer; false if it is empty."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor] = ()) -> None:
        self._interceptors = _complete(interceptors, ConsumerInterceptor)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: list[Any]) -> list[Any]:
        for interceptor in self._interceptors:
            records = _call(interceptor, interceptor.on_consume, records, otherwise=records)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.on_commit, offsets, otherwise=None)

    def close(self) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.close, otherwise=None)


def _complete(interceptors: Sequence[V], kind: type) -> tuple[V, ...]:
    """The interceptors, each with all its methods: one that is missing would be missed with every record."""
    names = [name for name in vars(kind) if name == "close" or name.startswith("on_")]
    for interceptor in interceptors:
        missing = [name for name in names if not callable(getattr(interceptor, name, None))]
        if missing:
            what = f"{type(interceptor).__name__} has no {' and no '.join(missing)}"
            raise TypeError(f"{what}: inherit from {kind.__name__} to leave out what is not needed")
    return tuple(interceptors)


def _call(interceptor: object, method: Callable[..., V], *arguments: object, otherwise: V) -> V:
    """What an interceptor gives, or what there was before if it fails."""
    try:
        return method(*arguments)
    except Exception as failure:  # noqa: BLE001 - a user's code may raise anything, and must not stop a client
        _log.failure("interceptor_failed", failure, interceptor=type(interceptor).__name__)
        return otherwise
