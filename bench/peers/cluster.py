"""ZooKeeper and three brokers, of either kind, started from nothing in a directory of its own.

Both have three replicas of everything, of which two must be in sync, and the session timeout of local
clusters.
"""

from __future__ import annotations

import json
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.paths import free_port
from bench.peers.broker import TOPIC_SECONDS_MAX, Broker, BrokerFailed
from bench.peers.kafka import HEAP, KafkaBroker, ZooKeeper, java_command, write_properties
from bench.peers.odradek import OdradekBroker
from bench.peers.server_process import ServerProcess

BROKERS = 3
PORTS_TRIED_MAX = 100
COMMAND_SECONDS_MAX = 180
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "zookeeper.session.timeout.ms": "6000",
}


class Members(NamedTuple):
    """Process ids of a running cluster."""

    zookeeper: int
    brokers: tuple[int, ...]


class Cluster(ABC):
    """A cluster that is launched once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports: tuple[int, ...] = ()

    @abstractmethod
    def launch(self) -> None:
        """Start everything; may return before brokers are ready."""

    @abstractmethod
    def must_live(self) -> None:
        """Raise BrokerFailed if a part has ended."""

    @abstractmethod
    def members(self) -> Members:
        """Return the process ids, once all are started."""

    @abstractmethod
    def close(self) -> None:
        """End all processes."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def wait_until_ready(self) -> None:
        """Wait until all brokers are registered."""
        admin, deadline = self._admin(), time.monotonic() + COMMAND_SECONDS_MAX
        while time.monotonic() < deadline:
            self.must_live()
            with suppress(KafkaException):
                if len(admin.list_topics(timeout=1).brokers) == BROKERS:
                    return
            time.sleep(0.1)
        raise BrokerFailed(f"{BROKERS} brokers must be registered after {COMMAND_SECONDS_MAX} s")

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with a replica on every broker, and wait until all are in sync."""
        admin = self._admin()
        created = admin.create_topics([NewTopic(topic, partitions, BROKERS)])
        created[topic].result(TOPIC_SECONDS_MAX)
        deadline = time.monotonic() + TOPIC_SECONDS_MAX
        while time.monotonic() < deadline:
            states = admin.list_topics(topic, timeout=TOPIC_SECONDS_MAX).topics[topic].partitions.values()
            if len(states) == partitions and all(len(state.isrs) == BROKERS for state in states):
                return
            time.sleep(0.05)
        raise BrokerFailed(f"{topic} must be in sync after {TOPIC_SECONDS_MAX:.0f} s")

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()  # must outlive the future
        admin.delete_topics([topic])[topic].result(TOPIC_SECONDS_MAX)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": "2"})


class OdradekCluster(Cluster):
    """``odradek cluster up``, whose defaults are the settings above."""

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory)
        first = _consecutive_ports()
        self.ports = tuple(range(first, first + BROKERS))
        self._program = program
        self._up: ServerProcess | None = None
        self._members: Members | None = None

    def launch(self) -> None:
        options = ("--brokers", str(BROKERS), "--port", str(self.ports[0]), "--detach")
        self._up = ServerProcess(self._command("up", *options), self.directory / "up.out", None)

    def must_live(self) -> None:
        """``up`` ends with 0 when the cluster is ready."""
        assert self._up is not None
        if self._up.exit_status():
            raise BrokerFailed(f"odradek cluster up failed:\n{self._up.last_output()}")

    def members(self) -> Members:
        assert self._up is not None
        if self._members is None:
            self._up.wait(COMMAND_SECONDS_MAX)
            status = json.loads(self._run("status", "--json"))
            brokers = tuple(broker["process_id"] for broker in status["brokers"])
            self._members = Members(status["zookeeper"]["process_id"], brokers)
        return self._members

    def close(self) -> None:
        if self._up is not None:
            self._up.stop()
            self._run("down")

    def _run(self, *arguments: str) -> str:
        command = self._command(*arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS_MAX
        )
        if done.returncode:
            raise BrokerFailed(f"odradek cluster {arguments[0]}: {done.stderr}")
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [str(self._program), "cluster", *arguments, "--directory", str(self.directory / "cluster")]


class KafkaCluster(Cluster):
    """ZooKeeper, then three Kafka brokers at once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ports = tuple(free_port() for _ in range(BROKERS))
        self._zookeeper: ZooKeeper | None = None
        self._brokers: list[ServerProcess] = []

    def launch(self) -> None:
        self._zookeeper = ZooKeeper(self.directory / "zookeeper")
        for number, port in enumerate(self.ports):
            listener = f"PLAINTEXT://127.0.0.1:{port}"
            properties = {
                **REPLICATED,
                "broker.id": str(number),
                "listeners": listener,
                "advertised.listeners": listener,
                "log.dirs": str(self.directory / f"log-{number}"),
                "zookeeper.connect": f"127.0.0.1:{self._zookeeper.port}",
            }
            config = write_properties(self.directory / f"server-{number}.properties", properties)
            command = java_command(f"-Xmx{HEAP}", f"-Xms{HEAP}", "kafka.Kafka", str(config))
            self._brokers.append(ServerProcess(command, self.directory / f"broker-{number}.out", None))

    def must_live(self) -> None:
        for broker in self._brokers:
            broker.must_live()

    def members(self) -> Members:
        assert self._zookeeper is not None
        return Members(self._zookeeper.pid, tuple(broker.pid for broker in self._brokers))

    def close(self) -> None:
        """Kill the brokers: the last of three has nobody to hand its partitions to, and would wait."""
        for broker in self._brokers:
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()


def cluster_of(broker: Broker, directory: Path) -> Cluster:
    """Return a cluster of the same program as a broker."""
    if isinstance(broker, KafkaBroker):
        return KafkaCluster(directory)
    assert isinstance(broker, OdradekBroker)
    return OdradekCluster(directory, broker.program)


def _consecutive_ports() -> int:
    """Return the first of consecutive ports that were free a moment ago."""
    from odradek.system.loopback_ports import is_port_free

    for _ in range(PORTS_TRIED_MAX):
        first = free_port()
        if all(is_port_free(port) for port in range(first, first + BROKERS)):
            return first
    raise BrokerFailed(f"no {BROKERS} consecutive free ports")
