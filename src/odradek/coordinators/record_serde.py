"""Keys and values of the internal topics: an int16 version, and then the fields of a table in that version.

Bytes that are no such thing raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. Bytes after the
last field are left alone, as Kafka leaves them.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, cast

from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.schema import Table

VERSION: Final = Struct(">h")


def read_version(raw: bytes) -> int:
    """The version a key or value begins with."""
    if len(raw) < VERSION.size:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"a record of {len(raw)} bytes has no version")
    return int.from_bytes(raw[:2], "big", signed=True)


def read_fields(table: type, version: int, raw: bytes) -> Any:
    """The fields after the version, as an object of the table."""
    if version not in versions_of(table):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{table.__name__} has no version {version}")
    try:
        fields, _ = decoder(table, version)(memoryview(raw), VERSION.size)
    except RemoteProtocolViolation as malformed:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(malformed)) from malformed
    return fields


def write_fields(fields: Any, version: int) -> bytes:
    table: type = type(fields)
    return VERSION.pack(version) + encoder(table, version)(fields)


def versions_of(table: type) -> range:
    return cast("type[Table]", table).VERSIONS
