"""TLS on real sockets: against OpenSSL's own client, with certificates in files, and seen from the wire."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import ssl
import subprocess
import time
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.tls import (
    EXPIRED,
    HOSTS,
    VALIDITY,
    authority,
    client_certificate,
    client_options,
    foreign_authority,
    server_certificate,
    server_options,
    source,
)

from odradek.net.tls.tls_network import TlsNetwork
from odradek.ports.files import FileSlice
from odradek.ports.network import Connection, ListeningSocket, Receiver
from odradek.security.tls.certificates import (
    IssuedCertificate,
    make_client_certificate,
    make_server_certificate,
)
from odradek.security.tls.context_source import ChangeRules, TlsContextSource
from odradek.security.tls.tls_error import TlsError, TlsHandshakeFailed
from odradek.security.tls.tls_options import PEM, KeyStoreOptions, TlsOptions, TrustStoreOptions
from odradek.system.files import RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.transports import TransportNetwork
from odradek.testing.contracts.network_contract import HOST, Collector, until

TIMEOUT_MS = 5_000
MARKER = b"plaintext-marker-0123456789"
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl here")


class Echo(Collector):
    """A receiver that sends back what it gets."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def bytes_received(self, count: int) -> None:
        super().bytes_received(count)
        self.connection.send([bytes(self._buffer[:count])])


class EchoServer:
    """A TLS listener on a real socket."""

    def __init__(self, contexts: TlsContextSource, **options: Any) -> None:
        self.contexts = contexts
        self.sessions: list[Echo] = []
        self._options = options
        self._socket: ListeningSocket | None = None

    async def start(self) -> int:
        network = TlsNetwork(SocketNetwork(), server=self.contexts, **self._options)
        self._socket = await network.listen(HOST, 0, self._accept)
        return self._socket.port

    def _accept(self, connection: Connection) -> Receiver:
        self.sessions.append(Echo(connection))
        return self.sessions[-1]

    def close(self) -> None:
        assert self._socket is not None
        self._socket.close()
        for session in self.sessions:
            session.connection.close()


def on_loop(body: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await body()

    uvloop.run(run())


def client_network(options: TlsOptions | None = None) -> TlsNetwork:
    return TlsNetwork(TransportNetwork(), client=source(options or client_options(), server_side=False))


def echo_server(options: TlsOptions | None = None, **how: Any) -> EchoServer:
    return EchoServer(source(options or server_options(), server_side=True), **how)


@pytest.fixture(scope="module")
def pem_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    (directory / "ca.pem").write_text(authority().certificate_pem)
    (directory / "foreign.pem").write_text(foreign_authority().certificate_pem)
    (directory / "alice.pem").write_text(client_certificate().key_store_pem())
    expired = make_client_certificate(authority(), "late", EXPIRED)
    (directory / "expired.pem").write_text(expired.key_store_pem())
    stranger = make_client_certificate(foreign_authority(), "stranger", VALIDITY)
    (directory / "stranger.pem").write_text(stranger.key_store_pem())
    return directory


class SClient:
    """OpenSSL's client."""

    def __init__(self, port: int, *arguments: str) -> None:
        assert OPENSSL is not None
        self._command = [OPENSSL, "s_client", "-connect", f"{HOST}:{port}", *arguments]
        self.process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> SClient:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def write(self, data: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def read_until(self, text: bytes) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            return await self.process.stdout.readuntil(text)

    async def output(self) -> bytes:
        assert self.process is not None
        async with asyncio.timeout(20):
            out, err = await self.process.communicate()
        return out + err


@needs_openssl
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_client(pem_files: Path, version: str) -> None:
    async def body() -> None:
        server = echo_server(server_options(client_auth="requested"))
        port = await server.start()
        verify = ("-CAfile", str(pem_files / "ca.pem"), "-verify_return_error", "-verify_ip", HOST)
        async with SClient(port, version, *verify, "-quiet", "-cert", str(pem_files / "alice.pem")) as client:
            client.write(MARKER + b"\n")
            await client.read_until(MARKER + b"\n")
        await until(lambda: bool(server.sessions[0].lost))
        connection: Any = server.sessions[0].connection
        assert connection.peer_principal_name == "CN=alice"
        assert connection.version == {"-tls1_2": "TLSv1.2", "-tls1_3": "TLSv1.3"}[version]
        server.close()

    on_loop(body)


@needs_openssl
@pytest.mark.parametrize(
    ("client_auth", "certificate", "reason"),
    [
        ("none", None, None),
        ("none", "stranger.pem", None),
        ("requested", None, None),
        ("requested", "alice.pem", None),
        ("requested", "stranger.pem", "unable to get local issuer certificate"),
        ("requested", "expired.pem", "certificate has expired"),
        ("required", None, "the client sent no certificate"),
        ("required", "alice.pem", None),
        ("required", "stranger.pem", "unable to get local issuer certificate"),
        ("required", "expired.pem", "certificate has expired"),
    ],
)
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_client_authentication_of_openssl_clients(
    pem_files: Path, version: str, client_auth: str, certificate: str | None, reason: str | None
) -> None:
    async def body() -> None:
        server = echo_server(server_options(client_auth=client_auth))
        port = await server.start()
        own = () if certificate is None else ("-cert", str(pem_files / certificate))
        async with SClient(port, version, "-quiet", *own) as client:
            client.write(MARKER + b"\n")
            if reason is None:
                await client.read_until(MARKER + b"\n")
            else:
                output = await client.output()
                assert MARKER not in output
                assert b"alert" in output
        await until(lambda: bool(server.sessions[0].lost))
        (lost,) = server.sessions[0].lost
        assert (reason is None) == (lost is None or "close_notify" in lost), lost
        assert reason is None or reason in str(lost)
        assert bool(server.sessions[0].received) == (reason is None)
        server.close()

    on_loop(body)


@needs_openssl
@pytest.mark.parametrize("arguments", [("-tls1_1",), ("-tls1_2", "-cipher", "NULL-SHA256:@SECLEVEL=0")])
def test_old_versions_and_weak_suites_are_refused(arguments: tuple[str, ...]) -> None:
    async def body() -> None:
        server = echo_server()
        port = await server.start()
        async with SClient(port, *arguments) as client:
            client.write(MARKER)
            await client.output()
            assert client.process is not None
            assert client.process.returncode
        assert not any(session.received for session in server.sessions)
        server.close()

    on_loop(body)


@needs_openssl
def test_renegotiation_is_refused() -> None:
    async def body() -> None:
        server = echo_server()
        port = await server.start()
        async with SClient(port, "-tls1_2") as client:
            await client.read_until(b"---\nSSL handshake has read")
            client.write(b"R\n")
            output = await client.output()
        assert b"no renegotiation" in output
        assert not server.sessions[0].received
        await until(lambda: bool(server.sessions[0].lost))
        server.close()

    on_loop(body)


@needs_openssl
def test_key_updates_are_answered() -> None:
    async def body() -> None:
        server = echo_server()
        port = await server.start()
        async with SClient(port, "-tls1_3") as client:
            await client.read_until(b"---\nSSL handshake has read")
            for _ in range(3):
                client.write(b"K\n")
                await asyncio.sleep(0.1)
                client.write(MARKER + b"\n")
                await client.read_until(MARKER + b"\n")
        server.close()

    on_loop(body)


class Wire:
    """A proxy that keeps what passes, as somebody on the network sees it."""

    def __init__(self, port: int) -> None:
        self.seen = bytearray()
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._forward, HOST, 0)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection(HOST, self._port)
        await asyncio.gather(self._copy(reader, onward[1]), self._copy(onward[0], writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.seen += data
            writer.write(data)
            await writer.drain()
        writer.close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_no_plaintext_is_on_the_wire(tmp_path: Path, version: str) -> None:
    """Neither of small parts, nor of ranges of files, nor of the names of a client."""
    path = tmp_path / "log"
    path.write_bytes(MARKER * 50_000)

    async def body() -> None:
        files = RealFileSystem(threads_max=1)
        options = server_options(client_auth="required", protocols=(version,))
        server = echo_server(options, offload_read=files.offload_read)
        wire = Wire(await server.start())
        proxy = await wire.start()
        side = Collector()
        port = proxy.sockets[0].getsockname()[1]
        network = client_network(client_options(client_certificate()))
        connection = await network.dial(HOST, port, lambda _: side, TIMEOUT_MS)
        connection.send([MARKER])
        await until(lambda: side.received == MARKER)
        size = path.stat().st_size
        server.sessions[0].connection.send([b"<", FileSlice(files.open(str(path)), 0, size), b">"])
        await until(lambda: len(side.received) == len(MARKER) + size + 2)
        assert side.received.endswith(MARKER + b">")
        assert MARKER[:12] not in wire.seen
        assert len(wire.seen) > size
        assert (b"alice" in wire.seen) == (version == "TLSv1.2")  # certificates are encrypted since 1.3
        connection.close()
        server.close()
        proxy.close()
        files.close()

    on_loop(body)


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (make_server_certificate(authority(), HOSTS, EXPIRED), "certificate has expired"),
        (make_server_certificate(foreign_authority(), HOSTS, VALIDITY), "unable to get local issuer"),
        (make_server_certificate(authority(), ["example.org"], VALIDITY), "IP address mismatch"),
    ],
)
def test_unacceptable_server_certificates_are_refused(certificate: IssuedCertificate, reason: str) -> None:
    async def body() -> None:
        server = echo_server(server_options(certificate))
        port = await server.start()
        with pytest.raises(TlsHandshakeFailed, match=reason):
            await client_network().dial(HOST, port, lambda _: Collector(), TIMEOUT_MS)
        await until(lambda: bool(server.sessions[0].lost))
        assert "the peer refused the connection" in str(server.sessions[0].lost[0])
        server.close()

    on_loop(body)


def test_certificates_are_reloaded_from_changed_files(tmp_path: Path) -> None:
    key, trust = tmp_path / "server.pem", tmp_path / "ca.pem"
    key.write_text(server_certificate().key_store_pem())
    trust.write_text(authority().certificate_pem)
    options = TlsOptions(KeyStoreOptions(PEM, str(key)), TrustStoreOptions(PEM, str(trust)))
    files = RealFileSystem(threads_max=1)
    contexts = TlsContextSource(options, files.read_whole, server_side=True, rules=ChangeRules())

    def serial(port: int) -> int:
        from cryptography.x509 import load_pem_x509_certificate

        pem = ssl.get_server_certificate((HOST, port))
        return load_pem_x509_certificate(pem.encode()).serial_number

    async def body() -> None:
        server = EchoServer(contexts)
        port = await server.start()
        before = await asyncio.to_thread(serial, port)
        side = Collector()
        connection = await client_network().dial(HOST, port, lambda _: side, TIMEOUT_MS)
        renewed = make_server_certificate(authority(), HOSTS, VALIDITY)
        key.write_text(renewed.key_store_pem())
        assert contexts.reload().is_replaced
        after = await asyncio.to_thread(serial, port)
        assert (before, after) == (
            server_certificate().certificate.serial_number,
            renewed.certificate.serial_number,
        )
        connection.send([b"open connections stay"])
        await until(lambda: side.received == b"open connections stay")
        key.write_text("damaged")
        assert "exactly one private key" in contexts.reload().problems[0]
        assert await asyncio.to_thread(serial, port) == after
        connection.close()
        server.close()

    on_loop(body)
    files.close()


def test_plain_client_and_tls_listener_fail_fast() -> None:
    async def body() -> None:
        server = echo_server()
        port = await server.start()
        side = Collector()
        start = time.monotonic()
        connection = await TransportNetwork().dial(HOST, port, lambda _: side, TIMEOUT_MS)
        connection.send([b"\0\0\0\x10\0\x12\0\3" + bytes(12)])
        await until(lambda: bool(side.lost))
        assert not side.received
        assert server.sessions[0].lost == [
            "TLS handshake failed: the peer does not use TLS: it may be configured for PLAINTEXT"
        ]
        assert time.monotonic() - start < 2
        server.close()

    on_loop(body)


def test_tls_client_and_plain_listener_fail_fast(bootstrap: str) -> None:
    """The broker takes the first bytes for the size of a request."""
    host, _, port = bootstrap.rpartition(":")

    async def body() -> None:
        start = time.monotonic()
        with pytest.raises(TlsError, match="its listener may not use TLS"):
            await client_network().dial(host, int(port), lambda _: Collector(), TIMEOUT_MS)
        assert time.monotonic() - start < 2

    on_loop(body)


def test_half_handshakes_are_closed() -> None:
    async def body() -> None:
        server = echo_server(handshake_timeout_ms=300)
        port = await server.start()
        sides = [Collector() for _ in range(20)]
        for side in sides:
            connection = await TransportNetwork().dial(HOST, port, partial(_attach, side), TIMEOUT_MS)
            connection.send([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
        await until(lambda: all(side.lost for side in sides))
        assert {reason for session in server.sessions for reason in session.lost} == {
            "TLS handshake failed: it was not complete after 300 ms"
        }
        server.close()

    on_loop(body)


def test_failed_connections_are_freed_at_once() -> None:
    """Not by the garbage collector, which would let thousands of failed handshakes pile up."""

    async def body() -> None:
        server = echo_server()
        port = await server.start()
        side = Collector()
        connection = await TransportNetwork().dial(HOST, port, lambda _: side, TIMEOUT_MS)
        connection.send([b"\x16\x03\x01\x00\x04rubb"])
        await until(lambda: bool(side.lost))
        session: Any = server.sessions.pop()
        assert isinstance(session.connection.failure, TlsHandshakeFailed)
        stream_object = weakref.ref(session.connection._stream._object)
        gc.disable()
        try:
            del session
            await asyncio.sleep(0)
            assert stream_object() is None
        finally:
            gc.enable()
        server.close()

    on_loop(body)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_rate_of_handshakes(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the rate, both sides in one thread; connections that stay open are counted, not judged."""
    count = 300

    async def body() -> None:
        server = echo_server(server_options(protocols=(version,)))
        port = await server.start()
        network = client_network()
        start = time.process_time()
        connections = [
            await network.dial(HOST, port, lambda _: Collector(), TIMEOUT_MS) for _ in range(count)
        ]
        used = time.process_time() - start
        await until(lambda: len(server.sessions) == count)
        with capsys.disabled():
            print(f"\n{version}: {count / used:.0f} handshakes a second of CPU time, both sides")
        for connection in connections:
            connection.close()
        server.close()

    on_loop(body)


def _attach(side: Collector, connection: Connection) -> Receiver:
    del connection
    return side


JAVA = shutil.which("keytool")


@pytest.fixture
def keytool_stores(tmp_path: Path) -> tuple[Path, Path]:
    """A key store of Java's own tool, as PKCS12 and as JKS."""
    stores = (tmp_path / "server.p12", tmp_path / "server.jks")
    for store, kind in zip(stores, ("PKCS12", "JKS"), strict=True):
        subprocess.run(
            [
                *(str(JAVA), "-genkeypair", "-alias", "server", "-keyalg", "EC", "-dname", "CN=localhost"),
                *("-ext", "SAN=ip:127.0.0.1", "-keystore", str(store), "-storetype", kind),
                *("-storepass", "changeit", "-keypass", "changeit"),
            ],
            check=True,
            capture_output=True,
            env={**os.environ, "JAVA_TOOL_OPTIONS": ""},
        )
    return stores


@pytest.mark.skipif(JAVA is None, reason="there is no keytool here")
def test_key_stores_of_keytool(keytool_stores: tuple[Path, Path]) -> None:
    from odradek.model.errors import ConfigError
    from odradek.model.secret import Secret
    from odradek.security.tls.context_source import handshake_problem
    from odradek.security.tls.tls_context import create_context

    pkcs12, jks = keytool_stores
    password = Secret("changeit")
    options = TlsOptions(
        KeyStoreOptions("JKS", str(pkcs12), password), TrustStoreOptions("JKS", str(pkcs12), password)
    )
    server = create_context(options, lambda path: Path(path).read_bytes(), server_side=True)
    client = create_context(
        options._replace(endpoint_identification=""), lambda path: Path(path).read_bytes(), server_side=False
    )
    assert handshake_problem(server, client) is None
    with pytest.raises(ConfigError, match=r"is a JKS file, which is not supported\. Convert it: keytool"):
        create_context(
            TlsOptions(KeyStoreOptions("JKS", str(jks), password)),
            lambda path: Path(path).read_bytes(),
            server_side=True,
        )
