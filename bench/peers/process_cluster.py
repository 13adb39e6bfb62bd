"""ZooKeeper and three brokers, of either kind, each a process that can be killed and started again.

Both kinds have the same settings and the same ZooKeeper. Three replicas of everything, of which two must be
in sync; leaders stay where elections put them.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from bench.meter import Usage
from bench.paths import free_port
from bench.peers.broker import Broker, BrokerFailed
from bench.peers.cluster import BROKERS, REPLICATED
from bench.peers.kafka import HEAP, KafkaBroker, ZooKeeper, java_command, write_properties
from bench.peers.odradek import OdradekBroker
from bench.peers.server_process import ServerProcess

READY_SECONDS_MAX = 600.0
LOOK_SECONDS = 0.02
SETTINGS = {**REPLICATED, "auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}


class ProcessCluster(ABC):
    """Three brokers, numbered from 0."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = tuple(free_port() for _ in range(BROKERS))
        self._zookeeper: ZooKeeper | None = None
        self._brokers: dict[int, ServerProcess] = {}

    @abstractmethod
    def _command(self, number: int, properties: dict[str, str]) -> list[str]:
        """Return the command line of a broker."""

    @property
    def zookeeper(self) -> ZooKeeper:
        assert self._zookeeper is not None, "start comes first"
        return self._zookeeper

    @property
    def alive(self) -> list[int]:
        """Numbers of the brokers that run."""
        return sorted(self._brokers)

    def start(self) -> None:
        """Start everything and wait until all brokers accept connections and are registered."""
        self._zookeeper = ZooKeeper(self.directory / "zookeeper")
        for number in range(BROKERS):
            self.launch(number)
        self.await_registered(range(BROKERS))

    def launch(self, number: int) -> None:
        """Start a broker; returns before it is ready."""
        properties = {
            **SETTINGS,
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]}",
            "log.dirs": str(self.directory / f"log-{number}"),
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper.port}",
        }
        command = self._command(number, properties)
        self._brokers[number] = ServerProcess(command, self.output(number), None)

    def output(self, number: int) -> Path:
        """Return the file with the output of a broker."""
        return self.directory / f"broker-{number}.out"

    def usage(self, number: int) -> Usage:
        return self._brokers[number].usage()

    def pid(self, number: int) -> int:
        return self._brokers[number].pid

    def kill(self, number: int) -> None:
        self._brokers.pop(number).kill()

    def stop(self, number: int) -> float:
        """Stop a broker cleanly; return the seconds."""
        return self._brokers.pop(number).stop()

    def await_registered(self, numbers: Iterable[int]) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        for number in numbers:
            while not (self.is_registered(number) and self._accepts_connections(number)):
                self._brokers[number].must_live()
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"broker {number} not registered in {READY_SECONDS_MAX:.0f} s")
                time.sleep(LOOK_SECONDS)

    def await_expired(self, path: str, seconds_max: float = 60.0) -> None:
        """Wait until ZooKeeper has removed an ephemeral node of a killed broker."""
        deadline = time.monotonic() + seconds_max
        while path in self.zookeeper.ephemerals():
            if time.monotonic() > deadline:
                raise BrokerFailed(f"ZooKeeper still has {path} after {seconds_max:.0f} s")
            time.sleep(LOOK_SECONDS)

    def is_registered(self, number: int) -> bool:
        return f"/brokers/ids/{number}" in self.zookeeper.ephemerals()

    def _accepts_connections(self, number: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports[number])) == 0

    def close(self) -> None:
        """Kill the brokers, and stop ZooKeeper."""
        for broker in self._brokers.values():
            broker.kill()
        self._brokers.clear()
        if self._zookeeper is not None:
            self._zookeeper.stop()


class OdradekProcesses(ProcessCluster):
    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory)
        self._program = program

    def _command(self, number: int, properties: dict[str, str]) -> list[str]:
        pairs = [part for key, value in properties.items() for part in ("--set", f"{key}={value}")]
        return [str(self._program), "serve", "--log-level", "info", *pairs]  # durations are info events


class KafkaProcesses(ProcessCluster):
    def _command(self, number: int, properties: dict[str, str]) -> list[str]:
        config = write_properties(self.directory / f"server-{number}.properties", properties)
        return java_command(f"-Xmx{HEAP}", f"-Xms{HEAP}", "kafka.Kafka", str(config))


def processes_of(broker: Broker, directory: Path) -> ProcessCluster:
    """Return a cluster of the same program as a broker."""
    if isinstance(broker, KafkaBroker):
        return KafkaProcesses(directory)
    assert isinstance(broker, OdradekBroker)
    return OdradekProcesses(directory, broker.program)
