"""A broker: its parts put together, started and stopped in order, on whatever environment it is given.

Start: lock the data, open the store, find out who we are, read settings, open the logs, listen, register,
stand for controller. Stop goes the other way: accept nothing new, answer what is under way, close the logs,
say that it was a clean stop, leave the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odradek.broker.coordinators.group_coordinator import Groups
from odradek.broker.coordinators.transaction_coordinator import Transactions
from odradek.broker.coordinators.transaction_marker_writer import Markers
from odradek.broker.coordinators.transaction_verification import Verification
from odradek.broker.dynamic_config import ConfigChanges
from odradek.broker.handlers import HANDLERS
from odradek.broker.local_controller_channel import LocalControllerChannel
from odradek.broker.log_maintenance import SOON_MS, Upkeep
from odradek.broker.network.connection_scheduler import Turns
from odradek.broker.network.listener import Listener
from odradek.broker.network.memory_pool import RequestMemory, bound_of
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.broker.network.socket_server import Listening
from odradek.broker.requests.context import Context
from odradek.broker.requests.dispatcher import Dispatcher
from odradek.broker.scheduled_tasks import Chore, Chores
from odradek.broker.start_checks import (
    are_known,
    broker_id_rules,
    check_addresses,
    check_identity,
    check_settings,
    store_path,
)
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import Topics
from odradek.broker.topics.metadata_responses import AllTopicsAnswers
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
from odradek.replication.alter_log_dirs_throttle import PIECE_BYTES_MAX, RETRY_MS_MIN, AlterLogDirsLimits
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

# Requests under way get this long to be answered when the broker stops.
STOP_TIMEOUT_S = 30
# A start that takes longer than this says how far it is, and does so again after as long.
LOADING_TOLD_MS = 3_000
# How often it is looked for a request that holds up others and is not completed.
STALLED_CHECK_MS = 5_000
# New partitions for which every disk was too full are tried again after this long.
UNPLACED_RETRY_MS = 5_000

log = events.logger("broker")


class Ensemble(Protocol):
    """Origin of a store: ``connect`` begins a session, ``close`` ends what this broker has of it.

    While it defers writes, a full disk refuses none: they come to the disk once there is room.
    """

    defers_writes: bool

    def connect(self) -> Store: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker runs on.

    ``open_store`` opens the embedded store in a file; ``on_resized`` hears how many partitions there are.
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
        given: Mapping[str, str],
        environment: Environment,
        on_loading: Callable[[LoadProgress], None] = lambda _: None,
    ) -> None:
        """``given`` are the texts of the static settings, already checked.

        ``on_loading`` is told every now and then how far a start is that takes long.
        """
        self._environment = environment
        self._on_loading = on_loading
        self.config = DynamicBrokerConfig(given)
        self.broker_id = -1
        self.cluster_id = ""
        self.image = MetadataCache()
        self.all_failed = asyncio.Event()
        """Set once the last data directory has failed: nothing is left to serve, and stopping is due."""
        self._directories = LogManager()
        self._ensemble: Ensemble | None = None
        self._listening: Listening | None = None
        self._chores = Chores(environment.clock)
        # One for all connections: they receive one after the other, on one loop.
        self._scratch = make_scratch()
        self._closings = RateLimitedEvents(events.logger("session"), environment.clock.monotonic_ms)
        self._controller: Controller | None = None
        self._cleaner: LogCleaner | None = None
        self._broker_epoch = -1

    @property
    def log_dirs(self) -> list[str]:
        """The data directories that serve."""
        return [directory.path for directory in self._directories]

    @property
    def partition_count(self) -> int:
        """How many partitions have a replica here."""
        return len(self._replicas)

    @property
    def failures(self) -> list[str]:
        """Why the data directories that do not serve do not."""
        return [str(failure) for failure in self._directories.failed.values()]

    @property
    def endpoints(self) -> list[ListenerEndpoint]:
        """Advertised listeners of this broker."""
        return [] if self._listening is None else self._listening.endpoints

    # Start.

    async def start(self) -> None:
        """Serve. After an error ``stop`` releases whatever was taken by then."""
        static = self.config.broker
        check_settings(static, self.config.static)
        is_known = await self._open_directories()
        store = self._open_store()
        await self._find_identity(store)
        timer_driver = self._timer_driver = TimerDriver(self._environment.clock)
        self._topics = Topics(
            store, self.image, self.config, timer_driver, self._environment.clock, self._environment.entropy
        )
        changes = ConfigChanges(store, self.config, self._topics, self.broker_id, self._environment.clock)
        await changes.load()
        await self._check_listeners(static, is_known=is_known)
        await self._load_logs()
        await advance_block_above(store, self.broker_id, self._directories.largest_producer_id)
        cleaner = self._cleaner = LogCleaner(
            self._directories,
            lambda: CleanerConfig.of(self.config.broker),
            self._environment.clock,
            self._environment.entropy,
        )
        replicas = self._replicas = self._make_replicas(timer_driver)
        self._directories.on_failure = self._directory_failed
        self._groups = self._make_groups(timer_driver)
        self._markers = self._make_markers()
        self._transactions = self._make_transactions(timer_driver)
        self._queue = RequestQueue(static[settings.QUEUED_MAX_REQUESTS])
        self._turns = Turns(self._environment.clock.monotonic_ns, asyncio.get_running_loop().call_soon)
        self._memory = RequestMemory(
            bound_of(static[settings.QUEUED_MAX_REQUEST_BYTES], static[settings.SOCKET_REQUEST_MAX_BYTES])
        )
        listening = self._listening = self._make_listening()
        changes.follow(replicas, listening)
        self._dispatcher = Dispatcher(HANDLERS, self._make_context(store, listening), self._queue)
        await listening.open()
        await self._register(store, listening)
        await self._stand_for_controller(store)
        assert self._ensemble is not None
        self._ensemble.defers_writes = False
        # Not before: a client told that there are no brokers, and no topics, would believe it.
        listening.serve()
        self._chores.start(self._list_chores(changes))
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
        """Lock the data directories, once nothing that can be known without them speaks against the start.

        Return whether a broker has used all of them before: then they may hold other listeners than the file.
        """
        files, network = self._environment.files, self._environment.network
        log_dirs = list(map(files.absolute, derived.log_dirs(self.config.broker)))
        check_identity(files, log_dirs, broker_id_rules(self.config.broker))
        is_known = are_known(files, log_dirs)
        if not is_known:
            await check_addresses(network, listeners(self.config.broker).bound)
        self._directories = LogManager.open(files, log_dirs, self._environment.entropy)
        return is_known

    async def _check_listeners(self, static: Settings, *, is_known: bool) -> None:
        """Refuse listeners that were set at run time and cannot be now; see that the addresses are free."""
        values = self.config.broker
        problems = availability.unavailable_protocol_problems(values) or new_anonymous_access_problems(
            static, values
        )
        if problems:
            raise ConfigError(problems)
        if is_known:  # another broker on the same data has the same addresses; the data comes first
            is_dynamic = settings.LISTENERS.name in self.config.broker_overrides
            origin = ", which AlterConfigs set for this broker" if is_dynamic else ""
            await check_addresses(self._environment.network, listeners(values).bound, origin)

    def _open_store(self) -> Store:
        self._ensemble = self._environment.open_store(store_path(self._directories.paths))
        # A disk that is full now can only be freed by a broker that runs.
        self._ensemble.defers_writes = True
        return self._ensemble.connect()

    async def _find_identity(self, store: Store) -> None:
        """Cluster id and broker id, from the store, the settings and the files of every directory."""
        found = self._read_meta_properties()
        # Before anything is written.
        meta_properties.check_cluster_id(found, await read_cluster_id(store))
        self.broker_id = await resolve_broker_id(store, broker_id_rules(self.config.broker), found)
        self.cluster_id = await create_or_get_cluster_id(store, self._environment.entropy)
        self._write_meta_properties()
        self.config.set_broker_id(self.broker_id)

    def _read_meta_properties(self) -> dict[str, meta_properties.MetaProperties]:
        found = {}
        for directory in self._directories:
            with self._leaving_out(directory):
                found.update(meta_properties.read_all(self._environment.files, [directory.path]))
        self._directories.require_one()
        return found

    def _write_meta_properties(self) -> None:
        now_ms = self._environment.clock.wall_ms()
        for directory in self._directories:
            with self._leaving_out(directory):
                meta_properties.write_all(
                    self._environment.files, [directory.path], self.broker_id, self.cluster_id, now_ms
                )
        self._directories.require_one()

    @contextmanager
    def _leaving_out(self, directory: LogDirectory) -> Iterator[None]:
        """Start without a directory whose disk refuses us."""
        try:
            yield
        except OSError as error:
            directory.fail(unusable_directory(directory.path, error))
            directory.abandon()

    async def _load_logs(self) -> None:
        threads = self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        now_ms = self._environment.clock.monotonic_ms()
        telling = asyncio.get_running_loop().create_task(self._tell_of_loading())
        try:
            await self._directories.load(lambda name: self._config_of(name)[0], now_ms, threads=threads)
        finally:
            telling.cancel()
        took_ms = self._environment.clock.monotonic_ms() - now_ms
        log.info("logs_loaded", logs=sum(one.log_count for one in self._directories), took_ms=took_ms)
        self._log_recovered(took_ms)

    async def _tell_of_loading(self) -> None:
        starts = [directory.loading for directory in self._directories]
        while True:
            await self._environment.clock.sleep_ms(LOADING_TOLD_MS)
            self._on_loading(load_progress(starts))

    def _log_recovered(self, took_ms: int) -> None:
        loadings = [one.loading for one in self._directories if not one.had_clean_shutdown]
        if any(loading.total for loading in loadings):
            log.warning("unclean_stop_recovered", **recovery_summary(loadings)._asdict(), took_ms=took_ms)
        for directory in self._directories:
            for problem in directory.problems:
                log.warning("checkpoint_not_read", reason=problem)
            for partition, failure in directory.unusable.items():
                log.error("log_unusable", partition=partition, reason=str(failure))
            for partition, recovered in directory.loading.recovered:
                log.debug("log_recovered", partition=partition, segments=recovered.scanned_segments)
                if recovered.problem is not None:
                    log.warning(
                        "log_truncated_on_recovery",
                        partition=partition,
                        truncated_bytes=recovered.truncated_bytes,
                        dropped_segments=recovered.dropped_segments,
                        reason=recovered.problem,
                    )

    def _config_of(self, name: str) -> tuple[LogConfig, int]:
        values = self.config.topic_settings(self._topics.overrides_of(name))
        decompressed_max = self.config.broker[settings.ODRADEK_DECOMPRESSED_BYTES_MAX]
        return LogConfig.of(values, decompressed_max), values[topic.MIN_INSYNC_REPLICAS]

    def _make_replicas(self, timer_driver: TimerDriver) -> ReplicaManager:
        return ReplicaManager(
            self.broker_id,
            self._directories,
            self.image,
            self._config_of,
            self._environment.clock,
            timer_driver.wheel,
            timer_driver.arm,
            lambda: self.config.broker[settings.REPLICA_LAG_TIME_MAX_MS],
            self._environment.workers,
            self._move_limits,
            self._cleaner,
        )

    def _make_groups(self, timer_driver: TimerDriver) -> Groups:
        groups = Groups(
            self.config,
            self.image,
            self._topics,
            self._replicas,
            self._environment.clock,
            timer_driver,
            self._environment.entropy,
        )
        groups.start()
        return groups

    def _make_markers(self) -> Markers:
        return Markers(
            self._replicas,
            self._environment.clock,
            lambda: self.config.broker[settings.REQUEST_TIMEOUT_MS],
            self._groups.transaction_ended,
        )

    def _make_transactions(self, timer_driver: TimerDriver) -> Transactions:
        transactions = Transactions(
            self.config,
            self.image,
            self._topics,
            self._replicas,
            self._environment.clock,
            timer_driver,
            self._markers,
        )
        transactions.start()
        return transactions

    def _make_verification(self) -> Verification:
        return Verification(
            self._transactions,
            lambda: self.config.broker[settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        )

    def _move_limits(self) -> AlterLogDirsLimits:
        values = self.config.broker
        return AlterLogDirsLimits(
            min(
                PIECE_BYTES_MAX,
                values[settings.REPLICA_FETCH_MAX_BYTES],
                values[settings.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            ),
            self.config.throttles[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
            values[settings.NUM_REPLICA_ALTER_LOG_DIRS_THREADS],
            max(values[settings.REPLICA_FETCH_BACKOFF_MS], RETRY_MS_MIN),
        )

    def _make_context(self, store: Store, listening: Listening) -> Context:
        slots = self.config.broker[settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS]
        return Context(
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            clock=self._environment.clock,
            config=self.config,
            image=self.image,
            all_topics_answers=AllTopicsAnswers(self.image, self._environment.workers),
            replicas=self._replicas,
            directories=self._directories,
            topics=self._topics,
            fetch_sessions=FetchSessionCache(self._environment.entropy, self.image.name_of, slots),
            producer_ids=ProducerIdManager(store, self.broker_id, self._transactions.largest_producer_id),
            groups=self._groups,
            transactions=self._transactions,
            markers=self._markers,
            verification=self._make_verification(),
            store=store,
            workers=self._environment.workers,
            listening=listening,
            refusals=RateLimitedEvents(events.logger("produce"), self._environment.clock.monotonic_ms),
        )

    def _make_session(self, connection: Connection, listener: Listener) -> Session:
        values = self.config.broker
        return Session(
            connection,
            listener.name,
            self._dispatcher.begin,
            listener.session_ended,
            self._turns,
            self._queue,
            self._memory,
            frame_bytes_max=values[settings.SOCKET_REQUEST_MAX_BYTES],
            under_way_max=values[settings.ODRADEK_CONNECTION_UNANSWERED_MAX],
            scratch=self._scratch,
            trace=self._closings,
        )

    def _registration(self, endpoints: Sequence[ListenerEndpoint]) -> znodes.BrokerRegistration:
        advertised = tuple(
            znodes.RegisteredEndpoint(one.name, one.protocol.value, one.host, one.port) for one in endpoints
        )
        rack = self.config.broker[settings.BROKER_RACK]
        return znodes.BrokerRegistration(advertised, self._environment.clock.wall_ms(), rack)

    def _make_listening(self) -> Listening:
        environment = self._environment
        return Listening(
            self.config, environment.network, environment.clock, environment.host_name, self._make_session
        )

    async def _register(self, store: Store, listening: Listening) -> None:
        await store.ensure_path(znode_paths.BROKER_IDS)
        registration = self._registration(listening.endpoints)
        self._broker_epoch = await register_broker(store, self.broker_id, registration)
        listening.on_advertised = partial(self._register_again, store)

    async def _register_again(self, store: Store, endpoints: Sequence[ListenerEndpoint]) -> None:
        """Have clients told of other endpoints."""
        await update_registration(store, self.broker_id, self._registration(endpoints))
        if self._controller is not None:
            self._controller.on_broker_modified()

    async def _stand_for_controller(self, store: Store) -> None:
        fence = await elect(store, self.broker_id, self._environment.clock.wall_ms())
        if fence is None:
            raise ConfigError(
                ["another broker is the controller of this store; there can be only one broker"]
            )
        channel = LocalControllerChannel(
            self.broker_id,
            self.image,
            self._replicas,
            self._topics,
            self._groups.forget,
            self._environment.on_resized,
        )
        self._controller = Controller(store, fence, channel, self._environment.clock.sleep_ms)
        await self._controller.start()

    def _list_chores(self, changes: ConfigChanges) -> list[Chore]:
        values = self.config.broker
        idle_ms = values[settings.CONNECTIONS_MAX_IDLE_MS]
        idle_check_ms = min(max(idle_ms // 4, 10), 60_000) if idle_ms >= 0 else 60_000
        return [
            Chore("close_idle", idle_check_ms, self._close_idle),
            Chore("close_stalled", STALLED_CHECK_MS, self._close_stalled),
            *Upkeep(self._directories, self.config, self._environment.clock).chores(),
            Chore("retry_flushes", SOON_MS, self._replicas.retry_flushes),
            Chore("retry_offline_partitions", UNPLACED_RETRY_MS, self._retry_unplaced),
            Chore("delete_expired_config_changes", 300_000, changes.forget_old),
        ]

    # Chores.

    async def _close_idle(self) -> None:
        idle_ms = self.config.broker[settings.CONNECTIONS_MAX_IDLE_MS]
        if idle_ms >= 0:
            now_ms = self._environment.clock.monotonic_ms()
            for listener in self._listening or ():
                listener.close_idle(now_ms, idle_ms)

    async def _close_stalled(self) -> None:
        self._memory.close_stalled(self._environment.clock.monotonic_ms())

    async def _retry_unplaced(self) -> None:
        placed = await self._replicas.retry_offline_partitions()
        if placed and self._controller is not None:
            self._controller.on_replicas_online(self.broker_id, placed)

    # Failures.

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Whoever found out is in the middle of something: act once that is done."""
        asyncio.get_running_loop().call_soon(self._take_offline, directory)

    def _take_offline(self, directory: LogDirectory) -> None:
        lost = self._replicas.handle_log_dir_failure(directory)
        directory.abandon()
        log.error(
            "directory_failed",
            path=directory.path,
            reason=str(directory.failure),
            partitions=len(lost),
            serving=len(self._directories),
        )
        if not self._directories:
            self.all_failed.set()
        elif self._controller is not None:
            self._controller.on_replicas_offline(self.broker_id, lost)

    # Stop.

    async def stop(self) -> None:
        """Stop in order. Whatever was started is stopped, even after a start that failed half way."""
        if self._cleaner is not None:
            await self._cleaner.stop()
        await self._chores.stop()
        await self._finish_requests()
        if self._controller is not None:
            await self._controller.stop()
        failures = await self._close_directories()
        if self._ensemble is not None:
            await self._ensemble.close()
        if failures:
            raise failures[0]
        log.info("stopped", broker=self.broker_id)

    async def _close_directories(self) -> list[StorageError]:
        """Close them all, so that one that cannot be closed does not cost the others a recovery."""
        failures = []
        threads = self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        self._directories.on_failure = lambda _: None  # nobody is served any longer
        for directory in self._directories:
            try:
                await directory.close(broker_epoch=self._broker_epoch, threads=threads)
            except StorageError as failed:
                log.error("directory_not_closed", path=directory.path, reason=str(failed))
                failures.append(failed)
        return failures

    async def _finish_requests(self) -> None:
        if self._listening is None:
            return
        self._listening.stop_reading()
        await self._transactions.stop()
        await self._groups.stop()
        await self._replicas.alter_log_dirs.stop()
        self._replicas.complete_all_delayed()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._replicas.drain_appends()
                # What was appended just now may wait for replicas.
                self._replicas.complete_all_delayed()
                await self._dispatcher.settle()
                # A fetch that waited for the disk may have come to wait for records.
                self._replicas.complete_all_delayed()
                await self._dispatcher.settle()
                await self._replicas.drain_flushes()
        self._timer_driver.stop()
        await self._listening.close_sessions()
