"""What the benchmarks may ask of a broker, whoever wrote it.

A broker has one data directory and one port for its life; `start` and `stop` may alternate on them.
`launch` only runs the program, for those who measure how long it takes to become useful.
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
from bench.peers.server_process import STOP_SECONDS_MAX, BrokerFailed, NotAvailable, ServerProcess
from bench.places import free_port

READY_SECONDS_MAX = 90.0
TOPIC_SECONDS_MAX = 60.0
CHECKPOINT_LOOK_SECONDS = 0.01

# The same on both sides. Deleted topics must not fill the disk between two measurements.
SETTINGS: Mapping[str, str] = {"log.segment.delete.delay.ms": "1000"}


class Broker(ABC):
    """One broker of one kind, on loopback."""

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
        """Fetch or find the program, give its version; raise NotAvailable if it cannot be had."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments; may write configuration files first."""

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
        """Launch and wait until the broker answers a Metadata request naming itself."""
        self.launch()
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._accepts() or not self._answers():
            self._running().must_live()
            if time.monotonic() > deadline:
                words = self._running().last_words()
                self.close()
                raise BrokerFailed(f"{self.name} not ready after {READY_SECONDS_MAX:.0f} s:\n{words}")
            time.sleep(0.05)
        return self

    def stop(self) -> float:
        """Stop cleanly; the seconds it took. One that had to be killed has failed."""
        seconds = self._running().stop()
        self._process = None
        if seconds >= STOP_SECONDS_MAX:
            raise BrokerFailed(f"{self.name} did not stop in {STOP_SECONDS_MAX:.0f} s and was killed")
        return seconds

    def kill(self) -> None:
        """End it without a word (SIGKILL); afterwards it may be launched again."""
        self._running().kill()
        self._process = None

    def close(self) -> None:
        """Stop everything this broker needed, without asking how."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def wipe(self) -> None:
        """Forget all stored data; the broker must be stopped."""
        shutil.rmtree(self.log_directory, ignore_errors=True)

    def must_live(self) -> None:
        self._running().must_live()

    def usage(self) -> Usage:
        return self._running().usage()

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create and wait until every partition has a leader."""
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
        """Change settings of a topic while it is in use."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self._admin()  # must outlive the future
        admin.incremental_alter_configs([resource])[resource].result(TOPIC_SECONDS_MAX)

    def checkpoint(self, name: str, topic: str, partition: int = 0) -> int | None:
        """What a checkpoint file of the data directory holds for a partition; None if nothing yet.

        Both brokers replace these files whole: a reader never sees half of one.
        """
        try:
            lines = (self.log_directory / name).read_text().splitlines()
        except FileNotFoundError:
            return None
        found = (line.split() for line in lines[2:])
        return next((int(offset) for t, p, offset in found if (t, p) == (topic, str(partition))), None)

    def await_checkpoint(self, name: str, topic: str, offset: int, *, seconds_max: float) -> None:
        """Wait until a checkpoint file of the data directory has reached an offset of partition 0."""
        deadline = time.monotonic() + seconds_max
        while (reached := self.checkpoint(name, topic)) is None or reached < offset:
            self.must_live()
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{self.name}: {name} at {reached}, not {offset}, in {seconds_max:.0f} s")
            time.sleep(CHECKPOINT_LOOK_SECONDS)

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise BrokerFailed(f"{self.name} is not running")
        return self._process

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _answers(self) -> bool:
        try:
            return bool(self._admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False


__all__ = ["Broker", "BrokerFailed", "NotAvailable"]
