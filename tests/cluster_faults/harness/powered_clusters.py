"""Clusters whose brokers lose power: each has its log directory on a file system of its own.

On loopback: a network namespace has mounts of its own, which would keep a file system that is unmounted here.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.networks import Loopback
from tests.cluster_faults.harness.power_loss import LosingDisk

FLUSH_EVERY_RECORD = {"log.flush.interval.messages": "1"}


class LosingCluster(FaultCluster):
    """Brokers with Kafka's defaults: records are not synced before they are acknowledged."""

    more_settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, home: Path) -> None:
        super().__init__(home, Loopback())
        self._disks = {broker: LosingDisk(home / f"broker-{broker}-disk") for broker in BROKERS}

    def log_dirs(self, broker: int) -> list[Path]:
        return [self._disks[broker].directory]

    def _settings(self, broker: int) -> dict[str, str]:
        return {**super()._settings(broker), **self.more_settings}

    def lose_power(self, *brokers: int) -> int:
        """Let brokers lose power at one moment; return how many bytes of their logs are gone.

        They stand still first: nothing is acknowledged between the loss of the disk and that of the process.
        The disks are mounted again at the end.
        """
        for broker in brokers:
            os.kill(self._processes[broker].pid, signal.SIGSTOP)
        before = self._log_bytes(brokers)
        for broker in brokers:
            self._disks[broker].drop_unsynced()
        self.kill(*brokers)
        for broker in brokers:
            self._disks[broker].remount()
        return before - self._log_bytes(brokers)

    def _log_bytes(self, brokers: Sequence[int]) -> int:
        """Return the size of all segments; a deleted one is gone before and after."""
        directories = [self._disks[broker].directory for broker in brokers]
        return sum(path.stat().st_size for each in directories for path in each.glob("*/*.log"))

    def close(self) -> None:
        super().close()
        for disk in self._disks.values():
            with suppress(subprocess.CalledProcessError, TimeoutError):
                disk.close()


class FlushingCluster(LosingCluster):
    """Brokers that sync each record before they acknowledge it."""

    more_settings = FLUSH_EVERY_RECORD
