"""What happens to a record before it is bytes: interceptors see it, serializers turn it into bytes.

A producer that has none of these leaves this out, and ``send`` is one call of the appender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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

    def intercepted(self, record: ProducerRecord) -> ProducerRecord:
        return self.interceptors.on_send(record) if self.interceptors else record

    def serialized(self, record: ProducerRecord) -> ProducerRecord:
        """The record with key and value as bytes; raises SerializationFailed."""
        key = record.key if self.key is None else self.key(record.topic, record.key)
        value = record.value if self.value is None else self.value(record.topic, record.value)
        return record._replace(key=key, value=value)

    def on_delivery(self, record: ProducerRecord, given: OnDelivery | None) -> OnDelivery | None:
        """What to call when the record's fate is known: interceptors first, then what was given."""
        if not self.interceptors:
            return given
        interceptors = self.interceptors

        def told(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if metadata is None:
                partition = -1 if record.partition is None else record.partition
                metadata_or_not = RecordMetadata(record.topic, partition, -1, -1, -1, -1)
            else:
                metadata_or_not = metadata
            interceptors.on_acknowledgement(metadata_or_not, error)
            if given is not None:
                given(metadata, error)

        return told

    def columns(self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None) -> tuple[Any, Any]:
        """Many values and keys as bytes."""
        if self.value is not None:
            serialize = self.value
            values = [serialize(topic, value) for value in values]
        if self.key is not None and keys is not None:
            serialize_key = self.key
            keys = [serialize_key(topic, key) for key in keys]
        return values, keys
