"""Latency of a well-behaved client next to hostile ones, and the broker's peak memory.

Run as ``python -m bench.noisy_neighbours [ATTACK…]`` from the root of the repository; ``PROGRAM`` names the
``odradek`` command of another installation, so that two can be compared. Each attack gets a fresh broker. The
well-behaved client is a separate process that produces a record, waits for the response and sleeps for a few
milliseconds. The attack begins after a quiet second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
from crc32c import crc32c

from bench.loads.broker.frames import batch, framed, metadata, produce
from bench.meter import usage
from bench.paths import free_port

MIB = 1 << 20
PERIOD_SECONDS = 0.005
QUIET_SECONDS = 1.0
AFTER_SECONDS = 2.0
ATTACK_SECONDS_MAX = 30.0
READY_SECONDS_MAX = 60.0
TOPIC = "neighbour"
PARTITION_BYTES_MIN = 20

Attack = Callable[[int], None]


def _program() -> str:
    return os.environ.get("PROGRAM", str(Path(sys.executable).parent / "odradek"))


@contextlib.contextmanager
def _broker(partitions: int) -> Iterator[tuple[int, int]]:
    """Run a broker with a wide topic and the client's; yield port and process id."""
    with tempfile.TemporaryDirectory(prefix="odradek-neighbours-") as directory:
        port = free_port()
        pairs = [
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"log.dirs={directory}",
            f"num.partitions={partitions}",
        ]
        arguments = [part for pair in pairs for part in ("--set", pair)]
        with open(Path(directory) / "out", "wb") as out:
            process = subprocess.Popen([_program(), "serve", *arguments], stdout=out, stderr=out)
        try:
            _await_port(port)
            _create(port, "wide", partitions)
            _create(port, TOPIC, partitions)
            yield port, process.pid
        finally:
            process.kill()
            process.wait()


def _await_port(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), _connect(port):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no broker on port {port}")


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=ATTACK_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _create(port: int, topic: str, partitions: int) -> None:
    """Request metadata of a topic, which creates it, until all partitions have leaders."""
    with _connect(port) as connection:
        response = b""
        while len(response) < partitions * PARTITION_BYTES_MIN:
            time.sleep(0.5)
            connection.sendall(metadata(topic))
            response = _receive(connection)


def _receive(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", _exactly(connection, 4))[0]
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)


# The well-behaved client.


def _run_client(port: int, stop: Any, waits: Any) -> None:
    """Produce a record, wait for the response, sleep; report the latency of each."""
    frame = _produce_frame(batch([bytes(100)]))
    connection, seen = _connect(port), []
    while not stop.is_set():
        began = time.monotonic()
        with contextlib.suppress(OSError):
            connection.sendall(frame)
            _receive(connection)
        seen.append(time.monotonic() - began)
        time.sleep(PERIOD_SECONDS)
    waits.send(seen)


def _produce_frame(records: bytes) -> bytes:
    return produce(TOPIC, {0: records}).frame


# Attacks.

ALL_TOPICS = framed(3, 4, struct.pack(">ib", -1, 0))


def _read_all(connection: socket.socket, responses: int) -> None:
    with contextlib.suppress(OSError):
        for _ in range(responses):
            _receive(connection)


def pipelined_metadata(port: int, requests: int = 1000) -> None:
    with _connect(port) as connection:
        connection.sendall(ALL_TOPICS * requests)
        _read_all(connection, requests)


def pipelined_metadata_wide(port: int) -> None:
    pipelined_metadata(port, 500)


def never_reading(port: int) -> None:
    connections = [_connect(port) for _ in range(40)]
    for connection in connections:
        connection.sendall(ALL_TOPICS * 1000)
    time.sleep(10)
    for connection in connections:
        connection.close()


def unfinished_frames(port: int) -> None:
    piece = bytes(MIB)
    for _ in range(40):
        with contextlib.suppress(OSError), _connect(port) as connection:
            connection.sendall(struct.pack(">i", 100 * MIB))
            for _ in range(90):
                connection.sendall(piece)
    time.sleep(2)


def announced_frames(port: int) -> None:
    connections = [_connect(port) for _ in range(500)]
    for connection in connections:
        connection.sendall(struct.pack(">ih", 100 * MIB, 0))
    time.sleep(3)
    for connection in connections:
        connection.close()


def unfinished_and_kept(port: int) -> None:
    """Forty requests with 90 of 100 MB sent, never completed and kept open."""
    connections, piece = [_connect(port) for _ in range(40)], bytes(MIB)
    for connection in connections:
        connection.setblocking(False)
        connection.send(struct.pack(">i", 100 * MIB))
    deadline = time.monotonic() + 20
    left = dict.fromkeys(connections, 90 * MIB)
    while time.monotonic() < deadline and any(left.values()):
        sent = 0
        for connection in connections:
            with contextlib.suppress(OSError):
                count = connection.send(piece[: min(left[connection], MIB)]) if left[connection] else 0
                left[connection] -= count
                sent += count
        if not sent:
            time.sleep(0.01)
    for connection in connections:
        connection.close()


def _bomb(codec: int, size: int = 240 * MIB) -> bytes:
    """A batch with one record of zeros, compressed."""
    value = bytes(size)
    plain = batch([value])
    records = plain[61:]
    packed = bytes(cramjam.zstd.compress(records)) if codec == 4 else _gzip(records)
    head = bytearray(plain[:61])
    struct.pack_into(">i", head, 8, 49 + len(packed))
    struct.pack_into(">h", head, 21, codec)
    struct.pack_into(">I", head, 17, crc32c(packed, crc32c(bytes(head[21:]))))
    return bytes(head) + packed


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return packer.compress(data) + packer.flush()


def _bombs(port: int, codec: int, count: int) -> None:
    frame = _produce_frame(_bomb(codec))
    connections = [_connect(port) for _ in range(count)]
    for connection in connections:
        connection.sendall(frame)
    for connection in connections:
        _read_all(connection, 1)
        connection.close()


def one_bomb(port: int) -> None:
    _bombs(port, 4, 1)


def zstd_bombs(port: int) -> None:
    _bombs(port, 4, 20)


def gzip_bombs(port: int) -> None:
    _bombs(port, 1, 20)


def connects(port: int) -> None:
    """Six hundred connections back to back; their latency is what matters."""
    slow, connections = 0.0, []
    for _ in range(600):
        began = time.monotonic()
        connections.append(_connect(port))
        slow = max(slow, time.monotonic() - began)
    print(f"    longest connect: {slow * 1000:.1f} ms", file=sys.stderr)
    for connection in connections:
        connection.close()


def no_attack(port: int) -> None:
    time.sleep(3)


ATTACKS: dict[str, tuple[Attack, int, str]] = {
    "quiet": (no_attack, 1000, "no attack"),
    "metadata": (pipelined_metadata, 1000, "1,000 pipelined Metadata requests, 1,000 partitions"),
    "metadata-wide": (pipelined_metadata_wide, 12_000, "500 pipelined Metadata requests, 12,000 partitions"),
    "never-reading": (never_reading, 1000, "40 clients with 1,000 Metadata requests that never read"),
    "unfinished": (unfinished_frames, 10, "40 times 90 MB of a 100 MB request, then closed"),
    "kept": (unfinished_and_kept, 10, "40 unfinished requests of 90 MB at once"),
    "announced": (announced_frames, 10, "500 connections that announce 100 MB and send 2 bytes"),
    "bomb": (one_bomb, 10, "one record of 240 MiB in zstd"),
    "zstd-bombs": (zstd_bombs, 10, "20 clients with such a record each"),
    "gzip-bombs": (gzip_bombs, 10, "20 clients with such a record each, in gzip"),
    "connects": (connects, 10, "600 connections back to back"),
}


def run(name: str) -> str:
    attack, partitions, description = ATTACKS[name]
    context = multiprocessing.get_context("spawn")
    with _broker(partitions) as (port, pid):
        stop = context.Event()
        ours, theirs = context.Pipe()
        client = context.Process(target=_run_client, args=(port, stop, theirs))
        client.start()
        time.sleep(QUIET_SECONDS)
        before = usage(pid)
        began = time.monotonic()
        attack(port)
        seconds = time.monotonic() - began
        time.sleep(AFTER_SECONDS)
        after = usage(pid)
        stop.set()
        latencies = ours.recv()
        client.join()
    waits = sorted(latencies)
    at = [waits[min(int(len(waits) * share), len(waits) - 1)] * 1000 for share in (0.5, 0.99, 1)]
    cpu_seconds = after.cpu_seconds - before.cpu_seconds
    return (
        f"| {description} | {at[0]:.1f} | {at[1]:.1f} | {at[2]:.0f} | {before.rss_bytes / MIB:.0f} "
        f"| {after.rss_peak_bytes / MIB:.0f} | {after.rss_bytes / MIB:.0f} | {seconds:.1f} "
        f"| {cpu_seconds:.2f} |"
    )


def main(names: list[str]) -> None:
    print("| attack | wait p50 ms | p99 | max | RSS before MiB | peak | after | attack s | broker CPU s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in names or ATTACKS:
        print(run(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
