"""A cluster on loopback with a Kafka-aware proxy in front of each broker.

Brokers listen on ports that nobody is told. They advertise those of the proxy, so that requests of clients
and of other brokers pass it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.kafka_proxy import KafkaProxy
from tests.cluster_faults.harness.networks import Loopback

LAG_MS_MAX = 1_500
"""Shorter than in other clusters: changes of the ISR are what some faults wait for."""


class ProxiedCluster(FaultCluster):
    def __init__(self, home: Path, brokers: Sequence[int] = BROKERS) -> None:
        super().__init__(home, Loopback(), brokers)
        self.proxy = KafkaProxy(self._ports)

    def address(self, broker: int) -> str:
        """Return the address that the broker advertises."""
        return f"{self.network.host(broker)}:{self.proxy.ports[broker]}"

    def _settings(self, broker: int) -> dict[str, str]:
        return {
            **super()._settings(broker),
            "listeners": f"PLAINTEXT://{self.network.host(broker)}:{self._ports[broker]}",
            "advertised.listeners": f"PLAINTEXT://{self.address(broker)}",
            "replica.lag.time.max.ms": str(LAG_MS_MAX),
        }

    def restore(self) -> None:
        self.proxy.clear()
        super().restore()

    def close(self) -> None:
        super().close()
        self.proxy.close()
