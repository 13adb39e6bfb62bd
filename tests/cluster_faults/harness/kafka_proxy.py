"""A proxy in front of each broker that knows Kafka's requests, in a process of its own.

The process reads commands from its standard input, one in a line, and answers each with a line:

- ``add NUMBER RULE``: a rule from now on, ``RULE`` being JSON;
- ``hits NUMBER``: how many requests the rule has changed;
- ``remove NUMBER``: the same, and no rule any more; connections that it stalled are closed.

Without rules every byte is passed on as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.cluster_faults.harness.proxied_connection import ProxiedConnection, Streams, read_frame
from tests.cluster_faults.harness.proxy_rule import Rule
from tests.cluster_faults.harness.proxy_rules import ProxyRules

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[3]
REPLAYS_MAX = 1_000
REPLAY_SECONDS_MAX = 10.0
HITS_SECONDS_MAX = 60.0
POLL_SECONDS = 0.02


class RuleInForce:
    """A rule that the proxy has been given."""

    def __init__(self, proxy: KafkaProxy, number: int) -> None:
        self._proxy = proxy
        self._number = number
        self._final_hits: int | None = None

    @property
    def hits(self) -> int:
        """Number of requests that it has changed."""
        if self._final_hits is None:
            return self._proxy.command(f"hits {self._number}")
        return self._final_hits

    def wait_for_hits(self, count: int = 1) -> None:
        deadline = time.monotonic() + HITS_SECONDS_MAX
        while (hits := self.hits) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"rule must change {count} requests in {HITS_SECONDS_MAX} s, got {hits}")
            time.sleep(POLL_SECONDS)

    def remove(self) -> None:
        if self._final_hits is None:
            self._final_hits = self._proxy.command(f"remove {self._number}")


class KafkaProxy:
    """``targets`` are the ports that brokers listen on; ``ports`` are those that clients connect to."""

    def __init__(self, targets: Mapping[int, int]) -> None:
        arguments = [f"{broker}:{port}" for broker, port in targets.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._in_force: list[RuleInForce] = []
        self.ports = dict(zip(targets, map(int, self._output.readline().split()), strict=True))

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    @contextmanager
    def rule(self, rule: Rule) -> Iterator[RuleInForce]:
        """Have a rule for a while."""
        number = next(self._numbers)
        self.command(f"add {number} {rule.to_json()}")
        in_force = RuleInForce(self, number)
        self._in_force.append(in_force)
        try:
            yield in_force
        finally:
            in_force.remove()
            self._in_force.remove(in_force)

    def clear(self) -> None:
        """Remove all rules."""
        for in_force in self._in_force:
            in_force.remove()

    def command(self, line: str) -> int:
        """Have the process do something; return its answer."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._output.readline()
        if not answer:
            raise RuntimeError(f"proxy exited with {self._process.wait()} at {line!r}")
        return int(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()


class _ProxyServer:
    """The listeners of the process, and requests that it sends again."""

    def __init__(self, targets: Mapping[int, int]) -> None:
        self._targets = targets
        self._rules = ProxyRules()
        self._replays: set[asyncio.Task[None]] = set()

    async def listen(self, broker: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(broker, (reader, writer))

        server = await asyncio.start_server(serve, HOST, 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, broker: int, client: Streams) -> None:
        try:
            server = await asyncio.open_connection(HOST, self._targets[broker])
        except OSError:
            client[1].transport.abort()
            return
        await ProxiedConnection(broker, self._rules, client, server, self._replay_later).run()

    def _replay_later(self, broker: int, frame: bytes, seconds: float) -> None:
        if len(self._replays) < REPLAYS_MAX:
            task = asyncio.ensure_future(self._replay(broker, frame, seconds))
            self._replays.add(task)
            task.add_done_callback(self._replays.discard)

    async def _replay(self, broker: int, frame: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(HOST, self._targets[broker])
            try:
                async with asyncio.timeout(REPLAY_SECONDS_MAX):
                    writer.write(frame)
                    await read_frame(reader)
            finally:
                writer.transport.abort()

    def obey(self, line: str) -> int:
        """Do a command; return its answer."""
        name, number, *rest = line.split(maxsplit=2)
        if name == "add":
            self._rules.add(int(number), Rule.from_json(rest[0]))
            return 0
        return self._rules.hits(int(number)) if name == "hits" else self._rules.remove(int(number))


async def _main(targets: Mapping[int, int]) -> None:
    server = _ProxyServer(targets)
    print(*[await server.listen(broker) for broker in targets], flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while line := (await commands.readline()).decode():
        print(server.obey(line), flush=True)


if __name__ == "__main__":
    pairs = (argument.split(":") for argument in sys.argv[1:])
    asyncio.run(_main({int(broker): int(port) for broker, port in pairs}))
