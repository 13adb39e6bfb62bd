"""The broker: its components, wired together and started and stopped in order.

Start: lock the log directories, open the store, resolve broker id and cluster id, read dynamic configs, load
the logs, bind the listeners, register, elect the controller. Stop in reverse: stop accepting, complete
in-flight requests, close the logs, write the clean shutdown marker, close the store session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odradek.broker.coordinators.group_coordinator import GroupCoordinator
from odradek.broker.coordinators.transaction_coordinator import TransactionCoordinator
from odradek.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
from odradek.broker.coordinators.transaction_verification import AddPartitionsToTxnManager
from odradek.broker.dynamic_config import DynamicConfigManager
from odradek.broker.handlers import HANDLERS
from odradek.broker.local_controller_channel import LocalControllerChannel
from odradek.broker.log_maintenance import SHORT_INTERVAL_MS, LogMaintenance
from odradek.broker.network.connection_scheduler import ConnectionScheduler
from odradek.broker.network.listener import Listener
from odradek.broker.network.memory_pool import RequestMemoryPool, memory_limit
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.requests.context import BrokerContext
from odradek.broker.requests.dispatcher import Dispatcher
from odradek.broker.scheduled_tasks import ScheduledTask, TaskScheduler
from odradek.broker.start_checks import (
    broker_id_rules,
    check_addresses,
    check_identity,
    check_settings,
    store_path,
    were_used,
)
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import AdminManager
from odradek.broker.topics.metadata_responses import AllTopicsResponseCache
from odradek.cluster.metadata_cache import MetadataCache
from odradek.config import availability, derived, topic
from odradek.config import broker as settings
from odradek.config.broker.throttles import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.listeners import ListenerEndpoint, listeners, new_anonymous_access_problems
from odradek.controller.controller import Controller
from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.log_config import CleanerConfig, LogConfig
from odradek.log.log_directory import LogDirectory, unusable_directory
from odradek.log.log_manager import LogManager
from odradek.log.recovery.load_progress import LoadProgress, load_progress, recovery_summary
from odradek.model.errors import ConfigError, StorageError
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSystem
from odradek.ports.network import Connection, Network
from odradek.ports.workers import Workers
from odradek.replication.alter_log_dirs_throttle import CHUNK_BYTES_MAX, RETRY_MS_MIN, AlterLogDirsLimits
from odradek.replication.fetch_session import FetchSessionCache
from odradek.replication.replica_manager import ReplicaManager
from odradek.store import meta_properties, znode_paths, znodes
from odradek.store.broker_registration import (
    create_or_get_cluster_id,
    read_cluster_id,
    register_broker,
    resolve_broker_id,
    update_registration,
)
from odradek.store.controller_election import elect
from odradek.store.port import Store
from odradek.store.producer_id_manager import ProducerIdManager, advance_block_above
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.version import VERSION
from odradek.wire.frames import make_scratch

# Time for in-flight requests to complete when the broker stops.
STOP_TIMEOUT_S = 30
# Interval of progress reports while logs are loaded.
LOADING_PROGRESS_INTERVAL_MS = 3_000
# Interval of the check for an incomplete request that blocks other connections.
STALLED_CHECK_MS = 5_000
# Retry interval for new partitions that no log directory had space for.
OFFLINE_PARTITION_RETRY_MS = 5_000

log = events.logger("broker")


class Ensemble(Protocol):
    """Provider of store sessions: ``connect`` opens one, ``close`` closes all of this broker.

    While ``defers_writes`` is set, a full disk rejects no write: it is written once there is space.
    """

    defers_writes: bool

    def connect(self) -> Store: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Environment:
    """Ports a broker runs on.

    ``open_store`` opens the embedded store in a file; ``on_resized`` is called with the partition count.
    """

    clock: Clock
    entropy: Entropy
    files: FileSystem
    network: Network
    host_name: Callable[[], str]
    open_store: Callable[[str], Ensemble]
    workers: Workers
    on_resized: Callable[[int], None] = lambda _: None


class Broker:
    def __init__(
        self,
        static_values: Mapping[str, str],
        environment: Environment,
        on_load_progress: Callable[[LoadProgress], None] = lambda _: None,
    ) -> None:
        """``static_values`` are the raw values of the static settings, already validated.

        ``on_load_progress`` is called periodically while logs are loaded.
        """
        self._environment = environment
        self._on_load_progress = on_load_progress
        self.config = DynamicBrokerConfig(static_values)
        self.broker_id = -1
        self.cluster_id = ""
        self.metadata_cache = MetadataCache()
        self.all_failed = asyncio.Event()
        """Set once the last log directory has failed: the broker must stop."""
        self._log_manager = LogManager()
        self._ensemble: Ensemble | None = None
        self._socket_server: SocketServer | None = None
        self._task_scheduler = TaskScheduler(environment.clock)
        # Shared by all connections: they receive one after the other, on one loop.
        self._scratch = make_scratch()
        self._closed_connection_events = RateLimitedEvents(
            events.logger("session"), environment.clock.monotonic_ms
        )
        self._controller: Controller | None = None
        self._cleaner: LogCleaner | None = None
        self._broker_epoch = -1

    @property
    def log_dirs(self) -> list[str]:
        """Online log directories."""
        return [directory.path for directory in self._log_manager]

    @property
    def partition_count(self) -> int:
        """Number of partitions with a replica on this broker."""
        return len(self._replica_manager)

    @property
    def failures(self) -> list[str]:
        """Errors of the offline log directories."""
        return [str(failure) for failure in self._log_manager.failed.values()]

    @property
    def endpoints(self) -> list[ListenerEndpoint]:
        """Advertised listeners of this broker."""
        return [] if self._socket_server is None else self._socket_server.endpoints

    # Start.

    async def start(self) -> None:
        """Start serving. After an error, ``stop`` releases all acquired resources."""
        static, clock = self.config.broker, self._environment.clock
        check_settings(static, self.config.static)
        is_known = await self._open_directories()
        store = self._open_store()
        await self._resolve_identity(store)
        timer_driver = self._timer_driver = TimerDriver(clock)
        self._admin_manager = AdminManager(
            store,
            self.metadata_cache,
            self.config,
            timer_driver,
            clock,
            self._environment.entropy,
        )
        config_manager = DynamicConfigManager(store, self.config, self._admin_manager, self.broker_id, clock)
        await config_manager.load()
        await self._check_listeners(static, is_known=is_known)
        await self._load_logs()
        await advance_block_above(store, self.broker_id, self._log_manager.largest_producer_id)
        cleaner = self._cleaner = LogCleaner(
            self._log_manager,
            lambda: CleanerConfig.of(self.config.broker),
            clock,
            self._environment.entropy,
        )
        replica_manager = self._replica_manager = self._make_replica_manager(timer_driver)
        self._log_manager.on_failure = self._on_log_dir_failure
        self._group_coordinator = self._make_group_coordinator(timer_driver)
        self._marker_writer = self._make_marker_writer()
        self._transaction_coordinator = self._make_transaction_coordinator(timer_driver)
        self._request_queue = RequestQueue(static[settings.QUEUED_MAX_REQUESTS])
        self._connection_scheduler = ConnectionScheduler(
            clock.monotonic_ns, asyncio.get_running_loop().call_soon
        )
        self._memory_pool = RequestMemoryPool(
            memory_limit(static[settings.QUEUED_MAX_REQUEST_BYTES], static[settings.SOCKET_REQUEST_MAX_BYTES])
        )
        socket_server = self._socket_server = self._make_socket_server()
        config_manager.attach(replica_manager, socket_server)
        self._dispatcher = Dispatcher(HANDLERS, self._make_context(store, socket_server), self._request_queue)
        await socket_server.open()
        await self._register(store, socket_server)
        await self._elect_controller(store)
        assert self._ensemble is not None
        self._ensemble.defers_writes = False
        # Not earlier: a client would believe a Metadata response without brokers and topics.
        socket_server.serve()
        self._task_scheduler.start(self._list_tasks(config_manager))
        cleaner.start()
        log.info(
            "started",
            version=VERSION,
            broker=self.broker_id,
            cluster=self.cluster_id,
            listeners=",".join(map(str, self.endpoints)),
            log_dirs=",".join(self.log_dirs),
        )

    async def _open_directories(self) -> bool:
        """Lock the log directories, after all checks that need no lock.

        Return whether a broker has used all of them before: the store may then override the listeners.
        """
        files, network = self._environment.files, self._environment.network
        log_dirs = list(map(files.absolute, derived.log_dirs(self.config.broker)))
        check_identity(files, log_dirs, broker_id_rules(self.config.broker))
        is_known = were_used(files, log_dirs)
        if not is_known:
            await check_addresses(network, listeners(self.config.broker).bound)
        self._log_manager = LogManager.open(files, log_dirs, self._environment.entropy)
        return is_known

    async def _check_listeners(self, static: Settings, *, is_known: bool) -> None:
        """Check dynamically configured listeners, and that the addresses are free."""
        values = self.config.broker
        problems = availability.unavailable_protocol_problems(values) or new_anonymous_access_problems(
            static, values
        )
        if problems:
            raise ConfigError(problems)
        if is_known:  # a second broker on the same data fails at the directory lock, with the better error
            is_dynamic = settings.LISTENERS.name in self.config.broker_overrides
            origin = " (set by AlterConfigs for this broker)" if is_dynamic else ""
            await check_addresses(self._environment.network, listeners(values).bound, origin)

    def _open_store(self) -> Store:
        self._ensemble = self._environment.open_store(store_path(self._log_manager.paths))
        # Only a running broker can free space on a full disk.
        self._ensemble.defers_writes = True
        return self._ensemble.connect()

    async def _resolve_identity(self, store: Store) -> None:
        """Resolve cluster id and broker id from the store, the settings and meta.properties."""
        properties = self._read_meta_properties()
        # Before anything is written.
        meta_properties.check_cluster_id(properties, await read_cluster_id(store))
        self.broker_id = await resolve_broker_id(store, broker_id_rules(self.config.broker), properties)
        self.cluster_id = await create_or_get_cluster_id(store, self._environment.entropy)
        self._write_meta_properties()
        self.config.set_broker_id(self.broker_id)

    def _read_meta_properties(self) -> dict[str, meta_properties.MetaProperties]:
        properties = {}
        for directory in self._log_manager:
            with self._offline_on_error(directory):
                properties.update(meta_properties.read_all(self._environment.files, [directory.path]))
        self._log_manager.require_one()
        return properties

    def _write_meta_properties(self) -> None:
        now_ms = self._environment.clock.wall_ms()
        for directory in self._log_manager:
            with self._offline_on_error(directory):
                meta_properties.write_all(
                    self._environment.files, [directory.path], self.broker_id, self.cluster_id, now_ms
                )
        self._log_manager.require_one()

    @contextmanager
    def _offline_on_error(self, directory: LogDirectory) -> Iterator[None]:
        """Take a directory offline on an OSError and continue the start without it."""
        try:
            yield
        except OSError as error:
            directory.fail(unusable_directory(directory.path, error))
            directory.abandon()

    async def _load_logs(self) -> None:
        threads = self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        now_ms = self._environment.clock.monotonic_ms()
        reporter = asyncio.get_running_loop().create_task(self._report_loading())
        try:
            await self._log_manager.load(lambda name: self._log_config_of(name)[0], now_ms, threads=threads)
        finally:
            reporter.cancel()
        took_ms = self._environment.clock.monotonic_ms() - now_ms
        log.info(
            "logs_loaded", logs=sum(directory.log_count for directory in self._log_manager), took_ms=took_ms
        )
        self._log_recovered(took_ms)

    async def _report_loading(self) -> None:
        states = [directory.loading for directory in self._log_manager]
        while True:
            await self._environment.clock.sleep_ms(LOADING_PROGRESS_INTERVAL_MS)
            self._on_load_progress(load_progress(states))

    def _log_recovered(self, took_ms: int) -> None:
        states = [directory.loading for directory in self._log_manager if not directory.had_clean_shutdown]
        if any(loading.total for loading in states):
            log.warning("unclean_stop_recovered", **recovery_summary(states)._asdict(), took_ms=took_ms)
        for directory in self._log_manager:
            for problem in directory.problems:
                log.warning("checkpoint_not_read", reason=problem)
            for partition, failure in directory.unusable.items():
                log.error("log_unusable", partition=partition, reason=str(failure))
            for partition, result in directory.loading.recovered:
                log.debug("log_recovered", partition=partition, segments=result.scanned_segments)
                if result.problem is not None:
                    log.warning(
                        "log_truncated_on_recovery",
                        partition=partition,
                        truncated_bytes=result.truncated_bytes,
                        dropped_segments=result.dropped_segments,
                        reason=result.problem,
                    )

    def _log_config_of(self, name: str) -> tuple[LogConfig, int]:
        values = self.config.topic_settings(self._admin_manager.topic_overrides(name))
        decompressed_max = self.config.broker[settings.ODRADEK_DECOMPRESSED_BYTES_MAX]
        return LogConfig.of(values, decompressed_max), values[topic.MIN_INSYNC_REPLICAS]

    def _make_replica_manager(self, timer_driver: TimerDriver) -> ReplicaManager:
        return ReplicaManager(
            self.broker_id,
            self._log_manager,
            self.metadata_cache,
            self._log_config_of,
            self._environment.clock,
            timer_driver.wheel,
            timer_driver.arm,
            lambda: self.config.broker[settings.REPLICA_LAG_TIME_MAX_MS],
            self._environment.workers,
            self._alter_log_dirs_limits,
            self._cleaner,
        )

    def _make_group_coordinator(self, timer_driver: TimerDriver) -> GroupCoordinator:
        group_coordinator = GroupCoordinator(
            self.config,
            self.metadata_cache,
            self._admin_manager,
            self._replica_manager,
            self._environment.clock,
            timer_driver,
            self._environment.entropy,
        )
        group_coordinator.start()
        return group_coordinator

    def _make_marker_writer(self) -> TransactionMarkerWriter:
        return TransactionMarkerWriter(
            self._replica_manager,
            self._environment.clock,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
            self._group_coordinator.transaction_ended,
        )

    def _make_transaction_coordinator(self, timer_driver: TimerDriver) -> TransactionCoordinator:
        transaction_coordinator = TransactionCoordinator(
            self.config,
            self.metadata_cache,
            self._admin_manager,
            self._replica_manager,
            self._environment.clock,
            timer_driver,
            self._marker_writer,
        )
        transaction_coordinator.start()
        return transaction_coordinator

    def _make_transaction_verification(self) -> AddPartitionsToTxnManager:
        return AddPartitionsToTxnManager(
            self._transaction_coordinator,
            lambda: self.config.broker[settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        )

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

    def _make_context(self, store: Store, socket_server: SocketServer) -> BrokerContext:
        slots = self.config.broker[settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS]
        return BrokerContext(
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            clock=self._environment.clock,
            config=self.config,
            metadata_cache=self.metadata_cache,
            all_topics_cache=AllTopicsResponseCache(self.metadata_cache, self._environment.workers),
            replica_manager=self._replica_manager,
            log_manager=self._log_manager,
            admin_manager=self._admin_manager,
            fetch_session_cache=FetchSessionCache(
                self._environment.entropy, self.metadata_cache.name_of, slots
            ),
            producer_id_manager=ProducerIdManager(
                store, self.broker_id, self._transaction_coordinator.largest_producer_id
            ),
            group_coordinator=self._group_coordinator,
            transaction_coordinator=self._transaction_coordinator,
            marker_writer=self._marker_writer,
            transaction_verification=self._make_transaction_verification(),
            store=store,
            workers=self._environment.workers,
            socket_server=socket_server,
            rejected_batches=RateLimitedEvents(
                events.logger("produce"), self._environment.clock.monotonic_ms
            ),
        )

    def _make_session(self, connection: Connection, listener: Listener) -> Session:
        values = self.config.broker
        return Session(
            connection,
            listener.name,
            self._dispatcher.dispatch,
            listener.on_session_closed,
            self._connection_scheduler,
            self._request_queue,
            self._memory_pool,
            frame_bytes_max=values[settings.SOCKET_REQUEST_MAX_BYTES],
            in_flight_max=values[settings.ODRADEK_CONNECTION_UNANSWERED_MAX],
            scratch=self._scratch,
            close_events=self._closed_connection_events,
        )

    def _registration(self, endpoints: Sequence[ListenerEndpoint]) -> znodes.BrokerRegistration:
        advertised = tuple(
            znodes.RegisteredEndpoint(endpoint.name, endpoint.protocol.value, endpoint.host, endpoint.port)
            for endpoint in endpoints
        )
        rack = self.config.broker[settings.BROKER_RACK]
        return znodes.BrokerRegistration(advertised, self._environment.clock.wall_ms(), rack)

    def _make_socket_server(self) -> SocketServer:
        environment = self._environment
        return SocketServer(
            self.config, environment.network, environment.clock, environment.host_name, self._make_session
        )

    async def _register(self, store: Store, socket_server: SocketServer) -> None:
        await store.ensure_path(znode_paths.BROKER_IDS)
        registration = self._registration(socket_server.endpoints)
        self._broker_epoch = await register_broker(store, self.broker_id, registration)
        socket_server.on_advertised = partial(self._update_registration, store)

    async def _update_registration(self, store: Store, endpoints: Sequence[ListenerEndpoint]) -> None:
        """Publish changed endpoints."""
        await update_registration(store, self.broker_id, self._registration(endpoints))
        if self._controller is not None:
            self._controller.on_broker_modified()

    async def _elect_controller(self, store: Store) -> None:
        fence = await elect(store, self.broker_id, self._environment.clock.wall_ms())
        if fence is None:
            raise ConfigError(
                ["another broker is the controller of this store; only one broker is supported"]
            )
        channel = LocalControllerChannel(
            self.broker_id,
            self.metadata_cache,
            self._replica_manager,
            self._admin_manager,
            self._group_coordinator.delete_offsets,
            self._environment.on_resized,
        )
        self._controller = Controller(store, fence, channel, self._environment.clock.sleep_ms)
        await self._controller.start()

    def _list_tasks(self, config_manager: DynamicConfigManager) -> list[ScheduledTask]:
        values = self.config.broker
        idle_ms = values[settings.CONNECTIONS_MAX_IDLE_MS]
        idle_check_ms = min(max(idle_ms // 4, 10), 60_000) if idle_ms >= 0 else 60_000
        return [
            ScheduledTask("close_idle", idle_check_ms, self._close_idle),
            ScheduledTask("close_stalled", STALLED_CHECK_MS, self._close_stalled),
            *LogMaintenance(self._log_manager, self.config, self._environment.clock).tasks(),
            ScheduledTask("retry_flushes", SHORT_INTERVAL_MS, self._replica_manager.retry_flushes),
            ScheduledTask(
                "retry_offline_partitions", OFFLINE_PARTITION_RETRY_MS, self._retry_offline_partitions
            ),
            ScheduledTask("delete_expired_config_changes", 300_000, config_manager.delete_expired),
        ]

    # Scheduled tasks.

    async def _close_idle(self) -> None:
        idle_ms = self.config.broker[settings.CONNECTIONS_MAX_IDLE_MS]
        if idle_ms >= 0:
            now_ms = self._environment.clock.monotonic_ms()
            for listener in self._socket_server or ():
                listener.close_idle(now_ms, idle_ms)

    async def _close_stalled(self) -> None:
        self._memory_pool.close_stalled_session(self._environment.clock.monotonic_ms())

    async def _retry_offline_partitions(self) -> None:
        partitions = await self._replica_manager.retry_offline_partitions()
        if partitions and self._controller is not None:
            self._controller.on_replicas_online(self.broker_id, partitions)

    # Failures.

    def _on_log_dir_failure(self, directory: LogDirectory) -> None:
        """Handle the failure in a later loop iteration: the caller is in the middle of an operation."""
        asyncio.get_running_loop().call_soon(self._handle_log_dir_failure, directory)

    def _handle_log_dir_failure(self, directory: LogDirectory) -> None:
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
            self.all_failed.set()
        elif self._controller is not None:
            self._controller.on_replicas_offline(self.broker_id, partitions)

    # Stop.

    async def stop(self) -> None:
        """Stop in order. Also stops what a failed start has started."""
        if self._cleaner is not None:
            await self._cleaner.stop()
        await self._task_scheduler.stop()
        await self._drain_requests()
        if self._controller is not None:
            await self._controller.stop()
        failures = await self._close_directories()
        if self._ensemble is not None:
            await self._ensemble.close()
        if failures:
            raise failures[0]
        log.info("stopped", broker=self.broker_id)

    async def _close_directories(self) -> list[StorageError]:
        """Close all, so that one that fails to close does not cause a recovery of the others."""
        failures = []
        threads = self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        self._log_manager.on_failure = lambda _: None  # no requests are served any more
        for directory in self._log_manager:
            try:
                await directory.close(broker_epoch=self._broker_epoch, threads=threads)
            except StorageError as error:
                log.error("directory_not_closed", path=directory.path, reason=str(error))
                failures.append(error)
        return failures

    async def _drain_requests(self) -> None:
        if self._socket_server is None:
            return
        self._socket_server.stop_reading()
        await self._transaction_coordinator.stop()
        await self._group_coordinator.stop()
        await self._replica_manager.alter_log_dirs.stop()
        self._replica_manager.complete_all_delayed()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._replica_manager.drain_appends()
                # The appends just completed may wait for replicas.
                self._replica_manager.complete_all_delayed()
                await self._dispatcher.drain()
                # A fetch that waited for the disk may now wait for records.
                self._replica_manager.complete_all_delayed()
                await self._dispatcher.drain()
                await self._replica_manager.drain_flushes()
        self._timer_driver.stop()
        await self._socket_server.close_sessions()
