"""Clusters whose brokers have two log directories, may be joined by others, and may run another version."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.cluster_faults.harness.fault_cluster import TICK_MS, FaultCluster
from tests.cluster_faults.harness.networks import Loopback
from tests.mixed.harness.znodes import Znodes

from odradek.system.local_zookeeper import LocalZooKeeper, free_port, is_serving

BROKERS_MAX = 6
SERVERS = (1, 2, 3)


class OperatedCluster(FaultCluster):
    """``sources`` are the folders whose code brokers run at their next start, if it is not ours."""

    def __init__(self, home: Path) -> None:
        self.sources: dict[int, Path] = {}
        super().__init__(home, Loopback(), range(1, BROKERS_MAX + 1))

    def log_dirs(self, broker: int) -> list[Path]:
        return [self.home / f"broker-{broker}-{disk}" for disk in ("a", "b")]

    def _environment(self, broker: int) -> dict[str, str]:
        source = self.sources.get(broker)
        return {} if source is None else {"PYTHONPATH": str(source)}

    def runs(self, broker: int, source: Path) -> bool:
        """Return whether a broker has loaded the compiled codec of this folder."""
        maps = Path(f"/proc/{self._processes[broker].pid}/maps").read_text()
        return f" {source.resolve()}/" in maps

    def remove_disks(self, broker: int, disks: Sequence[Path]) -> None:
        """Remove log directories of a broker that does not run."""
        assert broker not in self._processes
        for disk in disks:
            shutil.rmtree(disk)


class EnsembleCluster(OperatedCluster):
    """Three brokers on an ensemble of three ZooKeeper servers."""

    def __init__(self, home: Path) -> None:
        self._client_ports = {server: free_port() for server in SERVERS}
        self._peers = {f"server.{server}": f"127.0.0.1:{free_port()}:{free_port()}" for server in SERVERS}
        self._servers: dict[int, LocalZooKeeper] = {}
        super().__init__(home)
        self.znodes.close()
        self.znodes = Znodes(self._ensemble)

    @property
    def _ensemble(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._client_ports.values())

    def _zookeeper_connect(self, broker: int) -> str:
        return self._ensemble

    def _start_zookeeper(self, port: int = 0) -> LocalZooKeeper:
        self.start_servers(*SERVERS)
        return self._servers[SERVERS[0]]

    def start_servers(self, *servers: int) -> None:
        """Start servers together: none serves before they are a majority."""
        with ThreadPoolExecutor(len(servers)) as pool:
            self._servers.update(zip(servers, pool.map(self._start_server, servers), strict=True))

    def _start_server(self, server: int) -> LocalZooKeeper:
        directory = self.home / f"zookeeper-{server}"
        (directory / "data").mkdir(parents=True, exist_ok=True)
        (directory / "data" / "myid").write_text(f"{server}\n")
        return LocalZooKeeper(
            directory,
            os.environ,
            port=self._client_ports[server],
            tick_ms=TICK_MS,
            is_durable=False,
            properties={"initLimit": "20", "syncLimit": "10", **self._peers},
        )

    @property
    def has_quorum(self) -> bool:
        """Return whether a server serves requests: alone it does not."""
        return any(
            is_serving(server.port, server.directory.resolve() / "data") for server in self._servers.values()
        )

    @contextmanager
    def servers_killed(self, *servers: int) -> Iterator[None]:
        """Kill servers of the ensemble; start them again with their data at the end."""
        for server in servers:
            os.kill(self._servers[server].process_id, signal.SIGKILL)
            self._servers.pop(server).stop()
        try:
            yield
        finally:
            self.start_servers(*servers)

    def close(self) -> None:
        super().close()
        for server in self._servers.values():
            server.stop()
