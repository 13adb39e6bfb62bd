"""The header of a Kafka request, as far as a proxy needs it: API, version, correlation id and client id."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, Self

_LENGTH = struct.Struct(">i")
_FIELDS = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_CORRELATION_ID = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size
FRAME_BYTES_MAX = 64 << 20
BROKER_CLIENT_IDS = ("broker-", "controller-")
"""Beginnings of the client ids of brokers among themselves."""


class Api(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    OFFSET_COMMIT = 8
    JOIN_GROUP = 11
    SYNC_GROUP = 14
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    ALTER_PARTITION = 56


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str

    @classmethod
    def parse(cls, frame: bytes) -> Self:
        """Parse the header of a frame that begins with its length."""
        api_key, version, correlation_id, size = _FIELDS.unpack_from(frame, LENGTH_BYTES)
        begin = LENGTH_BYTES + _FIELDS.size
        client_id = frame[begin : begin + max(size, 0)].decode(errors="replace")
        return cls(api_key, version, correlation_id, client_id)

    @property
    def is_of_broker(self) -> bool:
        return self.client_id.startswith(BROKER_CLIENT_IDS)


def frame_size(prefix: bytes) -> int:
    """Return the number of bytes after the length; raises ValueError if it is not a frame's."""
    (size,) = _LENGTH.unpack(prefix)
    if not _CORRELATION_ID.size <= size <= FRAME_BYTES_MAX:
        raise ValueError(f"length of a frame must be 4 to {FRAME_BYTES_MAX}, got {size}")
    return int(size)


def response_correlation_id(frame: bytes) -> int:
    return int(_CORRELATION_ID.unpack_from(frame, LENGTH_BYTES)[0])
