"""Links between brokers and ZooKeeper that can be cut or slow, in a process of their own.

Each broker has a port. The process reads commands from its standard input:

- ``delay SECONDS``: everything takes so much longer, in each direction;
- ``cut N`` and ``restore N``: the bytes of broker N vanish, its connections stay open. They are closed when
  it is restored, because bytes are missing.

It prints the session of each connection, which the server's first response has: ``session N ID PASSWORD
TIMEOUT_MS``.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

_CONNECT_RESPONSE = struct.Struct(">iiiqi16s")
"""Length, protocol version, negotiated timeout, session id, length of the password, password."""
COMMAND_SECONDS_MAX = 10.0
ROOT = Path(__file__).resolve().parents[3]


class Session(NamedTuple):
    session_id: int
    password: bytes
    timeout_ms: int


class ZooKeeperLinks:
    """The process, and the last session of each broker."""

    def __init__(self, host: str, server_port: int, brokers: Sequence[int]) -> None:
        command = [sys.executable, "-m", __name__, host, str(server_port), *map(str, brokers)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.sessions: dict[int, Session] = {}
        self.ports: dict[int, int] = {}
        self._done = threading.Semaphore(0)
        for _ in brokers:
            _, broker, port = self._output.readline().split()
            self.ports[int(broker)] = int(port)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def delay(self, seconds: float) -> None:
        self._command(f"delay {seconds}")

    def cut(self, broker: int) -> None:
        self._command(f"cut {broker}")

    def restore(self, broker: int) -> None:
        self._command(f"restore {broker}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def _command(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        if not self._done.acquire(timeout=COMMAND_SECONDS_MAX):
            raise TimeoutError(f"links must do {line!r} within {COMMAND_SECONDS_MAX} s")

    def _read(self) -> None:
        for line in self._output:
            name, *fields = line.split()
            if name == "done":
                self._done.release()
            else:
                broker, session_id, password, timeout_ms = fields
                session = Session(int(session_id), bytes.fromhex(password), int(timeout_ms))
                self.sessions[int(broker)] = session


class _Link:
    """The connections of one broker."""

    def __init__(self, broker: int, server_port: int) -> None:
        self._broker = broker
        self._server_port = server_port
        self.delay = 0.0
        self.is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self, host: str) -> int:
        server = await asyncio.start_server(self._serve, host, 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def restore(self) -> None:
        self.is_cut = False
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self._server_port)
            writers.append(server)
            self._writers.update(writers)
            ways = [
                asyncio.ensure_future(self._forward(reader, server, reports=False)),
                asyncio.ensure_future(self._forward(server_reader, writer, reports=True)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            for end in writers:
                self._writers.discard(end)
                end.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, reports: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            if reports and len(data) >= _CONNECT_RESPONSE.size:
                _, _, timeout_ms, session_id, _, password = _CONNECT_RESPONSE.unpack_from(data)
                print("session", self._broker, session_id, password.hex(), timeout_ms, flush=True)
            reports = False
            if self.is_cut:
                continue
            if self.delay:
                await asyncio.sleep(self.delay)  # what arrives meanwhile is forwarded together
            writer.write(data)
            await writer.drain()


async def _main(host: str, server_port: int, brokers: Sequence[int]) -> None:
    links = {broker: _Link(broker, server_port) for broker in brokers}
    for broker, link in links.items():
        print("port", broker, await link.open(host), flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while line := (await commands.readline()).decode():
        name, value = line.split()
        if name == "delay":
            for link in links.values():
                link.delay = float(value)
        elif name == "cut":
            links[int(value)].is_cut = True
        else:
            links[int(value)].restore()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), [int(broker) for broker in sys.argv[3:]]))
