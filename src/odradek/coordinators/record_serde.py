"""Serialization of keys and values of the internal topics: an int16 version, then the fields of that version.

Malformed bytes raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. Bytes after the last field are
ignored, as in Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar, cast

from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.schema import Table

T = TypeVar("T")

VERSION: Final = Struct(">h")


def read_version(raw: bytes) -> int:
    """Return the version that a key or value starts with."""
    if len(raw) < VERSION.size:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"a record must start with a version, got {len(raw)} bytes"
        )
    return int.from_bytes(raw[:2], "big", signed=True)


def read_fields(schema: type[T], version: int, raw: bytes) -> T:
    """Return the fields after the version as an instance of the schema."""
    if version not in versions_of(schema):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{schema.__name__} has no version {version}")
    try:
        cls: type = schema
        fields: T = decoder(cls, version)(memoryview(raw), VERSION.size)[0]
    except RemoteProtocolViolation as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return fields


def write_fields(fields: object, version: int) -> bytes:
    schema: type = type(fields)
    return VERSION.pack(version) + encoder(schema, version)(fields)


def versions_of(schema: type) -> range:
    return cast("type[Table]", schema).VERSIONS
