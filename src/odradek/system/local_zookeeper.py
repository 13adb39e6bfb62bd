"""A ZooKeeper server on this machine, for local clusters and tests.

PySpark's jars contain the server, so nothing but PyPI is needed. The server listens on loopback only, keeps
its data in a directory of the caller, and ends with the process that started it, however that ends.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from odradek.system.java import choose_java, missing_java, provided_java

HOST: Final = "127.0.0.1"
LOG_NAME: Final = "zookeeper.log"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_PORT_ATTEMPTS: Final = 3
_PORT_CHOICES: Final = 100
_PORTS: Final = range(20_000, 32_000)
_LOG_LINES_SHOWN: Final = 5
_REGISTRATIONS: Final = "/brokers/ids/"

# A background shell reads a pipe that only the starting process has open: when that process is gone, the read
# ends and the server is terminated. The shell becomes the server, so the process id is the server's.
_LAUNCHER: Final = 'exec 3<&0; (read -r line <&3; kill "$$") & exec 3<&-; exec "$@" </dev/null'


class ServerFailed(Exception):
    """Raised when the server cannot be started; the message says what to do."""


class LocalZooKeeper:
    """A running server. ``directory`` is created if it is missing; its data survives a restart.

    ``port`` 0 is any free port. ``tick_ms`` is ZooKeeper's ``tickTime``: session timeouts are between 2 and
    20 ticks. Without ``is_durable`` writes are not synced to the disk. ``properties`` go to ``zoo.cfg``.
    """

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *,
        port: int = 0,
        tick_ms: int = 2000,
        heap_mib: int = 128,
        is_durable: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._data = directory.resolve() / "data"
        self._tick_ms = tick_ms
        self._properties = properties or {}
        self._command = server_command(environment, heap_mib, is_durable)
        directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(_PORT_ATTEMPTS):
            self.port = port or free_port()
            self._process = self._launch()
            try:
                self._wait_until_ready()
                return
            except ServerFailed:
                self.stop()
                # Another process may have taken the free port meanwhile.
                if port or attempt == _PORT_ATTEMPTS - 1 or "BindException" not in self._read_log():
                    raise

    @property
    def connect_string(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process_id(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Stop the server. A second call does nothing."""
        assert self._process.stdin is not None
        self._process.terminate()
        # Before the process is reaped: its id could belong to another one afterwards.
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self) -> subprocess.Popen[bytes]:
        config = self.directory / "zoo.cfg"
        text = server_config(self._data, self.port, self._tick_ms, self._properties)
        config.write_text(text, encoding="utf-8")
        with (self.directory / LOG_NAME).open("wb") as log:
            return subprocess.Popen(
                ["sh", "-c", _LAUNCHER, "sh", *self._command, str(config)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C is for the process that started it
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not is_serving(self.port, self._data):
            if self._process.poll() is not None:
                raise ServerFailed(self._failure("ended at its start"))
            if time.monotonic() > deadline:
                raise ServerFailed(self._failure(f"did not answer within {_START_TIMEOUT_S:g} seconds"))
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> str:
        # Without blank lines and stack frames.
        lines = [line for line in self._read_log().splitlines() if line and not line.startswith("\t")]
        end = " | ".join(lines[-_LOG_LINES_SHOWN:])
        return f"ZooKeeper on {self.connect_string} {what}; see {self.directory / LOG_NAME}: {end}"

    def _read_log(self) -> str:
        return (self.directory / LOG_NAME).read_text(encoding="utf-8", errors="replace")


def server_command(environment: Mapping[str, str], heap_mib: int, is_durable: bool) -> list[str]:
    """Return the command that starts the server, without its config file."""
    java, rejected = choose_java(environment)
    java = java or provided_java()
    if java is None:
        raise missing_java("ZooKeeper", rejected)
    return [
        str(java),
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.level=WARN",
        f"-Dzookeeper.forceSync={'yes' if is_durable else 'no'}",
        "-cp",
        f"{find_jars()}/*",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    ]


def find_jars() -> Path:
    """Return PySpark's folder of jars, which has ZooKeeper's server."""
    spec = find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        jars = Path(spec.origin).parent / "jars"
        if next(jars.glob("zookeeper-[0-9]*.jar"), None) is not None:
            return jars
    raise ServerFailed(
        "a local ZooKeeper requires PySpark, whose jars contain the server: `pip install 'odradek[spark]'`"
    )


def server_config(data: Path, port: int, tick_ms: int, properties: Mapping[str, str]) -> str:
    """Return the text of ``zoo.cfg`` for a single server on loopback."""
    values = {
        "tickTime": str(tick_ms),
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        **properties,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def free_port() -> int:
    """Return a port on loopback that nothing listens on.

    It is below the range of outgoing connections, one of which could take it while a server restarts.
    """
    for _ in range(_PORT_CHOICES):
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise ServerFailed(f"no free port between {_PORTS.start} and {_PORTS.stop - 1} on {HOST}")


def registered_brokers(port: int) -> frozenset[int]:
    """Return the ids that brokers with a session have registered; none if the server does not answer."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"dump")
            nodes = connection.makefile(encoding="utf-8").read().split()
    except OSError:
        return frozenset()
    return frozenset(
        int(node.removeprefix(_REGISTRATIONS)) for node in nodes if node.startswith(_REGISTRATIONS)
    )


def is_serving(port: int, data: Path) -> bool:
    """Return whether the server of this data, and not another one, accepts requests on a port."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"conf")
            return f"dataDir={data}/" in connection.makefile(encoding="utf-8").read()
    except OSError:
        return False
