"""Settings and command line of a broker, of either kind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

SESSION_TIMEOUT_MS = 6_000
"""Longer than pauses of processes that must not cost a broker its session."""
LONG_SESSION_TIMEOUT_MS = 40_000
"""The longest that ZooKeeper grants, for a broker that is paused while another starts."""
REPLICA_LAG_MS = 10_000
"""Longer than the session timeout: dead brokers leave the ISR by the controller, not by their lag."""
LATEST_IBP = "3.9"
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx256m")
SHARED_SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": str(REPLICA_LAG_MS),
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


class Kind(Enum):
    KAFKA = "kafka"
    ODRADEK = "odradek"


@dataclass
class BrokerSpec:
    """Settings of a broker, read at its next start; a test may change them before."""

    broker_id: int
    kind: Kind
    port: int
    log_dirs: list[Path]
    ibp: str = LATEST_IBP
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def properties(self, zookeeper: str) -> str:
        """Return the text of ``server.properties``."""
        settings = {
            **SHARED_SETTINGS,
            "broker.id": str(self.broker_id),
            "zookeeper.connect": zookeeper,
            "inter.broker.protocol.version": self.ibp,
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            **self.settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def command(self, properties: Path, classpath: str, java_options: Sequence[str]) -> list[str]:
        if self.kind is Kind.ODRADEK:
            odradek = Path(sys.executable).with_name("odradek")
            return [str(odradek), "serve", "--config", str(properties)]
        return [*JAVA, *java_options, "-cp", classpath, "kafka.Kafka", str(properties)]
