"""The TLS stream without I/O: records in pieces, ends, limits, and damage of every kind."""

from __future__ import annotations

import gc
import ssl
import weakref
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tls import (
    client_certificate,
    client_options,
    read_nothing,
    server_options,
)

from odradek.ports.network import UnknownHost
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_error import TlsError, TlsHandshakeFailed
from odradek.security.tls.tls_stream import HANDSHAKE_BYTES_MAX, UNREAD_BYTES_MAX, TlsStream

SERVER = {
    version: create_context(
        server_options(client_auth="requested", protocols=(version,)), read_nothing, server_side=True
    )
    for version in ("TLSv1.2", "TLSv1.3")
}
STRICT_SERVER = create_context(server_options(client_auth="required"), read_nothing, server_side=True)
CLIENT = create_context(client_options(client_certificate()), read_nothing, server_side=False)
ANONYMOUS = create_context(client_options(), read_nothing, server_side=False)
VERSIONS = pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])


class Pair:
    """Both sides of a connection in memory."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext = CLIENT) -> None:
        self.server = TlsStream(server, server_side=True)
        self.client = TlsStream(client, server_side=False, host="localhost")

    def shake_hands(self, piece: int = 1 << 20) -> None:
        for _ in range(6):
            transfer(self.client, self.server, piece)
            transfer(self.server, self.client, piece)
        assert self.server.is_complete
        assert self.client.is_complete


def transfer(sender: TlsStream, receiver: TlsStream, piece: int = 1 << 20) -> None:
    output = sender.take_output()
    for start in range(0, len(output), piece):
        receiver.receive(output[start : start + piece])


def receive_all(stream: TlsStream, pieces: list[bytes]) -> None:
    for piece in pieces:
        stream.receive(piece)


def read(stream: TlsStream, size: int = 1 << 20) -> bytes:
    buffer = bytearray(size)
    count = stream.read_into(memoryview(buffer))
    return bytes(buffer[:count])


def complete_pair(version: str = "TLSv1.3") -> Pair:
    pair = Pair(SERVER[version])
    pair.shake_hands()
    return pair


@VERSIONS
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_bytes_arrive_however_they_are_cut(version: str, piece: int) -> None:
    pair = Pair(SERVER[version])
    pair.shake_hands(piece)
    data = bytes(range(256)) * 200
    pair.client.write(data)
    pair.server.write(b"back")
    transfer(pair.client, pair.server, piece)
    transfer(pair.server, pair.client, piece)
    assert read(pair.server, 100_000) == data
    assert read(pair.client) == b"back"
    assert pair.server.peer_name() == "CN=alice"
    assert not pair.server.has_unread


@VERSIONS
def test_ciphertext_does_not_show_the_plaintext(version: str) -> None:
    pair = complete_pair(version)
    pair.client.write(b"plaintext-marker" * 100)
    assert b"plaintext-marker" not in pair.client.take_output()


@VERSIONS
def test_small_buffers_are_filled(version: str) -> None:
    pair = complete_pair(version)
    for number in range(10):
        pair.client.write(b"%d" % number)
    transfer(pair.client, pair.server)
    assert read(pair.server, 4) == b"0123"
    assert pair.server.has_unread
    assert read(pair.server, 4) == b"4567"
    assert read(pair.server, 4) == b"89"
    assert read(pair.server, 4) == b""


def test_nothing_is_read_or_written_before_the_handshake_is_complete() -> None:
    pair = Pair(SERVER["TLSv1.3"])
    with pytest.raises(TlsError, match="before the handshake was complete"):
        pair.client.write(b"early")
    assert read(pair.server) == b""
    assert not pair.server.has_unread
    assert pair.server.peer_name() is None


def test_plaintext_behind_the_handshake_is_readable_at_once() -> None:
    pair = Pair(SERVER["TLSv1.3"])
    transfer(pair.client, pair.server)
    transfer(pair.server, pair.client)
    pair.client.write(b"first request")
    assert not pair.server.is_complete
    transfer(pair.client, pair.server)
    assert pair.server.is_complete
    assert read(pair.server) == b"first request"


@VERSIONS
def test_end_is_announced_after_the_last_bytes(version: str) -> None:
    pair = complete_pair(version)
    pair.client.write(b"last")
    pair.client.close()
    transfer(pair.client, pair.server)
    assert read(pair.server) == b"last"
    assert not pair.server.is_peer_closed
    assert pair.server.has_unread
    assert read(pair.server) == b""
    assert pair.server.is_peer_closed
    assert not pair.server.has_unread
    pair.server.close()
    transfer(pair.server, pair.client)
    assert read(pair.client) == b""
    assert pair.client.is_peer_closed


def test_close_before_the_handshake_sends_nothing() -> None:
    pair = Pair(SERVER["TLSv1.3"])
    pair.server.close()
    assert pair.server.take_output() == b""


def test_missing_client_certificate_reaches_the_client() -> None:
    """With TLS 1.3 after its side of the handshake: it is a failed handshake all the same."""
    pair = Pair(STRICT_SERVER, ANONYMOUS)
    transfer(pair.client, pair.server)
    transfer(pair.server, pair.client)
    assert pair.client.is_complete
    assert not pair.client.is_confirmed
    with pytest.raises(TlsHandshakeFailed, match="the client sent no certificate"):
        transfer(pair.client, pair.server)
    transfer(pair.server, pair.client)
    with pytest.raises(
        TlsHandshakeFailed, match="the peer refused the connection: it requires a client certificate"
    ):
        read(pair.client)


def test_errors_after_the_first_response_are_no_failed_handshakes() -> None:
    pair = complete_pair()
    pair.server.write(b"response")
    transfer(pair.server, pair.client)
    assert read(pair.client) == b"response"
    assert pair.client.is_confirmed
    pair.client.receive(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError) as caught:
        read(pair.client)
    assert not isinstance(caught.value, TlsHandshakeFailed)
    with pytest.raises(TlsError):
        pair.client.write(b"too late")


def test_bytes_before_a_damaged_record_are_delivered() -> None:
    pair = complete_pair()
    pair.client.write(b"valid")
    output = pair.client.take_output()
    pair.server.receive(output + b"\x17\x03\x03\x00\x20" + bytes(32))
    assert read(pair.server) == b"valid"
    assert pair.server.has_unread
    with pytest.raises(TlsError, match="bad record"):
        read(pair.server)


@pytest.mark.parametrize("data", [b"\0\0\0\x1f\0\x12\0\3", b"GET / HTTP/1.1\r\n", b"\x80\x2e\x01\x03\x01"])
def test_peers_without_tls_are_told_apart_and_get_no_alert(data: bytes) -> None:
    """A Kafka client would take an alert for the size of a response, and allocate it."""
    stream = TlsStream(SERVER["TLSv1.3"], server_side=True)
    with pytest.raises(TlsHandshakeFailed, match="does not use TLS: it may be configured for PLAINTEXT"):
        stream.receive(data)
    assert stream.take_output() == b""


def test_handshake_bytes_are_bounded() -> None:
    stream = TlsStream(SERVER["TLSv1.3"], server_side=True)
    record = b"\x16\x03\x01\x40\x00"
    hello = b"\x01\xff\xff\xff" + bytes(0x4000 - 4)  # a message of 16 MB
    records = [hello, *[bytes(0x4000)] * (HANDSHAKE_BYTES_MAX // 0x4000 + 1)]
    with pytest.raises(TlsHandshakeFailed):
        receive_all(stream, [record + content for content in records])


def test_slow_handshake_bytes_are_bounded() -> None:
    """A message that OpenSSL accepts the beginning of, in records of one byte."""
    pair = Pair(SERVER["TLSv1.2"])
    transfer(pair.client, pair.server)
    certificates = b"\x0b\x01\x00\x00" + bytes(0x10000)  # 64 KB, which is allowed
    records = [b"\x16\x03\x03\0\x01" + certificates[i : i + 1] for i in range(HANDSHAKE_BYTES_MAX // 6 + 2)]
    with pytest.raises(TlsHandshakeFailed, match="more than 262144 bytes were received before"):
        receive_all(pair.server, records)


def test_unread_bytes_are_bounded() -> None:
    pair = complete_pair()
    pair.client.write(bytes(UNREAD_BYTES_MAX))
    output = pair.client.take_output()
    pieces = [output[start : start + 100_000] for start in range(0, len(output), 100_000)]
    with pytest.raises(TlsError, match="bytes were received and not read"):
        receive_all(pair.server, pieces)


def test_record_of_more_than_the_maximum_is_refused() -> None:
    pair = complete_pair()
    pair.server.receive(b"\x17\x03\x03\xff\xff" + bytes(100))
    with pytest.raises(TlsError):
        read(pair.server)


@pytest.mark.parametrize("host", ["", ".example.org", "a" * 64, "two..dots"])
def test_text_that_is_no_host_name(host: str) -> None:
    with pytest.raises(UnknownHost):
        TlsStream(CLIENT, server_side=False, host=host)


@VERSIONS
def test_renegotiation_is_refused(version: str) -> None:
    """A record of the handshake after its end: a client that begins it again gets nowhere."""
    pair = complete_pair(version)
    hello = TlsStream(CLIENT, server_side=False, host="localhost").take_output()
    pair.server.receive(hello)
    with pytest.raises(TlsError):
        read(pair.server)


def test_failed_streams_are_freed_at_once() -> None:
    """Not by the garbage collector, which would let thousands of failed handshakes pile up."""
    gc.disable()
    try:
        stream = TlsStream(SERVER["TLSv1.3"], server_side=True)
        stream_object = weakref.ref(stream._object)
        with suppress(TlsError):
            stream.receive(b"\x16\x03\x01\x00\x04rubb")
        with suppress(TlsError):
            stream.receive(b"more")
        del stream
        assert stream_object() is None
    finally:
        gc.enable()


@st.composite
def damage(draw: st.DrawFn) -> tuple[str, int, int, bytes]:
    return (
        draw(st.sampled_from(["flip", "cut", "insert", "repeat", "replace"])),
        draw(st.integers(0, 1 << 16)),
        draw(st.integers(0, 7)),
        draw(st.binary(max_size=40)),
    )


def apply(data: bytes, change: tuple[str, int, int, bytes]) -> bytes:
    kind, position, bit, extra = change
    if not data:
        return extra
    position %= len(data)
    match kind:
        case "flip":
            return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]
        case "cut":
            return data[:position]
        case "insert":
            return data[:position] + extra + data[position:]
        case "repeat":
            return data + data[position:]
        case _:
            return data[:position] + extra + data[position + len(extra) :]


@settings(max_examples=300, deadline=None)
@given(version=st.sampled_from(["TLSv1.2", "TLSv1.3"]), step=st.integers(0, 5), change=damage())
def test_damaged_flights_raise_nothing_but_tls_errors(
    version: str, step: int, change: tuple[str, int, int, bytes]
) -> None:
    """Every flight of the handshake and of the data, damaged on its way."""
    pair = Pair(SERVER[version])
    sides = (pair.client, pair.server)
    written = False
    for turn in range(8):
        sender, receiver = sides[turn % 2], sides[(turn + 1) % 2]
        try:
            if sender.is_complete and not written:
                sender.write(b"marker" * 100)
                written = True
            output = sender.take_output()
            if turn == step:
                output = apply(output, change)
            receiver.receive(output)
            assert read(receiver) in (b"", b"marker" * 100)
        except TlsError:
            assert b"marker" not in receiver.take_output()
            return


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.binary(min_size=1, max_size=300), max_size=8), kind=st.sampled_from([22, 21, 23, 20]))
def test_random_records_raise_nothing_but_tls_errors(data: list[bytes], kind: int) -> None:
    for stream in (
        TlsStream(SERVER["TLSv1.3"], server_side=True),
        TlsStream(CLIENT, server_side=False, host="localhost"),
        complete_pair("TLSv1.2").server,
        complete_pair("TLSv1.3").server,
    ):
        try:
            for piece in data:
                stream.receive(bytes([kind, 3, 3]) + len(piece).to_bytes(2, "big") + piece)
                assert read(stream) == b""
        except TlsError:
            continue
