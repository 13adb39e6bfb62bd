"""Interceptors and serializers, applied to a record before it is appended.

A producer without any skips this: its ``send`` is one call of the appender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.client.interceptors import ProducerInterceptor, ProducerInterceptors, ProducerRecord
from odradek.client.serdes import AnySerializer, serialize_with
from odradek.client.values import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]


class RecordTransforms:
    """Interceptors and serializers of one producer; false if there are none."""

    def __init__(
        self,
        key_serializer: AnySerializer,
        value_serializer: AnySerializer,
        interceptors: Sequence[ProducerInterceptor],
    ) -> None:
        self.key = serialize_with(key_serializer, "key")
        self.value = serialize_with(value_serializer, "value")
        self.interceptors = ProducerInterceptors(interceptors)

    def __bool__(self) -> bool:
        return bool(self.interceptors) or self.key is not None or self.value is not None

    def intercept(self, record: ProducerRecord) -> ProducerRecord:
        return self.interceptors.on_send(record) if self.interceptors else record

    def serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with key and value as bytes; raise SerializationFailed."""
        key = record.key if self.key is None else self.key(record.topic, record.key)
        value = record.value if self.value is None else self.value(record.topic, record.value)
        return record._replace(key=key, value=value)

    def delivery_callback(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> OnDelivery | None:
        """Return the callback of a record: interceptors first, then ``on_delivery``."""
        if not self.interceptors:
            return on_delivery
        interceptors = self.interceptors

        def callback(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if metadata is None:
                partition = -1 if record.partition is None else record.partition
                acknowledged = RecordMetadata(record.topic, partition, -1, -1, -1, -1)
            else:
                acknowledged = metadata
            interceptors.on_acknowledgement(acknowledged, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return callback

    def serialize_columns(
        self, topic: str, values: Sequence[object], keys: Sequence[object] | None
    ) -> tuple[Sequence[object], Sequence[object] | None]:
        """Return values and keys as bytes."""
        if self.value is not None:
            serialize = self.value
            values = [serialize(topic, value) for value in values]
        if self.key is not None and keys is not None:
            serialize_key = self.key
            keys = [serialize_key(topic, key) for key in keys]
        return values, keys
