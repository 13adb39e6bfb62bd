"""Two brokers of Apache Kafka and one of ours, on a ZooKeeper server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peers.server_process import BrokerFailed, ServerProcess
from kio.schema.metadata.v8 import request as metadata
from tests.support.broker import free_port
from tests.support.raw_connection import ConnectionEnded, RawConnection

from odradek.system.local_zookeeper import LocalZooKeeper

KAFKA = (0, 1)
OURS = 2
BROKERS = (*KAFKA, OURS)
NO_BROKER = -1
SESSION_TIMEOUT_MS = 6_000
REPLICA_LAG_MS = 5_000
WAIT_SECONDS_MAX = 90.0
POLL_SECONDS = 0.1
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx256m")
LOG4J = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
"""


class PartitionMetadata(NamedTuple):
    """The state of a partition, as a broker answers Metadata."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ClusterMetadata(NamedTuple):
    controller: int
    brokers: frozenset[int]
    partitions: dict[tuple[str, int], PartitionMetadata]


class MixedCluster:
    """ZooKeeper and the processes of the brokers. Start Kafka's first: one of them must be the controller."""

    def __init__(self, jars: Path, home: Path) -> None:
        self.home = home
        self._jars = jars
        self._ports = {broker: free_port() for broker in BROKERS}
        self._processes: dict[int, ServerProcess] = {}
        self._log4j = home / "log4j.properties"
        self._log4j.write_text(LOG4J)
        self._zookeeper = LocalZooKeeper(home / "zookeeper", os.environ, tick_ms=1000, is_durable=False)

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, BROKERS))

    def address(self, broker: int) -> str:
        return f"127.0.0.1:{self._ports[broker]}"

    def log_directory(self, broker: int, topic: str, partition: int = 0) -> Path:
        return self.home / f"broker-{broker}" / f"{topic}-{partition}"

    # Processes

    def start(self, broker: int) -> None:
        """Start the broker and wait until all running brokers have it in their metadata."""
        path = self.home / f"broker-{broker}.properties"
        path.write_text("\n".join(self._settings(broker)) + "\n")
        output = self.home / f"broker-{broker}.out"
        self._processes[broker] = ServerProcess(self._command(broker, path), output, None)
        try:
            self.wait_until(lambda: all(broker in self.metadata(each).brokers for each in self._processes))
        except BrokerFailed:
            del self._processes[broker]
            raise

    def start_missing(self) -> None:
        """Start the brokers that a failed test left down."""
        for broker in BROKERS:
            if broker not in self._processes:
                self.start(broker)

    def stop(self, broker: int) -> None:
        """Shut the broker down as an operator does."""
        self._processes.pop(broker).stop()

    def kill(self, broker: int) -> None:
        self._processes.pop(broker).kill()

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        """Stop the process of a broker for a while; meanwhile it does not count as running."""
        process = self._processes.pop(broker)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)
            self._processes[broker] = process

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._zookeeper.stop()

    def run_tool(self, name: str, *arguments: str) -> str:
        """Run a command-line tool of Kafka; return its output."""
        command = [*JAVA, "-cp", f"{self._jars}/*", name, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    # State

    def metadata(self, broker: int) -> ClusterMetadata:
        """Return the metadata of a broker; nothing if it does not answer."""
        request = metadata.MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        try:
            with RawConnection(self.address(broker)) as connection:
                response = connection.exchange(request)
        except (OSError, ConnectionEnded):
            return ClusterMetadata(NO_BROKER, frozenset(), {})
        partitions = {
            (topic.name, int(each.partition_index)): PartitionMetadata(
                int(each.leader_id), tuple(map(int, each.replica_nodes)), tuple(map(int, each.isr_nodes))
            )
            for topic in response.topics
            for each in topic.partitions
        }
        brokers = frozenset(int(each.node_id) for each in response.brokers)
        return ClusterMetadata(int(response.controller_id), brokers, partitions)

    def wait_for_partition(
        self, topic: str, partition: int = 0, *, leader: int | None = None, isr: Sequence[int] = BROKERS
    ) -> None:
        """Wait until all running brokers agree on the leader and the ISR of a partition."""

        def is_reached(broker: int) -> bool:
            state = self.metadata(broker).partitions.get((topic, partition))
            return state is not None and leader in (None, state.leader) and set(state.isr) == set(isr)

        self.wait_until(lambda: all(map(is_reached, self._processes)))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            for process in self._processes.values():
                process.must_live()
            if time.monotonic() > deadline:
                states = {broker: self.metadata(broker) for broker in self._processes}
                raise TimeoutError(f"condition must hold within {WAIT_SECONDS_MAX} s, metadata is {states}")
            time.sleep(POLL_SECONDS)

    # Configuration

    def _command(self, broker: int, properties: Path) -> list[str]:
        if broker == OURS:
            odradek = Path(sys.executable).with_name("odradek")
            return [str(odradek), "serve", "--config", str(properties)]
        log4j = f"-Dlog4j.configuration=file:{self._log4j}"
        return [*JAVA, log4j, "-cp", f"{self._jars}/*", "kafka.Kafka", str(properties)]

    def _settings(self, broker: int) -> list[str]:
        return [
            f"broker.id={broker}",
            f"zookeeper.connect={self._zookeeper.connect_string}",
            f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
            "inter.broker.protocol.version=3.9",
            f"listeners=PLAINTEXT://{self.address(broker)}",
            f"log.dirs={self.home / f'broker-{broker}'}",
            f"replica.lag.time.max.ms={REPLICA_LAG_MS}",
            "auto.create.topics.enable=false",
            "auto.leader.rebalance.enable=false",
            "min.insync.replicas=2",
            "offsets.topic.num.partitions=3",
            "offsets.topic.replication.factor=3",
            "group.initial.rebalance.delay.ms=0",
            "transaction.state.log.num.partitions=3",
            "transaction.state.log.replication.factor=3",
            "transaction.state.log.min.isr=2",
            "num.network.threads=2",
            "num.io.threads=4",
            "log.cleaner.dedupe.buffer.size=4194304",
        ]
