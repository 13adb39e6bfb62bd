"""Latency of an honest client beside clients that flood listeners with TLS and SASL; cost of connections.

Run as ``python -m bench.secured_neighbours [flood|idle|handshakes] [NAME…]`` from the root of the repository;
``PROGRAM`` names the ``odradek`` command of another installation. The honest client is a separate process: it
authenticates over TLS once, then produces a record, waits for the response and sleeps for a few milliseconds.
Each attack gets a fresh broker and runs in a process of its own, after some quiet seconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.loads.broker.frames import batch, framed, metadata, produce
from bench.meter import usage
from bench.paths import free_port

PERIOD_S: Final = 0.005
QUIET_S: Final = 10.0
ATTACK_S: Final = 10.0
READY_S_MAX: Final = 60.0
CONNECT_S_MAX: Final = 30.0
IDLE_CONNECTIONS: Final = 5000
HANDSHAKES: Final = 2000
RATE: Final = 500
PASSWORD: Final = "secret-of-the-bench"
TOPIC: Final = "neighbour"
KIB: Final = 1024
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Secured(NamedTuple):
    """A running broker with a listener per protocol."""

    process_id: int
    ports: dict[str, int]
    authority: str


def _program() -> str:
    return os.environ.get("PROGRAM", str(Path(sys.executable).parent / "odradek"))


@contextlib.contextmanager
def running(settings: tuple[str, ...] = ()) -> Iterator[Secured]:
    """Run a broker with certificates and one user."""
    program = _program()
    with tempfile.TemporaryDirectory(prefix="odradek-secured-") as directory:
        subprocess.run([program, "tls", "make", "--dir", f"{directory}/tls"], check=True, capture_output=True)
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        ports = {name: free_port() for name in names}
        login = f'{MODULE} required user_honest="{PASSWORD}" user_greedy="{PASSWORD}";'
        (properties,) = Path(directory, "tls").glob("server.properties")
        pairs = [
            *(line for line in properties.read_text().splitlines() if line.startswith("ssl.")),
            "listeners=" + ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            f"log.dirs={directory}/data",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={login}",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={login}",
            "num.partitions=1",
            *settings,
        ]
        arguments = [part for pair in pairs for part in ("--set", pair)]
        with open(Path(directory, "out"), "wb") as out:
            process = subprocess.Popen([program, "serve", *arguments], stdout=out, stderr=out)
        try:
            broker = Secured(process.pid, ports, f"{directory}/tls/ca.pem")
            _await_ready(broker)
            yield broker
        finally:
            process.kill()
            process.wait()


def _await_ready(broker: Secured) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while True:
        try:
            with connect(broker, "SASL_SSL") as connection:
                authenticate(connection, "honest")
                for _ in range(3):
                    connection.sendall(metadata(TOPIC))
                    receive(connection)
                    time.sleep(0.5)
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


# Connections.


def tls_context(broker: Secured) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=broker.authority)


def connect(broker: Secured, listener: str, context: ssl.SSLContext | None = None) -> socket.socket:
    """Connect; over TLS if the listener asks for it."""
    connection = socket.create_connection(("127.0.0.1", broker.ports[listener]), timeout=CONNECT_S_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if listener.endswith("SSL"):
        return (context or tls_context(broker)).wrap_socket(connection, server_hostname="localhost")
    return connection


def authenticate(connection: socket.socket, user: str, password: str = PASSWORD) -> None:
    """Authenticate by PLAIN; raises ConnectionError if the broker refuses."""
    connection.sendall(framed(SASL_HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN"))
    receive(connection)
    token = f"\0{user}\0{password}".encode()
    connection.sendall(framed(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token))
    if receive(connection)[4:6] != b"\0\0":
        raise ConnectionError("refused")


def receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)


# The honest client.


def run_honest(broker: Secured, stop: Any, results: Any) -> None:
    """Produce until told to stop; send times and latencies."""
    frame = produce(TOPIC, {0: batch([bytes(100)])}).frame
    connection = connect(broker, "SASL_SSL")
    authenticate(connection, "honest")
    waits: list[tuple[float, float]] = []
    while not stop.is_set():
        began = time.monotonic()
        connection.sendall(frame)
        receive(connection)
        waits.append((began, time.monotonic() - began))
        time.sleep(PERIOD_S)
    results.send(waits)


# Attacks: each runs until the deadline, and returns how often it did its deed.


def no_attack(broker: Secured, deadline: float) -> int:
    time.sleep(deadline - time.monotonic())
    return 0


def _repeat(deadline: float, deed: Callable[[], object]) -> int:
    count = 0
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            deed()
            count += 1
    return count


def connects(broker: Secured, deadline: float) -> int:
    """Connect and reset: an orderly close would use up the ports of this machine."""
    reset = struct.pack("ii", 1, 0)

    def deed() -> None:
        with connect(broker, "SASL_PLAINTEXT") as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    return _repeat(deadline, deed)


def handshakes(broker: Secured, deadline: float) -> int:
    context = tls_context(broker)
    return _repeat(deadline, lambda: connect(broker, "SASL_SSL", context).close())


def abandoned_handshakes(broker: Secured, deadline: float) -> int:
    """Send the first message, whose answer costs the broker a signature, and go away."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls_context(broker).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()

    def abandon() -> None:
        with socket.create_connection(
            ("127.0.0.1", broker.ports["SSL"]), timeout=CONNECT_S_MAX
        ) as connection:
            connection.sendall(hello)
            connection.recv(1)

    return _repeat(deadline, abandon)


def wrong_passwords(broker: Secured, deadline: float) -> int:
    def guess() -> None:
        with connect(broker, "SASL_PLAINTEXT") as connection, contextlib.suppress(ConnectionError):
            authenticate(connection, "honest", "wrong")

    return _repeat(deadline, guess)


def slow_bytes(broker: Secured, deadline: float) -> int:
    """Thousand connections that send a byte a second each."""
    raise_file_limit()
    connections = [connect(broker, "SASL_PLAINTEXT") for _ in range(1000)]
    frame = struct.pack(">i", 1000) + bytes(1000)
    for position in range(1000):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(frame[position : position + 1])
        if time.monotonic() + 1 > deadline:
            break
        time.sleep(1)
    return len(connections)


def unfinished_frames(broker: Secured, deadline: float) -> int:
    """Hold frames of the largest size before authentication, without their last byte."""
    raise_file_limit()
    data = struct.pack(">i", 512 * KIB) + bytes(512 * KIB - 1)
    connections = [connect(broker, "SASL_PLAINTEXT") for _ in range(400)]
    for connection in connections:
        connection.sendall(data)
    time.sleep(max(deadline - time.monotonic(), 0))
    return len(connections)


def greedy(broker: Secured, deadline: float) -> int:
    """An authenticated client that pipelines produce requests without a pause."""
    frame = produce(TOPIC, {0: batch([bytes(1000)] * 50)}).frame
    connection = connect(broker, "SASL_SSL")
    authenticate(connection, "greedy")

    def deed() -> None:
        connection.sendall(frame * 20)
        for _ in range(20):
            receive(connection)

    return 20 * _repeat(deadline, deed)


def limit_greedy(broker: Secured) -> None:
    """Set a quota."""
    bootstrap = f"127.0.0.1:{broker.ports['PLAINTEXT']}"
    arguments = ["quotas", "set", "--user", "greedy", "producer_byte_rate=1000000", "-b", bootstrap]
    subprocess.run([_program(), *arguments], check=True, capture_output=True)


Attack = Callable[[Secured, float], int]
IP_RATE: Final = ("max.connection.creation.rate=50",)

ATTACKS: Final[dict[str, tuple[Attack, tuple[str, ...], str]]] = {
    "quiet": (no_attack, (), "no attack"),
    "connects": (connects, (), "connect and reset"),
    "handshakes": (handshakes, (), "complete TLS handshakes"),
    "handshakes-limited": (handshakes, IP_RATE, "the same, max.connection.creation.rate=50"),
    "abandoned": (abandoned_handshakes, (), "first half of TLS handshakes"),
    "abandoned-limited": (abandoned_handshakes, IP_RATE, "the same, max.connection.creation.rate=50"),
    "passwords": (wrong_passwords, (), "wrong passwords"),
    "slow": (slow_bytes, (), "1,000 connections, a byte a second each"),
    "unfinished": (unfinished_frames, (), "400 frames of 512 KiB, but for a byte"),
    "greedy": (greedy, (), "authenticated, produces 50 KB requests without a pause"),
    "greedy-limited": (greedy, (), "the same, producer_byte_rate=1000000"),
}


def _run_attack(attack: Attack, broker: Secured, results: Any) -> None:
    results.send(attack(broker, time.monotonic() + ATTACK_S))


def flood(name: str) -> str:
    """Run an attack; return a row with latencies before and during it."""
    attack, settings, description = ATTACKS[name]
    context = multiprocessing.get_context("spawn")
    with running(settings) as broker:
        if name.startswith("greedy-"):
            limit_greedy(broker)
        stop, (ours, theirs) = context.Event(), context.Pipe()
        client = context.Process(target=run_honest, args=(broker, stop, theirs))
        client.start()
        time.sleep(QUIET_S)
        count_ours, count_theirs = context.Pipe()
        attacker = context.Process(target=_run_attack, args=(attack, broker, count_theirs))
        began, before = time.monotonic(), usage(broker.process_id)
        attacker.start()
        count = count_ours.recv()
        ended, after = time.monotonic(), usage(broker.process_id)
        attacker.join()
        stop.set()
        waits = ours.recv()
        client.join()
    quiet = sorted(wait for at, wait in waits if began - QUIET_S + 2 < at < began)
    loud = sorted(wait for at, wait in waits if began + 1 < at < ended)
    cpu = (after.cpu_seconds - before.cpu_seconds) / (ended - began)
    medians = [waits[len(waits) // 2] * 1000 for waits in (quiet, loud)]
    p99s = [waits[int(len(waits) * 0.99)] * 1000 for waits in (quiet, loud)]
    return (
        f"| {description} | {count / ATTACK_S:.0f} | {medians[0]:.1f} | {medians[1]:.1f} | {p99s[0]:.1f} "
        f"| {p99s[1]:.1f} | {p99s[1] / p99s[0]:.1f} | {loud[-1] * 1000:.0f} | {100 * cpu:.0f} % "
        f"| {after.rss_peak_bytes / KIB / KIB:.0f} |"
    )


# Cost of connections.


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def idle(listener: str) -> str:
    """Open idle connections; return a row with the memory of each."""
    raise_file_limit()
    with running() as broker:
        context = tls_context(broker)
        before = usage(broker.process_id)
        connections = []
        for _ in range(IDLE_CONNECTIONS):
            connection = connect(broker, listener, context)
            if listener.startswith("SASL"):
                authenticate(connection, "honest")
            connections.append(connection)
        time.sleep(1)
        after = usage(broker.process_id)
        began = usage(broker.process_id).cpu_seconds
        time.sleep(5)
        cpu = (usage(broker.process_id).cpu_seconds - began) / 5
        for connection in connections:
            connection.close()
    memory = (after.rss_bytes - before.rss_bytes) / len(connections) / KIB
    cpu_ms = 1000 * (after.cpu_seconds - before.cpu_seconds) / len(connections)
    return f"| {listener} | {len(connections)} | {memory:.1f} | {cpu_ms:.2f} | {100 * cpu:.1f} % |"


def paced_handshakes() -> str:
    """Make TLS handshakes at a rate; return a row with the CPU time of each."""
    with running() as broker:
        context = tls_context(broker)
        before, began = usage(broker.process_id), time.monotonic()
        for number in range(HANDSHAKES):
            wait = began + number / RATE - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            connect(broker, "SSL", context).close()
        seconds = time.monotonic() - began
        cpu = usage(broker.process_id).cpu_seconds - before.cpu_seconds
    return f"| {HANDSHAKES / seconds:.0f} | {1000 * cpu / HANDSHAKES:.2f} | {100 * cpu / seconds:.0f} % |"


def main(kind: str, names: list[str]) -> None:
    if kind == "flood":
        print(
            "| attack | a second | p50 ms before | during | p99 before | during | ratio | max | CPU | RSS |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name in names or ATTACKS:
            print(flood(name), flush=True)
    elif kind == "idle":
        print("| listener | connections | KiB each | CPU ms to open each | CPU while idle |")
        print("|---|--:|--:|--:|--:|")
        for name in names or ("PLAINTEXT", "SSL", "SASL_SSL"):
            print(idle(name), flush=True)
    else:
        print("| TLS handshakes a second | CPU ms each | broker CPU |")
        print("|--:|--:|--:|")
        print(paced_handshakes())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "flood", sys.argv[2:])
