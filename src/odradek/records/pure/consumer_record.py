"""Records returned by consumers."""

from __future__ import annotations

from typing import Any, Generic

from odradek.model.protocol_enums import TimestampType
from odradek.model.type_variables import Key_co, Value_co
from odradek.records.layout import Headers

_FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "serialized_key_size",
    "serialized_value_size",
)


class ConsumerRecord(Generic[Key_co, Value_co]):
    """A record with its topic, partition and offset.

    Key and value are None, or of the types that the deserializers return: ``ConsumerRecord[str, Order]``.

    ``timestamp_type`` is ``None`` and ``timestamp`` -1 in magic 0, which has no timestamps; sizes are -1 for
    null, ``leader_epoch`` is -1 if unknown.

    >>> record = ConsumerRecord("orders", 0, 42, 1700000000000, TimestampType.CREATE_TIME, b"k", b"v")
    >>> record.offset, record.value
    (42, b'v')
    """

    __slots__ = _FIELDS
    __match_args__ = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: TimestampType | None,
        key: Key_co | None,
        value: Value_co | None,
        headers: Headers = (),
        leader_epoch: int = -1,
        serialized_key_size: int = -1,
        serialized_value_size: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers
        self.leader_epoch = leader_epoch
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    def deserialized(self, key: Any, value: Any) -> ConsumerRecord[Any, Any]:
        """Return the same record with a deserialized key and value."""
        record: ConsumerRecord[Any, Any] = ConsumerRecord(*self._fields())
        record.key, record.value = key, value
        return record

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _FIELDS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[type[ConsumerRecord[Any, Any]], tuple[Any, ...]]:
        return ConsumerRecord, self._fields()

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )
