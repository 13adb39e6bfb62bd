"""The groups that this broker coordinates, and who coordinates the others.

A group belongs to one partition of ``__consumer_offsets``; whoever leads that partition is its coordinator.
This puts the parts together: the topic, the runtime on the partitions that are led here, a shard for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from odradek.broker.coordinators.coordinator_topic import CoordinatedTopic
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import Topics
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


class Groups:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        image: MetadataCache,
        topics: Topics,
        replicas: ReplicaManager,
        clock: Clock,
        timer_driver: TimerDriver,
        entropy: Entropy,
    ) -> None:
        self._config = config
        self._entropy = entropy
        self._topic = CoordinatedTopic(
            OFFSETS_TOPIC, image, topics, lambda: config.broker[settings.OFFSETS_TOPIC_NUM_PARTITIONS]
        )
        self._compression = Compression(config.broker[settings.OFFSETS_TOPIC_COMPRESSION_CODEC])
        self._values = config.broker
        self._settings = GroupSettings.of(self._values)
        around = CoordinatorEnvironment(
            replicas, clock, timer_driver.wheel, timer_driver.arm, self._runtime_settings
        )
        self._runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            self._make_shard, around
        )
        replicas.leadership_observers.append(self._role_changed)

    def start(self) -> None:
        self._runtime.start()

    async def stop(self) -> None:
        """Let go of all groups: whoever waits for one is answered."""
        await self._topic.stop()
        await self._runtime.stop()

    # Groups of this broker. Each refuses with COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or
    # NOT_COORDINATOR.

    def submit(self, group: str, command: Command, reply: Callable[[Any], None]) -> None:
        """Have a command to a group judged; ``reply`` gets the answer, now or later, once."""
        self._runtime.submit(self.partition_of(group), command, reply)

    def _make_shard(self, number: int) -> GroupCoordinatorShard:
        # Not before the first partition is led: most starts need none of it.
        from odradek.coordinators.groups.shard import GroupCoordinatorShard

        return GroupCoordinatorShard(self._group_settings, self._new_id)

    def shard_of(self, group: str) -> GroupCoordinatorShard:
        """Whom to ask about a group."""
        return self._runtime.shard(self.partition_of(group))

    # All groups of this broker.

    def shards(self) -> list[GroupCoordinatorShard]:
        """Those that serve; there may be more that are loading."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions were deleted, and what groups have committed in them with it."""
        if partitions:
            self._runtime.submit_to_all(PartitionsDeleted(tuple(partitions)))

    def transaction_ended(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None:
        """A producer's marker was appended to this partition of the offsets topic, at this offset."""
        self._runtime.transaction_ended(number, producer_id, commits=commits, offset=offset)

    # Groups anywhere.

    def partition_of(self, group: str) -> int:
        """The partition of the offsets topic that a group belongs to."""
        return self._topic.partition_of(group)

    def coordinator_of(self, group: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """The broker that coordinates a group, and where clients of this listener reach it.

        While there is none: COORDINATOR_NOT_AVAILABLE; the topic is made if it is missing.
        """
        return self._topic.coordinator_of(group, listener)

    # What the runtime and its shards are given.

    def _role_changed(self, partition: Partition) -> None:
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

    def _new_id(self) -> str:
        return str(UUID(bytes=self._entropy.uuid()))
