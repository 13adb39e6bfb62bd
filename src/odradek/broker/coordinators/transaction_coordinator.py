"""Transaction coordinator of this broker, and lookup of the coordinators of other transactional ids.

A transactional id belongs to one partition of ``__transaction_state``; the leader of that partition is its
coordinator. A runtime hosts one shard per partition led here; markers go through a
``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.coordinators.coordinator_topic import CoordinatorTopic
from odradek.broker.coordinators.marker_channels import TransactionMarkerChannelManager
from odradek.broker.coordinators.transaction_marker_writer import TxnMarkerEntry
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import AdminManager
from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache
from odradek.config import broker as settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.coordinators.coordinator_context import CoordinatorEnvironment, CoordinatorRuntimeSettings
from odradek.coordinators.runtime import CoordinatorRuntime
from odradek.coordinators.transactions.commands import Command, MarkersWritten, WriteMarkers
from odradek.coordinators.transactions.settings import TransactionSettings
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.coordinators.transactions.shard import TransactionCoordinatorShard

LOAD_WAIT_MS: Final = 10_000
"""Time to wait for transactional ids to load, where all must be known."""

log = events.logger("transaction_coordinator")


class TransactionCoordinator:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        metadata_cache: MetadataCache,
        admin_manager: AdminManager,
        replica_manager: ReplicaManager,
        clock: Clock,
        timer_driver: TimerDriver,
        marker_channels: TransactionMarkerChannelManager,
    ) -> None:
        self._config = config
        self._replica_manager = replica_manager
        self._topic = CoordinatorTopic(
            TRANSACTIONS_TOPIC,
            metadata_cache,
            admin_manager,
            lambda: config.broker[settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        )
        self._marker_channels = marker_channels
        self._values = config.broker
        self._settings = TransactionSettings.of(self._values)
        environment = CoordinatorEnvironment(
            replica_manager,
            clock,
            timer_driver.wheel,
            timer_driver.arm,
            self._runtime_settings,
            self._write_markers,
        )
        # Markers are written under the epoch of the leadership: in a new one, all that are missing are
        # written again. Another broker may have led in between, and written some under a higher epoch.
        self._runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            self._make_shard, environment, reloads_in_new_epoch=True
        )
        replica_manager.leadership_observers.append(self._on_leadership_change)
        replica_manager.state_changes.metadata_observers.append(self._topic.on_metadata_change)
        replica_manager.state_changes.metadata_observers.append(marker_channels.on_metadata_change)

    def start(self) -> None:
        self._runtime.start()

    async def stop(self) -> None:
        """Unload all transactional ids; waiting requests are completed. Prepared transactions are completed
        after the next start."""
        await self._topic.stop()
        await self._marker_channels.stop()
        await self._runtime.stop()

    # One transactional id of this broker. Each raises COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS
    # or NOT_COORDINATOR.

    def submit(self, transactional_id: str, command: Command, reply: Callable[[Any], None]) -> None:
        """Submit a command; ``reply`` gets the result once, now or later."""
        self._runtime.submit(self._topic.partition_of(transactional_id), command, reply)

    def _make_shard(self, number: int) -> TransactionCoordinatorShard:
        # Imported when the first partition is led: most starts do not need it.
        from odradek.coordinators.transactions.shard import TransactionCoordinatorShard

        return TransactionCoordinatorShard(self._transaction_settings)

    def shard_of(self, transactional_id: str) -> TransactionCoordinatorShard:
        """Return the shard that holds a transactional id."""
        return self._runtime.shard(self._topic.partition_of(transactional_id))

    # All transactional ids of this broker.

    def shards(self) -> list[TransactionCoordinatorShard]:
        """Return the loaded shards; others may still be loading."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    async def largest_producer_id(self) -> int:
        """Return the largest producer id of any transactional id here; -1 if there is none.

        Raises COORDINATOR_LOAD_IN_PROGRESS if some are not loaded in time.
        """
        if not await self._runtime.wait_until_loaded(LOAD_WAIT_MS):
            raise BrokerError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTIONS_TOPIC} is still being loaded"
            )
        stored = (entry.stored for shard in self.shards() for entry in shard.ids.values())
        return max((metadata.producer_id for metadata in stored if metadata is not None), default=-1)

    # Any transactional id.

    def coordinator_id(self, transactional_id: str) -> int | None:
        """Return the id of the live broker that coordinates a transactional id; None if there is none now."""
        broker = self._topic.leader_of(transactional_id)
        return None if broker is None else broker.id

    def coordinator_of(self, transactional_id: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """Return the coordinator of a transactional id and its endpoint for ``listener``.

        Raises COORDINATOR_NOT_AVAILABLE while there is none; a missing topic is created in the background.
        """
        return self._topic.coordinator_of(transactional_id, listener)

    # Markers requested by the shards.

    def _write_markers(self, number: int, task: WriteMarkers) -> None:
        partition = self._replica_manager.get_partition(TRANSACTIONS_TOPIC, number)
        if partition is None:
            return  # just removed; its shard will be, too
        marker_entry = TxnMarkerEntry(
            task.producer_id, task.producer_epoch, partition.leader_epoch, task.commits
        )

        def on_done(partitions: tuple[TopicPartition, ...]) -> None:
            self._markers_written(number, MarkersWritten(task, partitions))

        self._marker_channels.add_markers(number, marker_entry, task.partitions, on_done)

    def _markers_written(self, number: int, result: MarkersWritten) -> None:
        try:
            self._runtime.submit(number, result, _ignore_result)
        except BrokerError as error:
            log.info("marker_result_rejected", partition=number, reason=error.code.name)

    # Callbacks of the runtime and its shards.

    def _on_leadership_change(self, partition: Partition) -> None:
        topic, number = partition.topic_partition
        if topic != TRANSACTIONS_TOPIC:
            return
        self._marker_channels.cancel(number)
        if partition.is_leader:
            self._runtime.load(partition)
        else:
            self._runtime.unload(number)

    def _runtime_settings(self) -> CoordinatorRuntimeSettings:
        values = self._config.broker
        return CoordinatorRuntimeSettings(
            values[settings.REQUEST_TIMEOUT_MS], values[settings.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE]
        )

    def _transaction_settings(self) -> TransactionSettings:
        if self._values is not self._config.broker:
            self._values = self._config.broker
            self._settings = TransactionSettings.of(self._values)
        return self._settings


def _ignore_result(code: ErrorCode) -> None:
    """Ignore the result: the shard goes on by itself, or has dropped the task."""
