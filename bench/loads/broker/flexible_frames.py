"""Prepared requests of flexible versions, written from the protocol's definition as in `frames.py`.

  CreateTopics v5  [name, partitions, replication factor, [], [], tags], timeout, validate only, tags
  Metadata v12     null: all topics, or [topic id, name, tags]; auto creation, authorized operations, tags
  Heartbeat v4     group, generation, member, instance, tags
  OffsetCommit v8  group, generation, member, instance,
                   [topic, [partition, offset, leader epoch, metadata, tags], tags], tags

All with header v2: that of `frames.py` and tags. Strings and arrays are compact: their length plus one comes
first, as a varint; 0 is null. There are no tags. Responses have header v1: correlation id and tags.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from bench.loads.broker.frames import framed

NO_TAGS = NULL = b"\0"
NO_TOPIC_ID = bytes(16)
REPLICAS = 1
CREATE_TIMEOUT_MS = 120_000
HEAD_BYTES = 9
"""Length, correlation id and tags, before every response."""
OFFSET = 12_345


def flexible(api_key: int, version: int, body: bytes) -> bytes:
    return framed(api_key, version, NO_TAGS + body + NO_TAGS)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(value: str) -> bytes:
    return unsigned_varint(len(value) + 1) + value.encode()


def compact_array(items: Iterable[bytes]) -> bytes:
    encoded = list(items)
    return unsigned_varint(len(encoded) + 1) + b"".join(encoded)


def create_topics(topics: Sequence[str], partitions: int) -> bytes:
    entries = (
        compact_string(name) + struct.pack(">ih", partitions, REPLICAS) + b"\1\1" + NO_TAGS for name in topics
    )
    return flexible(19, 5, compact_array(entries) + struct.pack(">i?", CREATE_TIMEOUT_MS, False))


def metadata(topics: Sequence[str] | None) -> bytes:
    """Metadata of these topics, or of all, without auto creation."""
    entries = NULL
    if topics is not None:
        entries = compact_array(NO_TOPIC_ID + compact_string(name) + NO_TAGS for name in topics)
    return flexible(3, 12, entries + struct.pack(">??", False, False))


def heartbeat(group: str, generation: int, member: str) -> bytes:
    return flexible(12, 4, _membership(group, generation, member))


def offset_commit(group: str, generation: int, member: str, topic: str, partitions: int) -> bytes:
    """OffsetCommit of the first partitions of a topic, without leader epochs, with empty metadata."""
    offsets = (
        struct.pack(">iqi", partition, OFFSET, -1) + compact_string("") + NO_TAGS
        for partition in range(partitions)
    )
    topics = [compact_string(topic) + compact_array(offsets) + NO_TAGS]
    return flexible(8, 8, _membership(group, generation, member) + compact_array(topics))


def _membership(group: str, generation: int, member: str) -> bytes:
    return compact_string(group) + struct.pack(">i", generation) + compact_string(member) + NULL


class FlexibleFields:
    """Reads the fields of a flexible response in order."""

    def __init__(self, response: bytes) -> None:
        self._data = response
        self._position = HEAD_BYTES

    def skip(self, count: int) -> None:
        self._position += count

    def int16(self) -> int:
        return self._read(">h", 2)

    def int32(self) -> int:
        return self._read(">i", 4)

    def unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def count(self) -> int:
        """Return the length of an array; 0 for null."""
        return max(0, self.unsigned_varint() - 1)

    def string(self) -> str:
        length = self.count()
        self._position += length
        return self._data[self._position - length : self._position].decode()

    def tags(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self.skip(self.unsigned_varint())

    def must_end(self) -> None:
        if self._position != len(self._data):
            raise ConnectionError(f"response of {len(self._data)} bytes ends at {self._position}")

    def _read(self, layout: str, size: int) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._position)
        self._position += size
        return int(value)


def created_topic_errors(response: bytes) -> dict[str, int]:
    """Return the error code of each topic of a CreateTopics response."""
    fields = FlexibleFields(response)
    fields.skip(4)  # throttle time
    errors = {}
    for _ in range(fields.count()):
        name = fields.string()
        errors[name] = fields.int16()
        fields.string()  # message
        fields.skip(4 + 2)  # partitions, replication factor
        for _ in range(fields.count()):
            fields.string(), fields.string()
            fields.skip(1 + 1 + 1)  # read only, source, sensitive
            fields.tags()
        fields.tags()
    return errors


def metadata_errors(response: bytes) -> list[int]:
    """Return the error codes of all topics and partitions of a Metadata response."""
    fields = FlexibleFields(response)
    fields.skip(4)  # throttle time
    for _ in range(fields.count()):
        fields.skip(4)  # broker
        fields.string()
        fields.skip(4)  # port
        fields.string()
        fields.tags()
    fields.string()  # cluster
    fields.skip(4)  # controller
    errors = [error for _ in range(fields.count()) for error in _topic_errors(fields)]
    fields.tags()
    fields.must_end()
    return errors


def _topic_errors(fields: FlexibleFields) -> list[int]:
    errors = [fields.int16()]
    fields.string()
    fields.skip(16 + 1)  # topic id, internal
    for _ in range(fields.count()):
        errors.append(fields.int16())
        fields.skip(4 + 4 + 4)  # partition, leader, leader epoch
        for _ in range(3):  # replicas, ISR, offline replicas
            fields.skip(4 * fields.count())
        fields.tags()
    fields.skip(4)  # authorized operations
    fields.tags()
    return errors


def heartbeat_errors(response: bytes) -> list[int]:
    fields = FlexibleFields(response)
    fields.skip(4)  # throttle time
    errors = [fields.int16()]
    fields.tags()
    fields.must_end()
    return errors


def offset_commit_errors(response: bytes) -> list[int]:
    """Return the error codes of all partitions of an OffsetCommit response."""
    fields = FlexibleFields(response)
    fields.skip(4)  # throttle time
    errors = []
    for _ in range(fields.count()):
        fields.string()
        for _ in range(fields.count()):
            fields.skip(4)
            errors.append(fields.int16())
            fields.tags()
        fields.tags()
    fields.tags()
    fields.must_end()
    return errors
