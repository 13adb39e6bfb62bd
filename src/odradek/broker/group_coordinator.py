"""The groups that this broker coordinates, and who coordinates the others.

A group belongs to one partition of ``__consumer_offsets``; whoever leads that partition is its coordinator.
This puts the parts together: the topic, the runtime on the partitions that are led here, a machine for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from odradek.broker.clockwork import Clockwork
from odradek.broker.coordinated_topic import CoordinatedTopic
from odradek.broker.topics import Topics
from odradek.cluster.image import BrokerImage, ClusterImage, Endpoint
from odradek.config import broker as settings
from odradek.config.layers import Layers
from odradek.coordinators.groups.commands import Command, ForgetTopics
from odradek.coordinators.groups.settings import GroupSettings
from odradek.coordinators.hosted import RuntimeSettings, Surroundings
from odradek.coordinators.runtime import Runtime
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.model.levels import Compression
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas

if TYPE_CHECKING:
    from odradek.coordinators.groups.machine import GroupMachine


class Groups:
    def __init__(
        self,
        config: Layers,
        image: ClusterImage,
        topics: Topics,
        replicas: Replicas,
        clock: Clock,
        clockwork: Clockwork,
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
        around = Surroundings(replicas, clock, clockwork.wheel, clockwork.arm, self._runtime_settings)
        self._runtime: Runtime[GroupMachine] = Runtime(self._make_machine, around)
        replicas.role_observers.append(self._role_changed)

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

    def _make_machine(self, number: int) -> GroupMachine:
        # Not before the first partition is led: most starts need none of it.
        from odradek.coordinators.groups.machine import GroupMachine

        return GroupMachine(self._group_settings, self._new_id)

    def machine_of(self, group: str) -> GroupMachine:
        """Whom to ask about a group."""
        return self._runtime.machine(self.partition_of(group))

    # All groups of this broker.

    def machines(self) -> list[GroupMachine]:
        """Those that serve; there may be more that are loading."""
        return self._runtime.machines()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions were deleted, and what groups have committed in them with it."""
        if partitions:
            self._runtime.tell_all(ForgetTopics(tuple(partitions)))

    def transaction_ended(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None:
        """A producer's marker was appended to this partition of the offsets topic, at this offset."""
        self._runtime.transaction_ended(number, producer_id, commits=commits, offset=offset)

    # Groups anywhere.

    def partition_of(self, group: str) -> int:
        """The partition of the offsets topic that a group belongs to."""
        return self._topic.partition_of(group)

    def coordinator_of(self, group: str, listener: str) -> tuple[BrokerImage, Endpoint]:
        """The broker that coordinates a group, and where clients of this listener reach it.

        While there is none: COORDINATOR_NOT_AVAILABLE; the topic is made if it is missing.
        """
        return self._topic.coordinator_of(group, listener)

    # What the runtime and its machines are given.

    def _role_changed(self, partition: Partition) -> None:
        if partition.topic_partition.topic != OFFSETS_TOPIC:
            return
        if partition.is_leader:
            self._runtime.lead(partition)
        else:
            self._runtime.resign(partition.topic_partition.partition)

    def _runtime_settings(self) -> RuntimeSettings:
        values = self._config.broker
        return RuntimeSettings(
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
