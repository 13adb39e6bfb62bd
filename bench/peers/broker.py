"""Interface of a broker to the benchmarks.

A broker has one data directory and one port; `start` and `stop` may alternate. `launch` only starts the
process, to measure the time until it is ready.
"""

from __future__ import annotations

import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.meter import Usage
from bench.paths import free_port
from bench.peers.server_process import STOP_SECONDS_MAX, BrokerFailed, NotAvailable, ServerProcess

READY_SECONDS_MAX = 90.0
TOPIC_SECONDS_MAX = 60.0
CHECKPOINT_LOOK_SECONDS = 0.01

# The same on both sides. Deleted topics must not fill the disk between two measurements.
SETTINGS: Mapping[str, str] = {"log.segment.delete.delay.ms": "1000"}


class Broker(ABC):
    """A broker on loopback."""

    name: ClassVar[str]

    def __init__(
        self,
        directory: Path,
        *,
        cores: frozenset[int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.cores = cores
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = free_port()
        self._process: ServerProcess | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @classmethod
    @abstractmethod
    def prepare(cls) -> str:
        """Install or find the program and return its version; raise NotAvailable if that fails."""

    @classmethod
    def facts(cls) -> dict[str, str]:
        """Return facts about the program for the results, besides its version."""
        return {}

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line; may write configuration files."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_directory(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int:
        return self._running().pid

    def launch(self) -> None:
        self._process = ServerProcess(self._command(), self.directory / "broker.out", self.cores)

    def start(self) -> Self:
        """Launch and wait until a Metadata response names the broker."""
        self.launch()
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._accepts_connections() or not self._answers():
            self._running().must_live()
            if time.monotonic() > deadline:
                output = self._running().last_output()
                self.close()
                raise BrokerFailed(f"{self.name} not ready after {READY_SECONDS_MAX:.0f} s:\n{output}")
            time.sleep(0.05)
        return self

    def stop(self) -> float:
        """Stop cleanly and return the seconds; raise BrokerFailed if it had to be killed."""
        seconds = self._running().stop()
        self._process = None
        if seconds >= STOP_SECONDS_MAX:
            raise BrokerFailed(f"{self.name} did not stop in {STOP_SECONDS_MAX:.0f} s and was killed")
        return seconds

    def kill(self) -> None:
        """Kill it (SIGKILL); it may be launched again."""
        self._running().kill()
        self._process = None

    def close(self) -> None:
        """Stop the broker and its helpers."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def wipe(self) -> None:
        """Delete all stored data; the broker must be stopped."""
        shutil.rmtree(self.log_directory, ignore_errors=True)

    def must_live(self) -> None:
        self._running().must_live()

    def usage(self) -> Usage:
        return self._running().usage()

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until every partition has a leader."""
        admin = self._admin()
        created = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])
        created[topic].result(TOPIC_SECONDS_MAX)
        deadline = time.monotonic() + TOPIC_SECONDS_MAX
        while time.monotonic() < deadline:
            seen = admin.list_topics(topic, timeout=TOPIC_SECONDS_MAX).topics[topic].partitions
            if len(seen) == partitions and all(p.leader >= 0 for p in seen.values()):
                return
            time.sleep(0.05)
        raise BrokerFailed(f"{self.name}: {topic} has no leaders after {TOPIC_SECONDS_MAX:.0f} s")

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()  # must outlive the future
        admin.delete_topics([topic])[topic].result(TOPIC_SECONDS_MAX)

    def alter_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Change topic configs."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self._admin()  # must outlive the future
        admin.incremental_alter_configs([resource])[resource].result(TOPIC_SECONDS_MAX)

    def checkpoint(self, name: str, topic: str, partition: int = 0) -> int | None:
        """Return the offset of a partition in a checkpoint file; None if there is none yet.

        Both brokers replace these files atomically.
        """
        try:
            lines = (self.log_directory / name).read_text().splitlines()
        except FileNotFoundError:
            return None
        entries = (line.split() for line in lines[2:])
        return next((int(offset) for t, p, offset in entries if (t, p) == (topic, str(partition))), None)

    def await_checkpoint(self, name: str, topic: str, offset: int, *, seconds_max: float) -> None:
        """Wait until a checkpoint file reaches an offset of partition 0."""
        deadline = time.monotonic() + seconds_max
        while (reached := self.checkpoint(name, topic)) is None or reached < offset:
            self.must_live()
            if time.monotonic() > deadline:
                raise BrokerFailed(
                    f"{self.name}: {name} must reach {offset} in {seconds_max:.0f} s, got {reached}"
                )
            time.sleep(CHECKPOINT_LOOK_SECONDS)

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise BrokerFailed(f"{self.name} is not running")
        return self._process

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def _accepts_connections(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _answers(self) -> bool:
        try:
            return bool(self._admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False


__all__ = ["Broker", "BrokerFailed", "NotAvailable"]
