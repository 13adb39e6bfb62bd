"""Assembly of a broker: each component made from the ports, the settings and the components it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.broker.coordinators.group_coordinator import GroupCoordinator
from odradek.broker.coordinators.marker_channels import TransactionMarkerChannelManager
from odradek.broker.coordinators.marker_queues import RemoteMarkerSettings
from odradek.broker.coordinators.transaction_coordinator import TransactionCoordinator
from odradek.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
from odradek.broker.coordinators.transaction_verification import AddPartitionsToTxnManager
from odradek.broker.coordinators.verification_requests import VerificationRequests
from odradek.broker.environment import Environment
from odradek.broker.inter_broker.broker_requests import InterBrokerRequests
from odradek.broker.inter_broker.controller_channel import ControllerChannelFactory
from odradek.broker.inter_broker.producer_id_blocks import ControllerBlocks
from odradek.broker.local_controller_channel import LocalControllerChannel
from odradek.broker.membership import Membership
from odradek.broker.replication_quotas import ReplicationQuotas
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import AdminManager
from odradek.broker.topics.missed_deletions import MissedDeletions
from odradek.cluster.metadata_cache import MetadataCache
from odradek.cluster.metadata_version import MetadataVersion
from odradek.config import broker as settings
from odradek.config import topic
from odradek.config.broker.throttles import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.listeners import listeners
from odradek.controller.channels import BrokerChannel
from odradek.controller.controller import Controller, ControllerOptions
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.context import ControllerSettings
from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.log_config import CleanerConfig, LogConfig
from odradek.log.log_manager import LogManager
from odradek.net.broker_connection import Handshake
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.network import Network
from odradek.replication.fetch_sessions.fetch_session_cache import FetchSessionCache
from odradek.replication.fetchers.fetcher_manager import ReplicaFetcherManager
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.isr.alter_partition_manager import AlterPartitionManager
from odradek.replication.log_dirs.alter_log_dirs_throttle import (
    CHUNK_BYTES_MAX,
    RETRY_MS_MIN,
    AlterLogDirsLimits,
)
from odradek.replication.reads.replica_selector import selector_for
from odradek.replication.replica_manager import ReplicaManager
from odradek.store.controller_election import Fence
from odradek.store.port import Store
from odradek.store.producer_id_manager import ProducerIdManager, StoreBlocks

Dialling = Callable[[str], tuple[Network, Handshake | None]]
"""Returns how to connect to a listener of other brokers."""


class Replication:
    """Replication with other brokers: ISR changes of leaders, fetchers of followers."""

    def __init__(
        self, alter_partition_manager: AlterPartitionManager, fetcher_manager: ReplicaFetcherManager
    ) -> None:
        self._alter_partition_manager = alter_partition_manager
        self._fetcher_manager = fetcher_manager
        self._fetcher_count: int | None = None

    def reconfigure(self, values: Settings) -> None:
        """Divide the partitions again if ``num.replica.fetchers`` has changed."""
        before, self._fetcher_count = self._fetcher_count, values[settings.NUM_REPLICA_FETCHERS]
        if before != self._fetcher_count:
            self._fetcher_manager.resize()

    async def close(self) -> None:
        await self._fetcher_manager.close()
        await self._alter_partition_manager.close()


@dataclass(frozen=True, slots=True)
class ComponentFactory:
    """Makes the components of one broker."""

    broker_id: int
    environment: Environment
    config: DynamicBrokerConfig
    metadata_cache: MetadataCache
    log_manager: LogManager
    timer_driver: TimerDriver
    admin_manager: AdminManager

    def log_config_of(self, name: str) -> tuple[LogConfig, int]:
        """Return the log config of a topic and its ``min.insync.replicas``."""
        values = self.config.topic_settings(self.admin_manager.topic_overrides(name))
        decompressed_max = self.config.broker[settings.ODRADEK_DECOMPRESSED_BYTES_MAX]
        return LogConfig.of(values, decompressed_max), values[topic.MIN_INSYNC_REPLICAS]

    def make_cleaner(self) -> LogCleaner:
        return LogCleaner(
            self.log_manager,
            lambda: CleanerConfig.of(self.config.broker),
            self.environment.clock,
            self.environment.entropy,
        )

    def make_replica_manager(self, cleaner: LogCleaner) -> ReplicaManager:
        replica_manager = ReplicaManager(
            self.broker_id,
            self.log_manager,
            self.metadata_cache,
            self.log_config_of,
            self.environment.clock,
            self.timer_driver.wheel,
            self.timer_driver.arm,
            lambda: self.config.broker[settings.REPLICA_LAG_TIME_MAX_MS],
            self.environment.workers,
            self._alter_log_dirs_limits,
            cleaner,
        )
        replica_manager.replica_selector = selector_for(self.config.broker[settings.REPLICA_SELECTOR_CLASS])
        return replica_manager

    def _alter_log_dirs_limits(self) -> AlterLogDirsLimits:
        values = self.config.broker
        return AlterLogDirsLimits(
            min(
                CHUNK_BYTES_MAX,
                values[settings.REPLICA_FETCH_MAX_BYTES],
                values[settings.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            ),
            self.config.throttles[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
            values[settings.NUM_REPLICA_ALTER_LOG_DIRS_THREADS],
            max(values[settings.REPLICA_FETCH_BACKOFF_MS], RETRY_MS_MIN),
        )

    def attach_replication(
        self, replica_manager: ReplicaManager, membership: Membership, requests: InterBrokerRequests
    ) -> Replication:
        """Let replicas fetch from leaders on other brokers, and leaders change the ISR."""
        alter_partition_manager = AlterPartitionManager(
            self.broker_id,
            lambda: membership.broker_epoch,
            requests,
            self.environment.clock,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
        )
        quotas = ReplicationQuotas(self.broker_id, self.config, self.environment.clock)
        self.config.observers.append(quotas.update_rates)
        self.admin_manager.observe_topic_overrides(quotas)
        fetcher_manager = ReplicaFetcherManager(
            requests,
            lambda: self._fetcher_settings(membership),
            self.environment.clock,
            self.environment.entropy,
            replica_manager.on_replica_appended,
            # The fetchers log it; a failed log has taken its directory offline by itself.
            lambda _partition, _error: None,
            quotas.follower,
        )
        replica_manager.leader_quota = quotas.leader
        replica_manager.isr_changes.alter_partition_manager = alter_partition_manager
        replica_manager.state_changes.fetcher_manager = fetcher_manager
        replication = Replication(alter_partition_manager, fetcher_manager)
        self.config.observers.append(replication.reconfigure)
        return replication

    def _fetcher_settings(self, membership: Membership) -> FetcherSettings:
        values = self.config.broker
        return FetcherSettings(
            self.broker_id,
            lambda: membership.broker_epoch,
            membership.metadata_version,
            values[settings.NUM_REPLICA_FETCHERS],
            values[settings.REPLICA_FETCH_WAIT_MAX_MS],
            values[settings.REPLICA_FETCH_MIN_BYTES],
            values[settings.REPLICA_FETCH_MAX_BYTES],
            values[settings.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            values[settings.REPLICA_FETCH_BACKOFF_MS],
            values[settings.REPLICA_SOCKET_TIMEOUT_MS],
        )

    def make_missed_deletions(
        self, replica_manager: ReplicaManager, membership: Membership
    ) -> MissedDeletions:
        """Let deleted topics leave the metadata cache also if their deletion was not announced."""
        state_changes = replica_manager.state_changes
        missed_deletions = MissedDeletions(
            membership, self.metadata_cache, state_changes, self.environment.clock
        )
        state_changes.metadata_observers.append(missed_deletions.on_metadata_change)
        return missed_deletions

    def make_group_coordinator(self, replica_manager: ReplicaManager) -> GroupCoordinator:
        group_coordinator = GroupCoordinator(
            self.config,
            self.metadata_cache,
            self.admin_manager,
            replica_manager,
            self.environment.clock,
            self.timer_driver,
            self.environment.entropy,
        )
        group_coordinator.start()
        return group_coordinator

    def make_marker_writer(
        self, replica_manager: ReplicaManager, group_coordinator: GroupCoordinator
    ) -> TransactionMarkerWriter:
        return TransactionMarkerWriter(
            replica_manager,
            self.environment.clock,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
            group_coordinator.transaction_ended,
        )

    def make_transaction_coordinator(
        self,
        replica_manager: ReplicaManager,
        marker_writer: TransactionMarkerWriter,
        requests: BrokerRequests,
        metadata_version: MetadataVersion,
    ) -> TransactionCoordinator:
        marker_channels = TransactionMarkerChannelManager(
            self.broker_id,
            marker_writer,
            self.metadata_cache,
            self.environment.clock,
            RemoteMarkerSettings(
                requests,
                lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
                metadata_version.write_txn_markers_version,
            ),
        )
        transaction_coordinator = TransactionCoordinator(
            self.config,
            self.metadata_cache,
            self.admin_manager,
            replica_manager,
            self.environment.clock,
            self.timer_driver,
            marker_channels,
        )
        transaction_coordinator.start()
        return transaction_coordinator

    def make_verification_requests(
        self, transaction_coordinator: TransactionCoordinator, requests: BrokerRequests
    ) -> VerificationRequests:
        return VerificationRequests(
            self.broker_id,
            transaction_coordinator,
            requests,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
        )

    def make_transaction_verification(
        self, verification_requests: VerificationRequests
    ) -> AddPartitionsToTxnManager:
        return AddPartitionsToTxnManager(
            verification_requests,
            lambda: self.config.broker[settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        )

    @property
    def inter_broker_listener(self) -> str:
        return listeners(self.config.broker).inter_broker

    def make_requests(self, dialling: Dialling) -> InterBrokerRequests:
        network, handshake = dialling(self.inter_broker_listener)
        return InterBrokerRequests(
            self.broker_id,
            self.inter_broker_listener,
            self.metadata_cache,
            network,
            self.environment.clock,
            self.environment.entropy,
            request_timeout_ms=self.config.broker[settings.REQUEST_TIMEOUT_MS],
            handshake=handshake,
        )

    def make_controller(
        self,
        store: Store,
        fence: Fence,
        membership: Membership,
        replica_manager: ReplicaManager,
        dialling: Dialling,
    ) -> Controller:
        """Return the controller for an election that this broker has won."""
        local_channel = LocalControllerChannel(self.broker_id, replica_manager)
        values, clock = self.config.broker, self.environment.clock
        bound = listeners(values)
        listener = bound.control_plane or bound.inter_broker
        network, handshake = dialling(listener)
        channels = ControllerChannelFactory(
            self.broker_id,
            listener,
            membership.metadata_version,
            network,
            clock,
            self.environment.entropy,
            timeout_ms=lambda: self.config.broker[settings.CONTROLLER_SOCKET_TIMEOUT_MS],
            handshake=handshake,
        )

        def open_channel(broker_id: int, broker: Callable[[], LiveBroker]) -> BrokerChannel:
            return local_channel if broker_id == self.broker_id else channels.open(broker_id, broker)

        interval_ms = values[settings.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] * 1000
        is_balancing = membership.is_shared and values[settings.AUTO_LEADER_REBALANCE_ENABLE]
        options = ControllerOptions(
            ControllerSettings(
                membership.metadata_version,
                values[settings.DELETE_TOPIC_ENABLE],
                values[settings.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE],
            ),
            lambda: self.config.broker[settings.UNCLEAN_LEADER_ELECTION_ENABLE],
            interval_ms if is_balancing else None,
        )
        return Controller(store, fence, open_channel, clock, self.environment.entropy, options)

    def make_producer_id_manager(
        self,
        membership: Membership,
        requests: InterBrokerRequests,
        transaction_coordinator: TransactionCoordinator,
    ) -> ProducerIdManager:
        if not membership.is_shared:
            find_largest = transaction_coordinator.largest_producer_id
            return ProducerIdManager(StoreBlocks(membership, self.broker_id, find_largest).allocate)
        if not membership.metadata_version.is_allocate_producer_ids_supported:
            return ProducerIdManager(StoreBlocks(membership, self.broker_id).allocate)
        blocks = ControllerBlocks(
            requests,
            self.broker_id,
            lambda: membership.broker_epoch,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
        )
        return ProducerIdManager(blocks.allocate)

    def make_fetch_session_cache(self, replica_manager: ReplicaManager) -> FetchSessionCache:
        slots = self.config.broker[settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS]
        cache = FetchSessionCache(self.environment.entropy, self.metadata_cache.name_of, slots)
        replica_manager.watch_followers(cache)
        return cache
