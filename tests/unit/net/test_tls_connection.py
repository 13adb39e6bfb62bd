"""TLS connections on the network in memory: limits of time and bytes, ends, pauses, ranges of files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.tls import (
    EXPIRED,
    HOSTS,
    authority,
    client_certificate,
    client_options,
    server_options,
    source,
    tls_network,
)

from odradek.net.tls.tls_connection import CHUNK_BYTES, QUEUED_BYTES_MAX, TlsConnection
from odradek.net.tls.tls_network import TlsNetwork
from odradek.ports.files import FileSlice
from odradek.ports.network import Connection, Network, Receiver
from odradek.security.tls.certificates import make_server_certificate
from odradek.security.tls.tls_error import TlsError, TlsHandshakeFailed
from odradek.security.tls.tls_options import TlsOptions
from odradek.security.tls.tls_stream import TlsStream
from odradek.testing.clock import run_virtually
from odradek.testing.contracts.network_contract import HOST, Collector, ConnectionPair, until
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.network import MemoryNetwork

TIMEOUT_MS = 5_000


class Plan(Collector):
    """A collector that notes the principal when the first bytes arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.principal: object = "no bytes yet"

    def bytes_received(self, count: int) -> None:
        if not self.received:
            self.principal = tls(self.connection).peer_principal_name
        super().bytes_received(count)


class RawPeer(Collector):
    """A peer that handles the TLS stream itself."""

    def __init__(self, stream: TlsStream | None = None) -> None:
        super().__init__()
        self.stream = stream
        self.connection: Connection | None = None
        self.error: TlsError | None = None
        self.is_deaf = False

    def attach(self, connection: Connection) -> Receiver:
        self.connection = connection
        return self

    @property
    def raw(self) -> Connection:
        assert self.connection is not None
        return self.connection

    def bytes_received(self, count: int) -> None:
        start = len(self.received)
        super().bytes_received(count)
        if self.stream is not None:
            try:
                self.stream.receive(bytes(self.received[start:]))
            except TlsError as error:
                self.error = error
            self.send_output()

    def send_output(self) -> None:
        assert self.stream is not None
        output = self.stream.take_output()
        if output:
            self.raw.send([output])


def tls(connection: Connection | None) -> TlsConnection:
    assert isinstance(connection, TlsConnection)
    return connection


def in_memory(body: Callable[[MemoryNetwork, Network], Awaitable[None]], **how: Any) -> None:
    network = MemoryNetwork(SeededEntropy(1), **how)
    run_virtually(lambda: body(network, network.host(HOST)))


async def listen(network: Network, *sides: Collector) -> int:
    """Listen with these receivers, one per connection; return the port."""
    waiting = list(sides)

    def accept(connection: Connection) -> Receiver:
        side = waiting.pop(0)
        side.connection = connection  # type: ignore[attr-defined]
        return side

    return (await network.listen(HOST, 0, accept)).port


@pytest.mark.parametrize("has_certificate", [False, True])
def test_principal_is_known_before_the_first_bytes(has_certificate: bool) -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        client = client_options(client_certificate() if has_certificate else None)
        network = tls_network(host, server_options(client_auth="requested"), client)
        side = Plan()
        port = await listen(network, side)
        connection = await network.dial(HOST, port, lambda _: Collector(), TIMEOUT_MS)
        connection.send([b"request"])
        await until(lambda: side.received == b"request")
        assert side.principal == ("CN=alice" if has_certificate else None)
        assert connection.peer_principal_name == "CN=localhost"
        assert (connection.version, connection.cipher_suite[:4]) == ("TLSv1.3", "TLS_")

    in_memory(body)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["silent", "half a message"])
def test_half_handshake_is_closed_after_the_limit(sent: bytes) -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        loop = asyncio.get_running_loop()
        side, peer = Plan(), RawPeer()
        port = await listen(tls_network(host, handshake_timeout_ms=3_000), side)
        await host.dial(HOST, port, peer.attach, TIMEOUT_MS)
        start = loop.time()
        if sent:
            peer.raw.send([sent])
        await until(lambda: bool(side.lost))
        assert side.lost == ["TLS handshake failed: it was not complete after 3000 ms"]
        assert 2.9 <= loop.time() - start <= 3.1
        await until(lambda: bool(peer.lost))
        assert not side.received

    in_memory(body)


def test_refused_connection_costs_no_handshake() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        side, peer = Plan(), RawPeer()
        network = tls_network(host)
        accepted: list[TlsConnection] = []

        def accept(connection: Connection) -> Receiver:
            accepted.append(tls(connection))
            accepted[0].refuse()
            return side

        port = (await network.listen(HOST, 0, accept)).port
        stream = TlsStream(source(client_options(), server_side=False).context, server_side=False, host=HOST)
        await host.dial(HOST, port, peer.attach, TIMEOUT_MS)
        peer.raw.send([stream.take_output()])
        await asyncio.sleep(0.5)
        assert (peer.received, side.lost) == (b"", [])
        accepted[0].close()
        await until(lambda: bool(peer.lost))
        assert peer.received == b""

    in_memory(body)


def test_limit_does_not_end_complete_connections() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host, handshake_timeout_ms=3_000)
        side = Plan()
        port = await listen(network, side)
        connection = await network.dial(HOST, port, lambda _: Collector(), TIMEOUT_MS)
        await asyncio.sleep(10)
        connection.send([b"late"])
        await until(lambda: side.received == b"late")

    in_memory(body)


def test_plain_client_is_closed_at_once_without_an_answer() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        side, peer = Plan(), RawPeer()
        port = await listen(tls_network(host), side)
        await host.dial(HOST, port, peer.attach, TIMEOUT_MS)
        peer.raw.send([b"\0\0\0\x10\0\x12\0\3" + bytes(12)])
        await until(lambda: bool(peer.lost))
        assert side.lost == [
            "TLS handshake failed: the peer does not use TLS: it may be configured for PLAINTEXT"
        ]
        assert not side.received
        assert not peer.received
        assert asyncio.get_running_loop().time() < 1

    in_memory(body)


def test_client_fails_fast_at_a_listener_without_tls() -> None:
    class Plain(Collector):
        connection: Connection | None = None

        def bytes_received(self, count: int) -> None:
            super().bytes_received(count)
            assert self.connection is not None
            self.connection.close()  # the size of the frame is 369 MB

    async def body(memory: MemoryNetwork, host: Network) -> None:
        port = await listen(host, Plain())
        with pytest.raises(
            TlsError, match="the peer closed the connection; its listener may not use TLS"
        ) as caught:
            await tls_network(host).dial(HOST, port, lambda _: Collector(), TIMEOUT_MS)
        assert not isinstance(caught.value, TlsHandshakeFailed)
        assert not memory.connections

    in_memory(body)


def test_dial_times_out_at_a_silent_listener() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        port = await listen(host, Collector())
        with pytest.raises(TimeoutError):
            await tls_network(host).dial(HOST, port, lambda _: Collector(), 2_000)
        await until(lambda: not memory.connections)
        assert asyncio.get_running_loop().time() < 2.5

    in_memory(body)


def test_dial_raises_why_a_certificate_is_refused() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        expired = make_server_certificate(authority(), HOSTS, EXPIRED)
        side = Plan()
        network = tls_network(host, server_options(expired))
        port = await listen(network, side)
        with pytest.raises(TlsHandshakeFailed, match=r"TLS handshake failed: .* certificate has expired"):
            await network.dial(HOST, port, lambda _: Collector(), TIMEOUT_MS)
        await until(lambda: bool(side.lost))
        assert side.lost == [
            "TLS handshake failed: the peer refused the connection: this side's certificate has expired"
        ]

    in_memory(body)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_missing_client_certificate_is_reported_to_both_sides(version: str) -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host, server_options(client_auth="required", protocols=(version,)))
        side, dialled_side = Plan(), Collector()
        port = await listen(network, side)
        try:
            connection = await network.dial(HOST, port, lambda _: dialled_side, TIMEOUT_MS)
        except TlsHandshakeFailed as error:
            assert version == "TLSv1.2"
            assert "or a certificate is missing" in str(error)  # noqa: PT017
        else:
            await until(lambda: bool(dialled_side.lost))
            assert "it requires a client certificate" in str(dialled_side.lost[0])
            assert isinstance(connection.failure, TlsHandshakeFailed)
        assert side.lost == ["TLS handshake failed: the client sent no certificate"]
        assert not side.received

    in_memory(body)


def test_pause_in_a_callback_keeps_the_rest() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host)
        pair = await ConnectionPair.connect(network)
        side = pair.accepted_side
        side._buffer = bytearray(4)
        keep = side.bytes_received

        def pause(count: int) -> None:
            keep(count)
            pair.accepted.pause()

        side.bytes_received = pause  # type: ignore[method-assign]
        pair.dialled.send([b"0123456789"])
        for expected in (b"0123", b"01234567", b"0123456789"):
            await until(lambda expected=expected: side.received == expected)  # type: ignore[misc]
            await asyncio.sleep(1)
            assert side.received == expected
            pair.accepted.resume()
            assert side.received == expected, "a receiver is not called back while it resumes"

    in_memory(body)


def test_end_behind_a_pause_is_reported_after_the_bytes() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(tls_network(host))
        pair.dialled.send([b"first"])
        await until(lambda: pair.accepted_side.received == b"first")
        pair.accepted.pause()
        pair.dialled.send([b" last"])
        pair.dialled.close(flush=True)
        await asyncio.sleep(1)
        assert not pair.accepted_side.lost
        pair.accepted.resume()
        await until(lambda: pair.accepted_side.lost == [None])
        assert pair.accepted_side.received == b"first last"

    in_memory(body)


def test_bytes_sent_before_the_handshake_follow_it() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host)
        dialled_side = Collector()
        accepted_side = Collector()
        queued: list[int] = []

        def accept(connection: Connection) -> Receiver:
            connection.send([b"early"])
            queued.append(connection.queued_bytes)
            return accepted_side

        socket = await network.listen(HOST, 0, accept)
        await network.dial(HOST, socket.port, lambda _: dialled_side, TIMEOUT_MS)
        await until(lambda: dialled_side.received == b"early")
        assert queued == [5]
        await until(lambda: accepted_side.drained == 1)

    in_memory(body)


def test_truncated_stream_is_no_orderly_end() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        side = Plan()
        port = await listen(tls_network(host), side)
        peer = RawPeer(
            TlsStream(source(client_options(), server_side=False).context, server_side=False, host=HOST)
        )
        await host.dial(HOST, port, peer.attach, TIMEOUT_MS)
        assert peer.stream is not None
        peer.send_output()
        await until(lambda: peer.stream is not None and peer.stream.is_complete)
        peer.stream.write(b"half a request")
        peer.send_output()
        peer.raw.close(flush=True)
        await until(lambda: bool(side.lost))
        assert side.received == b"half a request"
        assert side.lost == ["closed by the peer without a TLS close_notify"]

    in_memory(body)


def test_altered_record_ends_the_connection_with_an_alert() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        side = Plan()
        port = await listen(tls_network(host), side)
        peer = RawPeer(
            TlsStream(source(client_options(), server_side=False).context, server_side=False, host=HOST)
        )
        await host.dial(HOST, port, peer.attach, TIMEOUT_MS)
        assert peer.stream is not None
        peer.send_output()
        await until(lambda: peer.stream is not None and peer.stream.is_complete)
        peer.stream.write(b"request")
        output = bytearray(peer.stream.take_output())
        output[-1] ^= 1
        peer.raw.send([output])
        await until(lambda: bool(peer.lost))
        (reason,) = side.lost
        assert str(reason).startswith("TLS error: ")
        assert not side.received
        with pytest.raises(TlsError, match="the peer refused the connection: bad record mac"):
            peer.stream.read_into(memoryview(bytearray(10)))

    in_memory(body)


def test_ciphertext_in_memory_is_bounded() -> None:
    """A peer that does not read leaves the response where it was."""

    async def body(memory: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(tls_network(host))
        pair.dialled.send([b"x"])
        await until(lambda: bool(pair.accepted_side.received))
        pair.dialled.pause()
        pair.accepted.send([bytes(32 << 20)])
        await asyncio.sleep(1)
        raw_queued = max(connection.queued_bytes for connection in memory.connections)
        assert 0 < raw_queued <= QUEUED_BYTES_MAX + CHUNK_BYTES + 4096
        assert pair.accepted.queued_bytes > 30 << 20
        pair.dialled.resume()
        await until(lambda: len(pair.dialled_side.received) == 32 << 20)
        assert pair.accepted.queued_bytes == 0
        assert pair.accepted_side.drained == 1

    in_memory(body)


def test_uncached_ranges_are_read_by_threads() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        files = MemoryFileSystem()
        files.make_directories("/data")
        file = files.open("/data/log", create=True)
        content = bytes(range(251)) * 8000
        file.append(content)
        files.evict_from_cache("/data/log")
        pair = await ConnectionPair.connect(tls_network(host, offload_read=files.offload_read))
        pair.accepted.send([b"<", FileSlice(file, 1000, 1_500_000), b">"])
        pair.accepted.send([b"next"])
        expected = b"<" + content[1000:1_501_000] + b">next"
        await until(lambda: len(pair.dialled_side.received) == len(expected))
        assert pair.dialled_side.received == expected
        assert files.blocking_reads == 0

    in_memory(body)


def test_failed_read_by_a_thread_closes_the_connection() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        files = MemoryFileSystem()
        files.make_directories("/data")
        file = files.open("/data/log", create=True)
        file.append(bytes(200_000))
        files.evict_from_cache("/data/log")
        pair = await ConnectionPair.connect(tls_network(host, offload_read=files.offload_read))
        pair.dialled.send([FileSlice(file, 0, 300_000), b"tail"])
        await until(lambda: bool(pair.dialled_side.lost))
        assert pair.dialled_side.lost == ["/data/log is shorter than the range to send"]
        await until(lambda: bool(pair.accepted_side.lost))
        assert b"tail" not in pair.accepted_side.received

    in_memory(body)


def test_large_response_does_not_keep_others_waiting() -> None:
    """Encrypting is done in turns, even if the network takes everything."""

    async def body(memory: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(tls_network(host))
        pair.dialled.send([b"x"])
        await until(lambda: bool(pair.accepted_side.received))
        pair.accepted.send([bytes(8 << 20)])
        assert pair.accepted.queued_bytes >= 6 << 20
        await until(lambda: len(pair.dialled_side.received) == 8 << 20)

    in_memory(body, window_bytes=64 << 20)


def test_rejected_connections_leave_no_timer() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host, handshake_timeout_ms=3_000)
        accepted: list[Connection] = []
        socket = await network.listen(HOST, 0, lambda connection: accepted.append(connection))
        with pytest.raises(OSError, match="TLS handshake failed"):
            await network.dial(HOST, socket.port, lambda _: Collector(), TIMEOUT_MS)
        assert tls(accepted[0])._timeout_handle is None

    in_memory(body)


def test_cancelled_dial_closes_the_connection() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        port = await listen(host, Collector())
        task = asyncio.ensure_future(tls_network(host).dial(HOST, port, lambda _: Collector(), TIMEOUT_MS))
        await asyncio.sleep(1)
        assert len(memory.connections) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not memory.connections)

    in_memory(body)


def test_new_connections_use_the_new_context() -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        server = source(server_options(), server_side=True)
        network = TlsNetwork(host, server=server, client=source(client_options(), server_side=False))
        pair = await ConnectionPair.connect(network)
        server.replace(server_options(protocols=("TLSv1.2",)))
        second = await ConnectionPair.connect(network)
        assert tls(pair.dialled).version == "TLSv1.3"
        assert tls(second.dialled).version == "TLSv1.2"
        pair.dialled.send([b"still open"])
        await until(lambda: pair.accepted_side.received == b"still open")

    in_memory(body)


@pytest.mark.parametrize("side", ["server", "client"])
def test_side_without_a_context_is_an_error(side: str) -> None:
    async def body(memory: MemoryNetwork, host: Network) -> None:
        contexts: dict[str, Any] = {side: source(_options(side), server_side=side == "server")}
        network = TlsNetwork(host, **contexts)
        call: Awaitable[object] = network.listen(HOST, 0, lambda _: None)
        if side == "server":
            call.close()  # type: ignore[attr-defined]
            call = network.dial(HOST, 1, lambda _: Collector(), TIMEOUT_MS)
        with pytest.raises(ValueError, match="must have a context"):
            await call

    in_memory(body)


def _options(side: str) -> TlsOptions:
    return server_options() if side == "server" else client_options()


def test_connection_lost_before_it_is_attached_fails_the_dial() -> None:
    """The receiver of a dead connection would wait for ever."""

    async def body(memory: MemoryNetwork, host: Network) -> None:
        network = tls_network(host)
        port = await listen(network, Plan())
        attached: list[Connection] = []

        def attach(connection: Connection) -> Receiver:
            attached.append(connection)
            return Collector()

        def reset() -> None:
            for connection in list(memory.connections):
                connection.reset()

        loop = asyncio.get_running_loop()
        original = TlsConnection._on_handshake_complete

        def complete(connection: TlsConnection) -> None:
            original(connection)
            loop.call_soon(reset)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TlsConnection, "_on_handshake_complete", complete)
            patch.setattr(TlsConnection, "handshake", _handshake_and_wait)
            with pytest.raises(OSError, match="was closed"):
                await network.dial(HOST, port, attach, TIMEOUT_MS)
        assert not attached

    in_memory(body)


_HANDSHAKE = TlsConnection.handshake


async def _handshake_and_wait(connection: TlsConnection) -> None:
    await _HANDSHAKE(connection)
    await asyncio.sleep(1)
