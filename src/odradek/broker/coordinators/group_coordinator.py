"""Group coordinator of this broker, and lookup of the coordinators of other groups.

A group belongs to one partition of ``__consumer_offsets``; the leader of that partition is its coordinator.
A runtime hosts one shard per partition led here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from odradek.broker.coordinators.coordinator_topic import CoordinatorTopic
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import AdminManager
from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache
from odradek.config import broker as settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.coordinators.coordinator_context import CoordinatorEnvironment, CoordinatorRuntimeSettings
from odradek.coordinators.groups.commands import Command, PartitionsDeleted
from odradek.coordinators.groups.settings import GroupSettings
from odradek.coordinators.runtime import CoordinatorRuntime
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from odradek.coordinators.groups.shard import GroupCoordinatorShard


class GroupCoordinator:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        metadata_cache: MetadataCache,
        admin_manager: AdminManager,
        replica_manager: ReplicaManager,
        clock: Clock,
        timer_driver: TimerDriver,
        entropy: Entropy,
    ) -> None:
        self._config = config
        self._entropy = entropy
        self._topic = CoordinatorTopic(
            OFFSETS_TOPIC,
            metadata_cache,
            admin_manager,
            lambda: config.broker[settings.OFFSETS_TOPIC_NUM_PARTITIONS],
        )
        self._compression = Compression(config.broker[settings.OFFSETS_TOPIC_COMPRESSION_CODEC])
        self._values = config.broker
        self._settings = GroupSettings.of(self._values)
        environment = CoordinatorEnvironment(
            replica_manager, clock, timer_driver.wheel, timer_driver.arm, self._runtime_settings
        )
        self._runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            self._make_shard, environment
        )
        replica_manager.leadership_observers.append(self._on_leadership_change)
        replica_manager.state_changes.metadata_observers.append(self._topic.on_metadata_change)

    def start(self) -> None:
        self._runtime.start()

    async def stop(self) -> None:
        """Unload all groups; waiting requests are completed."""
        await self._topic.stop()
        await self._runtime.stop()

    # One group of this broker. Each raises COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or
    # NOT_COORDINATOR.

    def submit(self, group: str, command: Command, reply: Callable[[Any], None]) -> None:
        """Submit a command to a group; ``reply`` gets the result once, now or later."""
        self._runtime.submit(self.partition_of(group), command, reply)

    def _make_shard(self, number: int) -> GroupCoordinatorShard:
        # Imported when the first partition is led: most starts do not need it.
        from odradek.coordinators.groups.shard import GroupCoordinatorShard

        return GroupCoordinatorShard(self._group_settings, self._new_member_id)

    def shard_of(self, group: str) -> GroupCoordinatorShard:
        """Return the shard that holds a group."""
        return self._runtime.shard(self.partition_of(group))

    # All groups of this broker.

    def shards(self) -> list[GroupCoordinatorShard]:
        """Return the loaded shards; others may still be loading."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    def delete_offsets(self, partitions: Sequence[TopicPartition]) -> None:
        """Delete the committed offsets of deleted partitions."""
        if partitions:
            self._runtime.submit_to_all(PartitionsDeleted(tuple(partitions)))

    def transaction_ended(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None:
        """Handle a transaction marker appended to an offsets partition at ``offset``."""
        self._runtime.transaction_ended(number, producer_id, commits=commits, offset=offset)

    # Any group.

    def partition_of(self, group: str) -> int:
        """Return the offsets partition that a group belongs to."""
        return self._topic.partition_of(group)

    def coordinator_of(self, group: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """Return the coordinator of a group and its endpoint for ``listener``.

        Raises COORDINATOR_NOT_AVAILABLE while there is none; a missing topic is created in the background.
        """
        return self._topic.coordinator_of(group, listener)

    # Callbacks of the runtime and its shards.

    def _on_leadership_change(self, partition: Partition) -> None:
        if partition.topic_partition.topic != OFFSETS_TOPIC:
            return
        if partition.is_leader:
            self._runtime.load(partition)
        else:
            self._runtime.unload(partition.topic_partition.partition)

    def _runtime_settings(self) -> CoordinatorRuntimeSettings:
        values = self._config.broker
        return CoordinatorRuntimeSettings(
            values[settings.OFFSETS_COMMIT_TIMEOUT_MS],
            values[settings.OFFSETS_LOAD_BUFFER_SIZE],
            self._compression,
        )

    def _group_settings(self) -> GroupSettings:
        if self._values is not self._config.broker:
            self._values = self._config.broker
            self._settings = GroupSettings.of(self._values)
        return self._settings

    def _new_member_id(self) -> str:
        return str(UUID(bytes=self._entropy.uuid()))
