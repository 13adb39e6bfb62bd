"""Failures of log directories of a running broker, and replicas that are online again later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.ids import TopicPartition
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events

ReplicasChanged = Callable[[Sequence[TopicPartition]], None]

log = events.logger("broker")


class LogDirFailureHandler:
    """Takes the replicas of a failed directory offline. ``on_all_failed`` is called after the last one."""

    def __init__(
        self,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        on_offline: ReplicasChanged,
        on_online: ReplicasChanged,
        on_all_failed: Callable[[], None],
    ) -> None:
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._on_offline = on_offline
        self._on_online = on_online
        self._on_all_failed = on_all_failed

    def start(self) -> None:
        self._log_manager.on_failure = self._on_failure

    async def retry_offline_partitions(self) -> None:
        """Retry new partitions that no directory had space for."""
        partitions = await self._replica_manager.retry_offline_partitions()
        if partitions:
            self._on_online(partitions)

    def _on_failure(self, directory: LogDirectory) -> None:
        """Handle the failure in a later loop iteration: the caller is in the middle of an operation."""
        asyncio.get_running_loop().call_soon(self._handle, directory)

    def _handle(self, directory: LogDirectory) -> None:
        partitions = self._replica_manager.handle_log_dir_failure(directory)
        directory.abandon()
        log.error(
            "directory_failed",
            path=directory.path,
            reason=str(directory.failure),
            partitions=len(partitions),
            serving=len(self._log_manager),
        )
        if not self._log_manager:
            self._on_all_failed()
        else:
            self._on_offline(partitions)
