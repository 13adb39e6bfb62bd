"""Apache Kafka brokers on ZooKeeper, with a recorder between them.

Clients use the listener CLIENT. Brokers reach each other through INTERNAL, whose advertised port is a proxy
of the recorder.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bench.paths import free_port
from bench.peers.server_process import ServerProcess
from tests.support.interbroker.recorder import Recorder
from tests.support.interbroker.zookeeper_log import Tree, Write, read_writes

BROKERS = (0, 1, 2)
SESSION_TIMEOUT_MS = 12_000
REPLICA_LAG_MS = 4_000
"""Shorter than a session, so that a stopped follower leaves the ISR before its session expires."""
WAIT_SECONDS_MAX = 90.0
QUIET_SECONDS = 2.0
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m")
ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class KafkaCluster:
    """ZooKeeper, three brokers and the recorder. Brokers start one by one."""

    def __init__(self, jars: Path, home: Path, ibp: str) -> None:
        self._jars = jars
        self._home = home
        self._ibp = ibp
        self._zookeeper_port = free_port()
        self._ports = {broker: (free_port(), free_port()) for broker in BROKERS}
        self._client_ports = {broker: free_port() for broker in BROKERS}
        self._processes: dict[int, ServerProcess] = {}
        self.recorder = Recorder(self._ports)
        self._zookeeper = self._start_zookeeper()
        self.recorder.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._client_ports.values())

    def client_port(self, broker: int) -> int:
        return self._client_ports[broker]

    def log_dirs(self, broker: int) -> tuple[Path, Path]:
        return self._home / f"broker-{broker}-a", self._home / f"broker-{broker}-b"

    # Processes

    def start_broker(self, broker: int, *, wait: bool = True) -> None:
        path = self._home / f"broker-{broker}.properties"
        path.write_text("\n".join(self._settings(broker)) + "\n")
        command = [*JAVA, "-Xmx256m", "-cp", f"{self._jars}/*", "kafka.Kafka", str(path)]
        self._processes[broker] = ServerProcess(command, self._home / f"broker-{broker}.out", None)
        if wait:
            self.wait_until(lambda: f"/brokers/ids/{broker}" in self.tree().nodes)

    def stop_broker(self, broker: int) -> None:
        """Shut the broker down as an operator does."""
        self._processes.pop(broker).stop()

    def kill_broker(self, broker: int) -> None:
        self._processes.pop(broker).kill()

    def pause_broker(self, broker: int) -> None:
        os.kill(self._processes[broker].pid, signal.SIGSTOP)

    def resume_broker(self, broker: int) -> None:
        os.kill(self._processes[broker].pid, signal.SIGCONT)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._zookeeper.kill()
        self.recorder.stop()

    # Znodes

    def writes(self) -> list[Write]:
        return read_writes(self._home / "zookeeper")[0]

    def tree(self) -> Tree:
        return read_writes(self._home / "zookeeper")[1]

    # Waiting

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            for process in self._processes.values():
                process.must_live()
            if time.monotonic() > deadline:
                raise TimeoutError(f"condition must hold within {WAIT_SECONDS_MAX} s")
            time.sleep(0.2)

    def settle(self) -> None:
        """Wait until brokers send each other nothing but fetches."""
        time.sleep(QUIET_SECONDS / 2)
        self.wait_until(lambda: self.recorder.quiet_s > QUIET_SECONDS)

    # Configuration

    def _start_zookeeper(self) -> ServerProcess:
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._home / "zoo.cfg"
        lines = [
            f"dataDir={self._home / 'zookeeper'}",
            f"clientPort={self._zookeeper_port}",
            "clientPortAddress=127.0.0.1",
            "tickTime=2000",
            "admin.enableServer=false",
            "4lw.commands.whitelist=",
        ]
        path.write_text("\n".join(lines) + "\n")
        options = ["-Xmx128m", "-Dzookeeper.preAllocSize=512", "-Dzookeeper.forceSync=no"]
        command = [*JAVA, *options, "-cp", f"{self._jars}/*", ZOOKEEPER, str(path)]
        return ServerProcess(command, self._home / "zookeeper.out", None)

    def _settings(self, broker: int) -> list[str]:
        advertised, actual = self._ports[broker]
        client = f"CLIENT://127.0.0.1:{self._client_ports[broker]}"
        return [
            f"broker.id={broker}",
            f"zookeeper.connect=127.0.0.1:{self._zookeeper_port}",
            f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
            f"inter.broker.protocol.version={self._ibp}",
            f"listeners=INTERNAL://127.0.0.1:{actual},{client}",
            f"advertised.listeners=INTERNAL://127.0.0.1:{advertised},{client}",
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",
            "inter.broker.listener.name=INTERNAL",
            f"log.dirs={','.join(map(str, self.log_dirs(broker)))}",
            f"replica.lag.time.max.ms={REPLICA_LAG_MS}",
            "auto.create.topics.enable=false",
            "auto.leader.rebalance.enable=false",
            "offsets.topic.num.partitions=3",
            "offsets.topic.replication.factor=3",
            "transaction.state.log.num.partitions=3",
            "transaction.state.log.replication.factor=3",
            "transaction.state.log.min.isr=2",
            "num.network.threads=2",
            "num.io.threads=4",
            "log.cleaner.dedupe.buffer.size=4194304",
            # With racks in some recordings and without in others, messages of both kinds are recorded.
            *([f"broker.rack=rack-{broker}"] if self._ibp == "3.9" else []),
        ]
