"""The transactional ids that this broker coordinates, and who coordinates the others.

A transactional id belongs to one partition of ``__transaction_state``; whoever leads that partition is its
coordinator. This puts the parts together: the topic, the runtime on the partitions that are led here, a
shard for each, and the writing of markers that shards ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.coordinators.coordinator_topic import CoordinatedTopic
from odradek.broker.coordinators.marker_channels import MarkerTasks
from odradek.broker.coordinators.transaction_marker_writer import Ending, Markers
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import Topics
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
"""Time to wait for transactional ids that are being loaded, where all must be known."""

log = events.logger("transaction_coordinator")


class Transactions:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        image: MetadataCache,
        topics: Topics,
        replicas: ReplicaManager,
        clock: Clock,
        timer_driver: TimerDriver,
        markers: Markers,
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._topic = CoordinatedTopic(
            TRANSACTIONS_TOPIC,
            image,
            topics,
            lambda: config.broker[settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        )
        self._marker_tasks = MarkerTasks(markers, image, clock)
        self._values = config.broker
        self._settings = TransactionSettings.of(self._values)
        around = CoordinatorEnvironment(
            replicas, clock, timer_driver.wheel, timer_driver.arm, self._runtime_settings, self._perform
        )
        self._runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            self._make_shard, around
        )
        replicas.leadership_observers.append(self._role_changed)

    def start(self) -> None:
        self._runtime.start()

    async def stop(self) -> None:
        """Let go of all ids: whoever waits for one is answered. Transactions that are ending go on ending
        after the next start."""
        await self._topic.stop()
        await self._marker_tasks.stop()
        await self._runtime.stop()

    # Ids of this broker. Each refuses with COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or
    # NOT_COORDINATOR.

    def submit(self, transactional_id: str, command: Command, reply: Callable[[Any], None]) -> None:
        """Have a command judged; ``reply`` gets the answer, now or later, once."""
        self._runtime.submit(self._topic.partition_of(transactional_id), command, reply)

    def _make_shard(self, number: int) -> TransactionCoordinatorShard:
        # Not before the first partition is led: most starts need none of it.
        from odradek.coordinators.transactions.shard import TransactionCoordinatorShard

        return TransactionCoordinatorShard(self._transaction_settings)

    def shard_of(self, transactional_id: str) -> TransactionCoordinatorShard:
        """Whom to ask about an id."""
        return self._runtime.shard(self._topic.partition_of(transactional_id))

    # All ids of this broker.

    def shards(self) -> list[TransactionCoordinatorShard]:
        """Those that serve; there may be more that are loading."""
        return self._runtime.shards()

    @property
    def is_loading(self) -> bool:
        return self._runtime.is_loading

    async def largest_producer_id(self) -> int:
        """The largest producer id of any transactional id here; -1 if there is none.

        Raises COORDINATOR_LOAD_IN_PROGRESS if some are not loaded in time.
        """
        if not await self._runtime.wait_until_loaded(LOAD_WAIT_MS):
            raise BrokerError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTIONS_TOPIC} is still being loaded"
            )
        stored = (one.stored for shard in self.shards() for one in shard.ids.values())
        return max((one.producer_id for one in stored if one is not None), default=-1)

    # Ids anywhere.

    def coordinator_of(self, transactional_id: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """The broker that coordinates an id, and where clients of this listener reach it.

        While there is none: COORDINATOR_NOT_AVAILABLE; the topic is made if it is missing.
        """
        return self._topic.coordinator_of(transactional_id, listener)

    # What shards have done outside.

    def _perform(self, number: int, task: WriteMarkers) -> None:
        partition = self._replicas.find(TRANSACTIONS_TOPIC, number)
        if partition is None:
            return  # it has just gone, and its shard will
        ending = Ending(task.producer_id, task.producer_epoch, partition.leader_epoch, task.commits)

        def told(partitions: tuple[TopicPartition, ...]) -> None:
            self._markers_written(number, MarkersWritten(task, partitions))

        self._marker_tasks.begin(number, ending, task.partitions, told)

    def _markers_written(self, number: int, news: MarkersWritten) -> None:
        try:
            self._runtime.submit(number, news, _nothing_more)
        except BrokerError as refused:
            log.info("marker_result_rejected", partition=number, reason=refused.code.name)

    # What the runtime and its shards are given.

    def _role_changed(self, partition: Partition) -> None:
        topic, number = partition.topic_partition
        if topic != TRANSACTIONS_TOPIC:
            return
        if partition.is_leader:
            self._runtime.load(partition)
        else:
            self._marker_tasks.cancel(number)
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


def _nothing_more(code: ErrorCode) -> None:
    """The shard takes it from here, or has given the task up."""
