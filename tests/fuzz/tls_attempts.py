"""Attempts on a TLS listener: random bytes, mutated records, and handshakes that are cut off or disturbed."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from tests.fuzz.conversation import Conversation, Ended
from tests.fuzz.mutations import mutate
from tests.support.raw_connection import METADATA, header_v1
from tests.support.secured_connection import handshake_frame

HANDSHAKE_RECORD = 22
RECORD_TYPES = (20, 21, 22, 23, 24, 0, 128, 255)
VERSIONS = (b"\x03\x01", b"\x03\x03", b"\x03\x04", b"\x02\x00", b"\xff\xff")

Attempt = Callable[[Conversation, random.Random], None]


def play(conversation: Conversation, rng: random.Random) -> bool:
    """Make one attempt. Return whether it was left half done, for the broker to close the connection."""
    try:
        rng.choices(_ATTEMPTS, _WEIGHTS)[0](conversation, rng)
        # After a handshake, a listener without SASL has no reason to close the connection.
        if rng.random() < 0.03 and not conversation.answers:
            return True
        conversation.finish_sending()
    except Ended:
        pass
    conversation.rest()
    return False


class Client:
    """A client's side of TLS in memory, whose records can be changed on their way."""

    def __init__(self, rng: random.Random) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = _context(rng.choice([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]))
        name = rng.choice([None, "localhost", "a" * 60 + ".example"])
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)

    def first_flight(self) -> bytes:
        self.advance()
        return self._outgoing.read()

    def advance(self) -> bool:
        """Return whether the handshake is complete."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def take(self, data: bytes) -> None:
        self._incoming.write(data)

    def output(self) -> bytes:
        return self._outgoing.read()

    def encrypted(self, data: bytes) -> bytes:
        self._object.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        """Return the record that announces the end."""
        with suppress(ssl.SSLError):
            self._object.unwrap()
        return self._outgoing.read()

    def complete(self, conversation: Conversation, rng: random.Random, damage: float = 0.0) -> bool:
        """Complete the handshake; records are changed with this probability."""
        conversation.send(self.first_flight())
        for _ in range(20):
            self.take(conversation.receive())
            try:
                is_complete = self.advance()
            except ssl.SSLError:
                return False
            output = self.output()
            if output:
                is_damaged = rng.random() < damage
                conversation.send(mutate(output, rng) if is_damaged else output)
                if is_damaged:
                    return False
            if is_complete:
                conversation.answers += 1
                return True
        return False


@cache
def _context(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context


def _random_bytes(conversation: Conversation, rng: random.Random) -> None:
    conversation.send(rng.randbytes(rng.choice([1, 5, 100, 20_000])))


def _random_record(conversation: Conversation, rng: random.Random) -> None:
    """Send records with valid heads and random contents."""
    for _ in range(rng.randrange(1, 4)):
        size = rng.choice([0, 1, 4, 200, 16_384, 16_640])
        announced = size if rng.random() < 0.8 else rng.randrange(65_536)
        kind = HANDSHAKE_RECORD if rng.random() < 0.6 else rng.choice(RECORD_TYPES)
        head = bytes([kind]) + rng.choice(VERSIONS) + struct.pack(">H", announced)
        conversation.send(head + rng.randbytes(size))


def _handshake_message(conversation: Conversation, rng: random.Random) -> None:
    """Announce a handshake message of many megabytes, and send some of its records."""
    message = bytes([rng.choice([1, 11, 16, 24])]) + b"\xff\xff\xff"
    for _ in range(rng.randrange(1, 40)):
        body = (message + bytes(16_000))[:16_000]
        message = b""
        conversation.send(bytes([HANDSHAKE_RECORD]) + b"\x03\x03" + struct.pack(">H", len(body)) + body)


def _mutated_hello(conversation: Conversation, rng: random.Random) -> None:
    hello = Client(rng).first_flight()
    if rng.random() < 0.5:
        # The size in the head of the record fits, so that the message itself is parsed.
        body = mutate(hello[5:], rng)
        hello = hello[:3] + struct.pack(">H", len(body)) + body
    else:
        hello = mutate(hello, rng)
    conversation.send(hello)


def _cut_hello(conversation: Conversation, rng: random.Random) -> None:
    hello = Client(rng).first_flight()
    conversation.send(hello[: rng.randrange(1, len(hello))])


def _fragmented_hello(conversation: Conversation, rng: random.Random) -> None:
    """Send the message in many small records, as is allowed, or with others between them."""
    body = Client(rng).first_flight()[5:]
    size = rng.choice([1, 7, 64])
    for start in range(0, min(len(body), 60 * size), size):
        piece = body[start : start + size]
        conversation.send(bytes([HANDSHAKE_RECORD]) + b"\x03\x01" + struct.pack(">H", len(piece)) + piece)
        if rng.random() < 0.02:
            _random_record(conversation, rng)


def _repeated_hello(conversation: Conversation, rng: random.Random) -> None:
    hello = Client(rng).first_flight()
    for _ in range(rng.randrange(2, 5)):
        conversation.send(hello)


def _damaged_handshake(conversation: Conversation, rng: random.Random) -> None:
    Client(rng).complete(conversation, rng, damage=0.9)


def _abandoned_handshake(conversation: Conversation, rng: random.Random) -> None:
    """Read the first flight of the broker, then send something else or nothing."""
    conversation.send(Client(rng).first_flight())
    conversation.receive()
    if rng.random() < 0.5:
        _random_record(conversation, rng)


def _damaged_data(conversation: Conversation, rng: random.Random) -> None:
    """Complete the handshake, then change, repeat or drop encrypted records."""
    client = Client(rng)
    if not client.complete(conversation, rng):
        return
    for _ in range(rng.randrange(1, 5)):
        frame = handshake_frame("PLAIN") if rng.random() < 0.5 else header_v1(METADATA, 1) + bytes(4)
        record = client.encrypted(struct.pack(">i", len(frame)) + frame)
        kind = rng.randrange(5)
        if kind == 0:
            record = mutate(record, rng)
        elif kind == 1:
            record *= 2
        elif kind == 2:
            record = record[: rng.randrange(1, len(record))]
        elif kind == 3:
            continue
        conversation.send(record)


def _plaintext_after_handshake(conversation: Conversation, rng: random.Random) -> None:
    client = Client(rng)
    if client.complete(conversation, rng):
        conversation.send(struct.pack(">i", 30) + handshake_frame("PLAIN"))


def _small_records(conversation: Conversation, rng: random.Random) -> None:
    """Send a frame with a byte in each record, and empty records."""
    client = Client(rng)
    if not client.complete(conversation, rng):
        return
    for byte in struct.pack(">i", 400) + rng.randbytes(rng.randrange(60)):
        conversation.send(client.encrypted(bytes([byte])))


def _early_end(conversation: Conversation, rng: random.Random) -> None:
    """Announce the end, and go on."""
    client = Client(rng)
    if client.complete(conversation, rng):
        conversation.send(client.end())
        conversation.send(rng.randbytes(rng.choice([1, 100])))


def _plaintext(conversation: Conversation, rng: random.Random) -> None:
    frame = handshake_frame(rng.choice(["PLAIN", "X" * 300]))
    conversation.send(struct.pack(">i", len(frame)) + frame)


def _web_request(conversation: Conversation, rng: random.Random) -> None:
    conversation.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * rng.randrange(1, 50))


_WEIGHTED: dict[Attempt, int] = {
    _random_bytes: 2,
    _random_record: 4,
    _handshake_message: 1,
    _mutated_hello: 8,
    _cut_hello: 2,
    _fragmented_hello: 2,
    _repeated_hello: 1,
    _damaged_handshake: 4,
    _abandoned_handshake: 2,
    _damaged_data: 4,
    _plaintext_after_handshake: 1,
    _small_records: 1,
    _early_end: 1,
    _plaintext: 1,
    _web_request: 1,
}
_ATTEMPTS, _WEIGHTS = list(_WEIGHTED), list(_WEIGHTED.values())
