"""Three of our brokers on a ZooKeeper server, each in its own process, and faults of processes and links."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers.server_process import BrokerFailed, ServerProcess
from kazoo.exceptions import KazooException
from tests.cluster_faults.harness.networks import Network, Side
from tests.cluster_faults.harness.secured import IS_SECURED, allow_clients, secured_settings
from tests.cluster_faults.harness.zookeeper_links import ZooKeeperLinks
from tests.mixed.harness.mixed_cluster import read_metadata
from tests.mixed.harness.znodes import NO_BROKER, Znodes
from tests.support.raw_connection import broker_answers
from tests.support.zookeeper import options_for

from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.system.local_zookeeper import LocalZooKeeper, free_port

BROKERS = (1, 2, 3)
PORT = 9092
TICK_MS = 500
SESSION_TIMEOUT_MS = 3_000
WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
START_ATTEMPTS_MAX = 20
TOPICS = "/brokers/topics"
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "3000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.segment.bytes": "262144",
    "transaction.state.log.segment.bytes": "65536",
    "odradek.allow.anonymous": "true",
    "odradek.log.level": "debug",
}


class FaultCluster:
    """ZooKeeper and brokers 1, 2 and 3. Every fault that is begun is healed by ``restore``.

    ``members`` are the brokers that must run; others have an address and may join later. ``environments`` and
    ``more_log_dirs`` are what a broker has besides the usual at its next start.
    """

    def __init__(
        self,
        home: Path,
        network: Network,
        brokers: Sequence[int] = BROKERS,
        *,
        is_secured: bool = IS_SECURED,
    ) -> None:
        self.home = home
        self._is_secured = is_secured
        self.members = list(BROKERS)
        self.network = network
        home.mkdir(parents=True, exist_ok=True)
        is_shared_host = network.host(BROKERS[0]) == network.host(BROKERS[1])
        self._ports = {broker: free_port() if is_shared_host else PORT for broker in brokers}
        self._broker_ports = {broker: free_port() if is_shared_host else PORT + 1 for broker in brokers}
        self.environments: dict[int, dict[str, str]] = {}
        self.more_log_dirs: dict[int, list[Path]] = {}
        self._processes: dict[int, ServerProcess] = {}
        self._paused: set[int] = set()
        self._cut_links: set[int] = set()
        self._zookeeper_is_paused = False
        self._zookeeper = self._start_zookeeper()
        self.links = ZooKeeperLinks(network.zookeeper_host, self._zookeeper.port, brokers)
        self.znodes = Znodes(self._zookeeper.connect_string)
        if is_secured:
            allow_clients(self._zookeeper.connect_string)

    def _start_zookeeper(self, port: int = 0) -> LocalZooKeeper:
        return LocalZooKeeper(
            self.home / "zookeeper", os.environ, port=port, tick_ms=TICK_MS, is_durable=False
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, BROKERS))

    @property
    def running(self) -> list[int]:
        """Brokers that run and are not paused."""
        return [broker for broker in self._processes if broker not in self._paused]

    @property
    def started(self) -> list[int]:
        """Brokers that have been started at least once."""
        return [broker for broker in self._ports if self.output(broker).exists()]

    def address(self, broker: int) -> str:
        return f"{self.network.host(broker)}:{self._ports[broker]}"

    def broker_port(self, broker: int) -> int:
        """Return the port of a secured broker's listener for brokers."""
        return self._broker_ports[broker]

    def log_dirs(self, broker: int) -> list[Path]:
        return [self.home / f"broker-{broker}", *self.more_log_dirs.get(broker, ())]

    def replica_dir(self, broker: int, topic: str, partition: int) -> Path:
        """Return where a replica is, or would be, if the broker has none."""
        directories = [log_dir / f"{topic}-{partition}" for log_dir in self.log_dirs(broker)]
        return next((directory for directory in directories if directory.exists()), directories[0])

    def output(self, broker: int) -> Path:
        """Return the file that all processes of a broker write their events to."""
        return self.home / f"broker-{broker}.out"

    # Processes.

    def start(self, *brokers: int) -> None:
        """Start brokers, again and again while the registrations of their former processes exist."""
        waiting = dict.fromkeys(brokers, 0)
        for broker in brokers:
            self._launch(broker)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while waiting:
            for broker in list(waiting):
                if self._is_serving(broker):
                    del waiting[broker]
                    continue
                try:
                    self._processes[broker].must_live()
                except BrokerFailed:
                    waiting[broker] += 1
                    if waiting[broker] > START_ATTEMPTS_MAX or time.monotonic() > deadline:
                        raise
                    self._launch(broker)
            if time.monotonic() > deadline:
                outputs = [self._processes[broker].last_output() for broker in waiting]
                raise TimeoutError(
                    f"brokers {list(waiting)} must start within {WAIT_SECONDS_MAX} s: {outputs}"
                )
            time.sleep(POLL_SECONDS)

    def _is_serving(self, broker: int) -> bool:
        return self.znodes.broker_epoch(broker) is not None and broker_answers(self.address(broker))

    def _zookeeper_connect(self, broker: int) -> str:
        return f"{self.network.zookeeper_host}:{self.links.ports[broker]}"

    def _environment(self, broker: int) -> dict[str, str]:
        """Return variables that the process of a broker has besides ours."""
        return self.environments.get(broker, {})

    def _settings(self, broker: int) -> dict[str, str]:
        return {
            **SETTINGS,
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://{self.address(broker)}",
            "log.dirs": ",".join(map(str, self.log_dirs(broker))),
            "zookeeper.connect": self._zookeeper_connect(broker),
            **(self._secured_settings(broker) if self._is_secured else {}),
        }

    def _secured_settings(self, broker: int) -> dict[str, str]:
        host = self.network.host(broker)
        return secured_settings(
            self.home,
            map(self.network.host, self._ports),
            self.address(broker),
            f"{host}:{self._broker_ports[broker]}",
        )

    def _launch(self, broker: int) -> None:
        path = self.home / f"broker-{broker}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self._settings(broker).items()))
        odradek = Path(sys.executable).with_name("odradek")
        command = self.network.command(broker, [str(odradek), "serve", "--config", str(path)])
        self._processes[broker] = ServerProcess(command, self.output(broker), None, self._environment(broker))

    def start_refused(self, broker: int) -> str:
        """Start a broker that must end at once by itself; return what it wrote."""
        size_before = self.output(broker).stat().st_size
        self._launch(broker)
        status = self.wait_for_exit(broker)
        assert status > 0, f"broker {broker} must end with an error, got {status}"
        return self.output(broker).read_bytes()[size_before:].decode(errors="replace")

    def wait_for_exit(self, broker: int) -> int:
        """Wait until a broker ends by itself; return its exit status, negative for a signal."""
        process = self._processes.pop(broker)
        try:
            process.wait(WAIT_SECONDS_MAX)
        finally:
            process.kill()
        status = process.exit_status()
        assert status is not None
        return status

    def pid(self, broker: int) -> int:
        return self._processes[broker].pid

    def stop(self, broker: int) -> float:
        """Shut a broker down as an operator does; return the seconds."""
        return self._processes.pop(broker).stop()

    def kill(self, *brokers: int) -> None:
        """Kill brokers with SIGKILL, all before the first is waited for."""
        processes = [self._processes.pop(broker) for broker in brokers]
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        for process in processes:
            process.kill()

    def pause(self, broker: int) -> None:
        os.kill(self._processes[broker].pid, signal.SIGSTOP)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        os.kill(self._processes[broker].pid, signal.SIGCONT)
        self._paused.discard(broker)

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        self.pause(broker)
        try:
            yield
        finally:
            self.resume(broker)

    @contextmanager
    def session_expired(self, broker: int) -> Iterator[None]:
        """Pause a broker until ZooKeeper has removed its registration; resume it at the end."""
        with self.paused(broker):
            self.wait_until(lambda: self.znodes.broker_epoch(broker) is None, "the session must expire")
            yield

    def expire_session(self, broker: int) -> None:
        """End the session of a broker behind its back; the broker itself goes on."""
        session = self.links.sessions[broker]
        with self.cut_from_zookeeper(broker):
            options = options_for([self._zookeeper.port], "", SESSION_TIMEOUT_MS)
            asyncio.run(ZooKeeperEnsemble(options).expire((session.session_id, session.password)))
            self.wait_until(lambda: self.znodes.broker_epoch(broker) is None, "the session must end")

    @contextmanager
    def cut_from_zookeeper(self, broker: int) -> Iterator[None]:
        """Drop all bytes between a broker and ZooKeeper for a while."""
        self.links.cut(broker)
        self._cut_links.add(broker)
        try:
            yield
        finally:
            self.links.restore(broker)
            self._cut_links.discard(broker)

    @contextmanager
    def cut(self, *directions: tuple[Side, Side]) -> Iterator[None]:
        """Drop packets from senders to receivers for a while."""
        try:
            for sender, receiver in directions:
                self.network.cut(sender, receiver)
            yield
        finally:
            self.network.heal()

    @contextmanager
    def lossy(self, probability: float, *directions: tuple[Side, Side]) -> Iterator[None]:
        """Drop some of the packets from senders to receivers for a while."""
        try:
            for sender, receiver in directions:
                self.network.lose(sender, receiver, probability)
            yield
        finally:
            self.network.heal()

    @contextmanager
    def slow_links(self, kilobits_per_second: int, *brokers: int) -> Iterator[None]:
        """Pass on slowly what is sent to brokers, for a while."""
        try:
            for broker in brokers:
                self.network.slow(broker, kilobits_per_second)
            yield
        finally:
            self.network.heal()

    # ZooKeeper.

    @contextmanager
    def zookeeper_paused(self) -> Iterator[None]:
        os.kill(self._zookeeper.process_id, signal.SIGSTOP)
        self._zookeeper_is_paused = True
        try:
            yield
        finally:
            os.kill(self._zookeeper.process_id, signal.SIGCONT)
            self._zookeeper_is_paused = False

    @contextmanager
    def zookeeper_killed(self) -> Iterator[None]:
        """Kill ZooKeeper; start it again with its data at the end."""
        port = self._zookeeper.port
        os.kill(self._zookeeper.process_id, signal.SIGKILL)
        self._zookeeper.stop()
        try:
            yield
        finally:
            self._zookeeper = self._start_zookeeper(port)

    @contextmanager
    def zookeeper_slow(self, seconds: float) -> Iterator[None]:
        self.links.delay(seconds)
        try:
            yield
        finally:
            self.links.delay(0)

    # Ends.

    def restore(self) -> None:
        """Start what is down, and wait until all replicas are in sync."""
        self.network.heal()
        for broker in list(self._paused):
            self.resume(broker)
        for broker in list(self._cut_links):
            self.links.restore(broker)
        missing = [broker for broker in self.members if broker not in self._processes]
        if missing:
            self.start(*missing)
        self.wait_until_in_sync()

    def close(self) -> None:
        for broker in list(self._paused):
            self.resume(broker)
        for process in self._processes.values():
            process.kill()
        self.znodes.close()
        self.links.close()
        self._zookeeper.stop()
        self.network.close()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``odradek`` on this cluster, with the cluster's directory as its own."""
        odradek = Path(sys.executable).with_name("odradek")
        return subprocess.run(
            [str(odradek), *arguments, "--bootstrap-server", self.bootstrap],
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS_MAX,
            check=False,
        )

    # State.

    def controller(self) -> int:
        """Return the controller, once all registered brokers know it."""

        def is_known() -> bool:
            controller = self.znodes.controller()
            registered = [broker for broker in self.running if self.znodes.broker_epoch(broker)]
            return controller != NO_BROKER and all(
                read_metadata(self.address(broker)).controller == controller for broker in registered
            )

        self.wait_until(is_known, "a controller must be elected")
        return self.znodes.controller()

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self.znodes.partition_state(topic, partition).get("leader", NO_BROKER))

    def replicas(self, topic: str, partition: int) -> list[int]:
        """Return the assigned replicas; those that a reassignment adds or removes are among them."""
        return list(self.znodes.topic(topic)["partitions"][str(partition)])

    def followers(self, topic: str, partition: int = 0) -> list[int]:
        leader = self.leader(topic, partition)
        return [broker for broker in BROKERS if broker != leader]

    def wait_for_leader_other_than(self, broker: int, topic: str, partition: int = 0) -> None:
        self.wait_until(
            lambda: self.leader(topic, partition) not in (broker, NO_BROKER), f"{topic} needs a new leader"
        )

    def wait_until_in_sync(self, topics: Sequence[str] | None = None) -> None:
        """Wait until all brokers are registered and all replicas of topics, or of all topics, are in sync."""

        def is_in_sync(topic: str) -> bool:
            assignment = self.znodes.topic(topic).get("partitions", {})
            return all(
                set(self.znodes.partition_state(topic, int(partition)).get("isr", ())) == set(replicas)
                and self.leader(topic, int(partition)) != NO_BROKER
                for partition, replicas in assignment.items()
            )

        def out_of_sync() -> list[str]:
            chosen = self.znodes.children(TOPICS) if topics is None else topics
            return [topic for topic in chosen if not is_in_sync(topic)]

        self.wait_until(
            lambda: all(self.znodes.broker_epoch(broker) for broker in self.members) and not out_of_sync(),
            "all replicas must be in sync",
        )

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition on running brokers; ZooKeeper may be away meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not self._holds(condition):
            for process in self._processes.values():
                process.must_live()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {WAIT_SECONDS_MAX} s; {self.describe()}")
            time.sleep(POLL_SECONDS)

    @staticmethod
    def _holds(condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except KazooException:
            return False

    def describe(self) -> str:
        """Return the state of brokers and partitions, for a failure."""
        states = {
            topic: [
                self.znodes.partition_state(topic, int(partition))
                for partition in self.znodes.topic(topic).get("partitions", {})
            ]
            for topic in self.znodes.children(TOPICS)
        }
        registered = [broker for broker in self._ports if self.znodes.broker_epoch(broker)]
        brokers = f"running {self.running}, registered {registered}, controller {self.znodes.controller()}"
        return f"{brokers}, {states}"
