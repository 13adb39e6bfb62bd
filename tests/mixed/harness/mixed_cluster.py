"""Brokers of Apache Kafka and ours on a ZooKeeper server: their processes, and faults."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peers.server_process import BrokerFailed, ServerProcess
from kio.schema.metadata.v8 import request as metadata
from tests.mixed.harness.broker_spec import JAVA, LATEST_IBP, LONG_SESSION_TIMEOUT_MS, BrokerSpec, Kind
from tests.mixed.harness.tally import TALLY
from tests.mixed.harness.znodes import CONTROLLER, NO_BROKER, Znodes
from tests.support.broker import free_port
from tests.support.raw_connection import ConnectionEnded, RawConnection

from odradek.system.local_zookeeper import LocalZooKeeper

BROKERS = (0, 1, 2)
ALL_KAFKA = (Kind.KAFKA,) * 3
ALL_OURS = (Kind.ODRADEK,) * 3
WAIT_SECONDS_MAX = 180.0
TOOL_SECONDS_MAX = 180.0
POLL_SECONDS = 0.1
TICK_MS = LONG_SESSION_TIMEOUT_MS // 20
"""ZooKeeper grants sessions of up to 20 ticks."""
START_ATTEMPTS_MAX = 20
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
    offline: tuple[int, ...]


class ClusterMetadata(NamedTuple):
    controller: int
    brokers: frozenset[int]
    partitions: dict[tuple[str, int], PartitionMetadata]


class MixedCluster:
    """ZooKeeper and brokers 0, 1 and 2. ``specs`` holds what the next start of a broker uses.

    After each wait the controller is a broker of ``controller_kind``, if a broker of that kind runs: a wait
    moves the controller back when a broker of the other kind has won an election.
    """

    def __init__(
        self,
        classpath: str,
        home: Path,
        kinds: Sequence[Kind],
        controller_kind: Kind = Kind.KAFKA,
    ) -> None:
        self.home = home
        self.controller_kind = controller_kind
        self._classpath = classpath
        home.mkdir(parents=True, exist_ok=True)
        self.specs = {
            broker: BrokerSpec(broker, kind, free_port(), [home / f"broker-{broker}"])
            for broker, kind in enumerate(kinds)
        }
        self._processes: dict[int, ServerProcess] = {}
        self._paused: set[int] = set()
        self._log4j = home / "log4j.properties"
        self._log4j.write_text(LOG4J)
        self._zookeeper = LocalZooKeeper(home / "zookeeper", os.environ, tick_ms=TICK_MS, is_durable=False)
        self.znodes = Znodes(self._zookeeper.connect_string)

    @property
    def bootstrap(self) -> str:
        return ",".join(spec.address for spec in self.specs.values())

    @property
    def running(self) -> tuple[int, ...]:
        """Brokers that run and are not paused."""
        return tuple(self._processes)

    def address(self, broker: int) -> str:
        return self.specs[broker].address

    def replica_path(self, broker: int, topic: str, partition: int = 0) -> Path:
        """Return the directory of a replica, in whichever log directory it is."""
        log_dirs = self.specs[broker].log_dirs
        paths = [log_dir / f"{topic}-{partition}" for log_dir in log_dirs]
        return next((path for path in paths if path.is_dir()), paths[0])

    # Processes

    def start_all(self) -> None:
        """Start all brokers, the controller first."""
        controller = next(each for each, spec in self.specs.items() if spec.kind is self.controller_kind)
        self.start(controller)
        others = [broker for broker in self.specs if broker != controller]
        for broker in others:
            self.launch(broker)
        for broker in others:
            self.wait_until_joined(broker)

    def start(self, broker: int, *, ibp: str | None = None) -> None:
        """Start the broker and wait until all running brokers have it in their metadata."""
        self.launch(broker, ibp=ibp)
        self.wait_until_joined(broker)

    def launch(self, broker: int, *, ibp: str | None = None) -> None:
        """Start the process of a broker without waiting."""
        spec = self.specs[broker]
        spec.ibp = ibp or spec.ibp
        properties = self.home / f"broker-{broker}.properties"
        properties.write_text(spec.properties(self._zookeeper.connect_string))
        command = spec.command(properties, self._classpath, [f"-Dlog4j.configuration=file:{self._log4j}"])
        self._processes[broker] = ServerProcess(command, self.home / f"broker-{broker}.out", None)

    def wait_until_joined(self, broker: int) -> None:
        try:
            self.wait_until(lambda: all(broker in self.metadata(each).brokers for each in self._processes))
        except BrokerFailed:
            process = self._processes.pop(broker)
            process.stop()
            raise

    def start_until_registered(self, broker: int) -> int:
        """Start a broker again and again, as a supervisor does; return the number of starts that failed.

        A broker exits while the registration of its former process exists.
        """
        for failures in range(START_ATTEMPTS_MAX):
            try:
                self.start(broker)
            except BrokerFailed:
                continue
            return failures
        raise TimeoutError(f"broker {broker} must start within {START_ATTEMPTS_MAX} attempts")

    def restart(self, broker: int, *, ibp: str | None = None) -> None:
        """Shut the broker down and start it, with another inter-broker protocol version if given."""
        self.stop(broker)
        self.start(broker, ibp=ibp)

    def restore(self, controller_kind: Kind) -> None:
        """Start what a test left down, with the usual settings, under a controller of this kind."""
        self.controller_kind = controller_kind
        for broker, spec in self.specs.items():
            is_usual = spec.ibp == LATEST_IBP and not spec.settings
            spec.ibp, spec.settings = LATEST_IBP, {}
            if broker in self._processes and not is_usual:
                self.stop(broker)
            if broker not in self._processes:
                self.start_until_registered(broker)
        self.wait_until(self._is_controller_known)
        assert self.specs[self.znodes.controller()].kind is controller_kind

    def stop(self, broker: int) -> None:
        """Shut the broker down as an operator does."""
        TALLY.faults["stops"] += 1
        self._processes.pop(broker).stop()

    def kill(self, broker: int) -> None:
        TALLY.faults["kills"] += 1
        self._processes.pop(broker).kill()

    @contextmanager
    def paused(self, *brokers: int) -> Iterator[None]:
        """Stop the processes of brokers for a while; meanwhile they do not count as running."""
        TALLY.faults["pauses"] += len(brokers)
        processes = {broker: self._processes.pop(broker) for broker in brokers}
        self._paused |= processes.keys()
        for process in processes.values():
            os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes.values():
                os.kill(process.pid, signal.SIGCONT)
            self._paused -= processes.keys()
            self._processes |= processes

    @contextmanager
    def session_expired(self, broker: int) -> Iterator[None]:
        """Pause a broker until ZooKeeper has removed its registration; resume it at the end."""
        TALLY.faults["expired sessions"] += 1
        with self.paused(broker):
            self.wait_until(lambda: self.znodes.broker_epoch(broker) is None)
            yield

    # The controller

    def elect_controller(self, broker: int) -> None:
        """Make this broker the controller; waits keep one of its kind from now on."""
        self.controller_kind = self.specs[broker].kind
        if self.znodes.controller() != broker:
            TALLY.faults["controller moves"] += 1
            self._elect(broker)
        self._poll_until(self._is_controller_known)
        assert self.znodes.controller() == broker

    def _elect(self, broker: int) -> None:
        """Delete the controller's node while only this broker runs, so that it is elected."""
        others = [other for other in self._processes if other != broker]
        TALLY.faults["pauses"] -= len(others)

        def is_elected() -> bool:
            controller = self.znodes.controller()
            if controller not in (broker, NO_BROKER):  # also if it won just before its pause
                self.znodes.delete(CONTROLLER)
            return controller == broker

        with self.paused(*others):
            self._poll_until(is_elected)
        self._poll_until(self._is_controller_known)

    def _is_controller_known(self) -> bool:
        """Return True if all brokers that answer know the controller."""
        controller = self.znodes.controller()
        answers = [self.metadata(broker) for broker in self._processes]
        return controller != NO_BROKER and all(
            answer.controller == controller for answer in answers if answer.brokers
        )

    def _keep_controller(self) -> bool:
        """Return False while there is no controller; move the role to a broker of the chosen kind."""
        controller = self.znodes.controller()
        if controller not in self._processes:
            return controller in self._paused
        if self.specs[controller].kind is not self.controller_kind:
            for broker in self._processes:
                if self.specs[broker].kind is self.controller_kind and self._is_joined(broker):
                    TALLY.faults["controllers moved back"] += 1
                    self._elect(broker)
                    break
        return True

    def _is_joined(self, broker: int) -> bool:
        """Return True if the broker answers and has itself in its metadata."""
        return broker in self.metadata(broker).brokers

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        self.znodes.close()
        self._zookeeper.stop()

    def tool_command(self, name: str, *arguments: str) -> list[str]:
        """Return the command line of a command-line tool of Kafka."""
        return [*JAVA, "-cp", self._classpath, name, *arguments]

    def run_tool(self, name: str, *arguments: str) -> str:
        """Run a command-line tool of Kafka; return its output."""
        command = self.tool_command(name, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False)
        if done.returncode:
            raise AssertionError(f"{name} must succeed, got {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    # State

    def metadata(self, broker: int, topic: str | None = None) -> ClusterMetadata:
        """Return what a broker knows of the cluster and a topic; nothing if it does not answer."""
        return read_metadata(self.address(broker), topic)

    def wait_for_partition(
        self, topic: str, partition: int = 0, *, leader: int | None = None, isr: Sequence[int] = BROKERS
    ) -> None:
        """Wait until all running brokers agree on the leader and the ISR of a partition."""

        def is_reached(broker: int) -> bool:
            state = self.metadata(broker, topic).partitions.get((topic, partition))
            return state is not None and leader in (None, state.leader) and set(state.isr) == set(isr)

        self.wait_until(lambda: all(map(is_reached, self._processes)), topic)

    def wait_until(self, condition: Callable[[], bool], topic: str | None = None) -> None:
        """Wait for a condition, and for a controller of the chosen kind.

        A failure shows the brokers' metadata of the topic.
        """
        self._poll_until(lambda: self._keep_controller() and condition(), topic)

    def _poll_until(self, condition: Callable[[], bool], topic: str | None = None) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            for process in self._processes.values():
                process.must_live()
            if time.monotonic() > deadline:
                states = {broker: self.metadata(broker, topic) for broker in self._processes}
                raise TimeoutError(
                    f"condition must hold within {WAIT_SECONDS_MAX} s, "
                    f"controller is {self.znodes.controller()}, metadata is {states}"
                )
            time.sleep(POLL_SECONDS)


def read_metadata(address: str, topic: str | None = None) -> ClusterMetadata:
    """Return what a broker knows of the cluster and a topic; nothing if it does not answer."""
    topics = [] if topic is None else [metadata.MetadataRequestTopic(name=topic)]  # type: ignore[arg-type]
    request = metadata.MetadataRequest(
        topics=tuple(topics),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    try:
        with RawConnection(address) as connection:
            response = connection.exchange(request)
    except (OSError, ConnectionEnded):
        return ClusterMetadata(NO_BROKER, frozenset(), {})
    partitions = {
        (topic.name, int(each.partition_index)): PartitionMetadata(
            int(each.leader_id),
            tuple(map(int, each.replica_nodes)),
            tuple(map(int, each.isr_nodes)),
            tuple(map(int, each.offline_replicas)),
        )
        for topic in response.topics
        for each in topic.partitions
    }
    brokers = frozenset(int(each.node_id) for each in response.brokers)
    return ClusterMetadata(int(response.controller_id), brokers, partitions)
