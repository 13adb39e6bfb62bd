"""Mutations of frames, and detection of requests that would wait long."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Final

from tests.fuzz.values import EDGES

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.apis import API_BY_KEY
from odradek.wire.headers import decode_request_header
from odradek.wire.message_codecs import decoder

WAIT_MS_MAX = 1_000
WAITS: Final = {
    1: "max_wait_ms",
    19: "timeout_ms",
    20: "timeout_ms",
    37: "timeout_ms",
    43: "timeout_ms",
    45: "timeout_ms",
}
"""Field with the time that a broker may wait, by the key of the request: Fetch, CreateTopics, DeleteTopics,
CreatePartitions, ElectLeaders, AlterPartitionReassignments."""

Mutation = Callable[[bytearray, random.Random], None]


def _flip_bit(frame: bytearray, rng: random.Random) -> None:
    frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)


def _set_byte(frame: bytearray, rng: random.Random) -> None:
    frame[rng.randrange(len(frame))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])


def _truncate(frame: bytearray, rng: random.Random) -> None:
    del frame[rng.randrange(len(frame)) :]


def _append_bytes(frame: bytearray, rng: random.Random) -> None:
    frame += rng.randbytes(rng.randrange(1, 40))


def _insert_bytes(frame: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(frame) + 1)
    frame[at:at] = rng.randbytes(rng.randrange(1, 8))


def _delete_bytes(frame: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(frame))
    del frame[at : at + rng.randrange(1, 8)]


def _duplicate_bytes(frame: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(frame))
    frame[at:at] = frame[at : at + rng.randrange(1, 64)]


def _write_edge_value(frame: bytearray, rng: random.Random) -> None:
    size = rng.choice([2, 4, 8])
    if len(frame) > size:
        at = rng.randrange(len(frame) - size)
        wrapped = rng.choice(EDGES) % 2 ** (8 * size)
        frame[at : at + size] = wrapped.to_bytes(size, "big")


def _change_version(frame: bytearray, rng: random.Random) -> None:
    if len(frame) >= 4:
        frame[2:4] = struct.pack(">h", rng.randrange(-1, 20))


def _change_api_key(frame: bytearray, rng: random.Random) -> None:
    if len(frame) >= 2:
        frame[0:2] = struct.pack(">h", rng.randrange(-1, 95))


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bit,
    _set_byte,
    _truncate,
    _append_bytes,
    _insert_bytes,
    _delete_bytes,
    _duplicate_bytes,
    _write_edge_value,
    _change_version,
    _change_api_key,
)


def mutate(frame: bytes, rng: random.Random) -> bytes:
    """Return the frame with one to four mutations."""
    changed = bytearray(frame)
    for _ in range(rng.randrange(1, 5)):
        if changed:
            rng.choice(MUTATIONS)(changed, rng)
    return bytes(changed)


def has_long_wait(frame: bytes) -> bool:
    """Return whether the frame decodes as a request with a longer wait than the test's timeout.

    Topics with a replica on an unknown broker, for example, are deleted only when that broker is back.
    """
    field = WAITS.get(struct.unpack_from(">h", frame)[0]) if len(frame) >= 4 else None
    if field is None:
        return False
    try:
        header, position = decode_request_header(memoryview(frame))
        api = API_BY_KEY[header.api_key]
        if header.api_version not in api.versions:
            return False
        request, _ = decoder(api.request, header.api_version)(memoryview(frame), position)
    except RemoteProtocolViolation:
        return False
    return bool(getattr(request, field) > WAIT_MS_MAX)
