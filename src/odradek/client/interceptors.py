"""Interceptors: plugins that see records, and may change them, without the application's code.

A chain calls them in order, each with the result of the one before it. An interceptor that raises is logged
and skipped: it can never stop a client or lose a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from odradek.client.values import Headers, OffsetAndMetadata, RecordMetadata
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

V = TypeVar("V")

_log: Final = events.logger("client")

# Partition, offset and timestamp of a record that was never sent.
_UNKNOWN: Final = -1


class ProducerRecord(NamedTuple):
    """A record as passed to ``send``, before serializers and partitioner.

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
    """Sees each record before it is sent and when it is acknowledged. Inherit to omit methods.

    ``on_send`` runs in the thread that calls ``send``; ``on_acknowledgement`` on the client's own thread,
    before the record's ``on_delivery``, also for records that failed before they were sent. Both should be
    quick.

    >>> class Stamp(ProducerInterceptor):
    ...     def on_send(self, record):
    ...         return record._replace(headers=[*(record.headers or ()), ("stamp", b"1")])
    >>> Stamp().on_send(ProducerRecord("castle", b"letter")).headers
    [('stamp', b'1')]
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Called once for each record. With an error, unknown fields of the metadata are -1."""
        return

    def close(self) -> None:
        """Called when the producer has been closed."""
        return


class ConsumerInterceptor(Protocol):
    """Sees records before ``poll`` returns them, and offsets once committed. Inherit to omit methods.

    >>> class WithoutTombstones(ConsumerInterceptor):
    ...     def on_consume(self, records):
    ...         return [record for record in records if record.value is not None]
    >>> WithoutTombstones().on_consume([])
    []
    """

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Return the records that ``poll`` returns."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after each successful commit."""
        return

    def close(self) -> None:
        """Called when the consumer has been closed."""
        return


class ProducerInterceptors:
    """Interceptor chain of a producer; false if it is empty, so that ``send`` can skip it."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor] = ()) -> None:
        self._interceptors = _checked(interceptors, ProducerInterceptor)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._interceptors:
            result: object = _call(interceptor, interceptor.on_send, record, default=record)
            if isinstance(result, ProducerRecord):
                record = result
            else:
                _log.warning("interceptor_returned_no_record", interceptor=type(interceptor).__name__)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.on_acknowledgement, metadata, error, default=None)

    def on_send_failed(self, record: ProducerRecord, error: BaseException) -> None:
        """Acknowledge a record that failed before it was appended to a batch."""
        partition = _UNKNOWN if record.partition is None else record.partition
        self.on_acknowledgement(
            RecordMetadata(record.topic, partition, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN), error
        )

    def close(self) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.close, default=None)


class ConsumerInterceptors:
    """Interceptor chain of a consumer; false if it is empty."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor] = ()) -> None:
        self._interceptors = _checked(interceptors, ConsumerInterceptor)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: list[Any]) -> list[Any]:
        for interceptor in self._interceptors:
            records = _call(interceptor, interceptor.on_consume, records, default=records)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.on_commit, offsets, default=None)

    def close(self) -> None:
        for interceptor in self._interceptors:
            _call(interceptor, interceptor.close, default=None)


def _checked(interceptors: Sequence[V], protocol: type) -> tuple[V, ...]:
    """Return the interceptors; raise TypeError if one lacks a method, which would fail for every record."""
    names = [name for name in vars(protocol) if name == "close" or name.startswith("on_")]
    for interceptor in interceptors:
        missing = [name for name in names if not callable(getattr(interceptor, name, None))]
        if missing:
            raise TypeError(
                f"interceptor must have the methods {', '.join(names)}, got {type(interceptor).__name__} "
                f"without {', '.join(missing)}; inherit from {protocol.__name__} to omit methods"
            )
    return tuple(interceptors)


def _call(interceptor: object, method: Callable[..., V], *arguments: object, default: V) -> V:
    """Call an interceptor; return ``default`` if it raises."""
    try:
        return method(*arguments)
    except Exception as failure:  # noqa: BLE001 - user code may raise anything, and must not stop a client
        _log.failure("interceptor_failed", failure, interceptor=type(interceptor).__name__)
        return default
