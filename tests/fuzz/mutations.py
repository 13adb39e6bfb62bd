"""Small damage to frames, and the question whether a damaged frame asks the broker to wait."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.fuzz.values import EDGES

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.apis import API_BY_KEY
from odradek.wire.headers import decode_request_header
from odradek.wire.message_codecs import decoder
from odradek.wire.messages.fetch import FetchRequest

FETCH = 1
WAIT_MS_MAX = 500

Mutation = Callable[[bytearray, random.Random], None]


def _flip_a_bit(frame: bytearray, chance: random.Random) -> None:
    frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)


def _set_a_byte(frame: bytearray, chance: random.Random) -> None:
    frame[chance.randrange(len(frame))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])


def _cut_the_end(frame: bytearray, chance: random.Random) -> None:
    del frame[chance.randrange(len(frame)) :]


def _add_to_the_end(frame: bytearray, chance: random.Random) -> None:
    frame += chance.randbytes(chance.randrange(1, 40))


def _put_in_bytes(frame: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(frame) + 1)
    frame[at:at] = chance.randbytes(chance.randrange(1, 8))


def _take_out_bytes(frame: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(frame))
    del frame[at : at + chance.randrange(1, 8)]


def _double_a_piece(frame: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(frame))
    frame[at:at] = frame[at : at + chance.randrange(1, 64)]


def _write_an_edge(frame: bytearray, chance: random.Random) -> None:
    size = chance.choice([2, 4, 8])
    if len(frame) > size:
        at = chance.randrange(len(frame) - size)
        wrapped = chance.choice(EDGES) % 2 ** (8 * size)
        frame[at : at + size] = wrapped.to_bytes(size, "big")


def _change_the_version(frame: bytearray, chance: random.Random) -> None:
    if len(frame) >= 4:
        frame[2:4] = struct.pack(">h", chance.randrange(-1, 20))


def _change_the_api(frame: bytearray, chance: random.Random) -> None:
    if len(frame) >= 2:
        frame[0:2] = struct.pack(">h", chance.randrange(-1, 95))


MUTATIONS: tuple[Mutation, ...] = (
    _flip_a_bit,
    _set_a_byte,
    _cut_the_end,
    _add_to_the_end,
    _put_in_bytes,
    _take_out_bytes,
    _double_a_piece,
    _write_an_edge,
    _change_the_version,
    _change_the_api,
)


def mutate(frame: bytes, chance: random.Random) -> bytes:
    """The frame after one to four mutations."""
    changed = bytearray(frame)
    for _ in range(chance.randrange(1, 5)):
        if changed:
            chance.choice(MUTATIONS)(changed, chance)
    return bytes(changed)


def asks_to_wait(frame: bytes) -> bool:
    """True if the frame reads as a Fetch that lets the broker wait longer than a test does."""
    if len(frame) < 4 or struct.unpack_from(">h", frame)[0] != FETCH:
        return False
    try:
        header, position = decode_request_header(memoryview(frame))
        if header.api_version not in API_BY_KEY[FETCH].versions:
            return False
        request, _ = decoder(FetchRequest, header.api_version)(memoryview(frame), position)
    except RemoteProtocolViolation:
        return False
    return bool(request.max_wait_ms > WAIT_MS_MAX)
