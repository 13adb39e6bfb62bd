"""The broker: its components, wired together and started and stopped in order.

Start: lock the log directories, open the store, resolve broker id and cluster id, read dynamic configs, load
the logs, bind the listeners, register, elect the controller. Stop in reverse: stop accepting, complete
in-flight requests, close the logs, write the clean shutdown marker, close the store session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.broker.acl_manager import AclManager, make_acl_manager
from odradek.broker.audit import AuditLog
from odradek.broker.client_configs import ClientConfigs
from odradek.broker.components import ComponentFactory, Replication
from odradek.broker.dynamic_config import DynamicConfigManager
from odradek.broker.environment import Environment
from odradek.broker.handlers import HANDLERS
from odradek.broker.inter_broker.broker_requests import InterBrokerRequests
from odradek.broker.inter_broker.controlled_shutdown import ControlledShutdownSettings, shut_down_controlled
from odradek.broker.inter_broker.finalized_features import FinalizedFeatureListener
from odradek.broker.inter_broker.log_dir_notifications import LogDirNotifier
from odradek.broker.membership import NO_EPOCH, Membership
from odradek.broker.metadata_observer import observe_metadata
from odradek.broker.network.listener import ConnectionThrottling
from odradek.broker.network.session_factory import SessionFactory
from odradek.broker.network.session_muter import SessionMuter
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.requests.audited_apis import audited
from odradek.broker.requests.context import BrokerContext
from odradek.broker.requests.dispatcher import Dispatcher, LocalSession
from odradek.broker.requests.metered_dispatch import enforce_quotas
from odradek.broker.requests.request_meter import RequestMeters
from odradek.broker.scheduled_tasks import ScheduledTask, TaskScheduler
from odradek.broker.scram_credentials import ScramCredentialCache
from odradek.broker.start_checks import (
    broker_id_rules,
    check_addresses,
    check_identity,
    check_settings,
    is_store_shared,
    metadata_version,
    store_path,
    were_used,
)
from odradek.broker.storage.log_dir_failures import LogDirFailureHandler
from odradek.broker.storage.log_directories import (
    close_directories,
    load_logs,
    read_meta_properties,
    write_meta_properties,
)
from odradek.broker.storage.log_maintenance import SHORT_INTERVAL_MS, LogMaintenance
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.admin import AdminManager
from odradek.broker.topics.metadata_responses import AllTopicsResponseCache
from odradek.broker.topics.missed_deletions import MissedDeletions
from odradek.cluster.metadata_cache import MetadataCache
from odradek.config import broker as settings
from odradek.config import derived
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import (
    ListenerEndpoint,
    listeners,
    new_anonymous_access_problems,
    protocol_of,
)
from odradek.controller.controller import Controller
from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.log_manager import LogManager
from odradek.log.recovery.load_progress import LoadProgress
from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.net.broker_connection import Handshake
from odradek.ports.network import Network
from odradek.replication.replica_manager import ReplicaManager
from odradek.store import meta_properties
from odradek.store.broker_registration import create_or_get_cluster_id, read_cluster_id, resolve_broker_id
from odradek.store.controller_election import Fence
from odradek.store.layout import znodes
from odradek.store.port import Store
from odradek.store.producer_id_manager import ProducerIdManager, advance_block_above
from odradek.store.transfer.transfer_mark import check_unmarked
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.version import VERSION

if TYPE_CHECKING:
    from odradek.broker.security.broker_security import BrokerSecurity
    from odradek.broker.security.delegation_tokens import DelegationTokens
    from odradek.broker.security.listener_security import ListenerSecurity
    from odradek.security.sasl.scram_server import TokenCredential

STOP_TIMEOUT_S: Final = 30
"""Time for in-flight requests to complete when the broker stops."""
STALLED_CHECK_MS: Final = 5_000
"""Interval of the check for an incomplete request that blocks other connections."""
OFFLINE_PARTITION_RETRY_MS: Final = 5_000
"""Retry interval for new partitions that no log directory had space for."""

log = events.logger("broker")


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
        self._membership: Membership | None = None
        self._requests: InterBrokerRequests | None = None
        self._log_dir_notifier: LogDirNotifier | None = None
        self._missed_deletions: MissedDeletions | None = None
        self._producer_ids: ProducerIdManager | None = None
        self._acl_manager: AclManager | None = None
        self._delegation_tokens: DelegationTokens | None = None
        self._replication: Replication | None = None
        self._socket_server: SocketServer | None = None
        self._task_scheduler = TaskScheduler(environment.clock)
        self._cleaner: LogCleaner | None = None
        self._made_security: BrokerSecurity | None = None
        self._audit = AuditLog(environment.clock)
        self._is_serving = False
        self._is_start_complete = False

    @property
    def log_dirs(self) -> list[str]:
        """Online log directories."""
        return [directory.path for directory in self._log_manager]

    @property
    def partition_count(self) -> int:
        """Number of partitions with a replica on this broker."""
        return len(self._replica_manager)

    @property
    def replica_manager(self) -> ReplicaManager:
        """Replicas of this broker, once it has started."""
        return self._replica_manager

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
        static = self.config.broker
        check_settings(static, self.config.static)
        self._check_security(static)
        is_known = await self._open_directories()
        ensemble = self._environment.open_store(store_path(self._log_manager.paths))
        membership = self._membership = Membership(
            ensemble,
            self._environment.clock,
            is_shared=is_store_shared(static),
            metadata_version=metadata_version(static),
        )
        # Only a running broker can free space on a full disk.
        ensemble.defers_writes = True
        await membership.connect()
        await check_unmarked(membership.store, is_shared=membership.is_shared)
        await self._resolve_identity(membership.store)
        config_manager = self._make_config_manager(membership)
        await config_manager.load()
        self._acl_manager = make_acl_manager(self.config, membership, self._environment.clock)
        if self._acl_manager is not None:
            await self._acl_manager.load()
        await self._load_delegation_tokens(membership)
        await self._check_listeners(static, is_known=is_known)
        await self._load_logs()
        if not membership.is_shared:
            largest = self._log_manager.largest_producer_id
            await advance_block_above(membership.store, self.broker_id, largest)
        socket_server = self._make_components(membership)
        config_manager.attach(self._replica_manager, socket_server)
        config_manager.on_unclean_election_enabled = self._on_unclean_election_enabled
        if membership.is_shared:
            self._replica_manager.state_changes.load_topic_configs = config_manager.load_topics
        await socket_server.open()
        if self._made_security is not None:
            await self._made_security.load()
        await self._join(membership, socket_server, config_manager)
        ensemble.defers_writes = False
        # Not earlier: a client would believe a Metadata response without brokers and topics.
        socket_server.serve()
        self._is_serving = self._is_start_complete = True
        self._task_scheduler.start(self._list_tasks(config_manager))
        if self._cleaner is not None:
            self._cleaner.start()
        self._log_started()

    async def _open_directories(self) -> bool:
        """Lock the log directories, after all checks that need no lock.

        Return whether a broker has used all of them before: the store may then override the listeners.
        """
        files, network = self._environment.files, self._environment.network
        log_dirs = list(map(files.absolute, derived.log_dirs(self.config.broker)))
        values = self.config.broker
        check_identity(files, log_dirs, broker_id_rules(values), is_shared=is_store_shared(values))
        is_known = were_used(files, log_dirs)
        if not is_known:
            await check_addresses(network, listeners(values).bound)
        self._log_manager = LogManager.open(files, log_dirs, self._environment.entropy)
        return is_known

    async def _check_listeners(self, static: Settings, *, is_known: bool) -> None:
        """Check dynamically configured listeners, and that the addresses are free."""
        values = self.config.broker
        if problems := new_anonymous_access_problems(static, values):
            raise ConfigError(problems)
        self._check_security(values)
        if is_known:  # a second broker on the same data fails at the directory lock, with the better error
            is_dynamic = settings.LISTENERS.name in self.config.broker_overrides
            origin = " (set by AlterConfigs for this broker)" if is_dynamic else ""
            await check_addresses(self._environment.network, listeners(values).bound, origin)

    async def _resolve_identity(self, store: Store) -> None:
        """Resolve cluster id and broker id from the store, the settings and meta.properties."""
        environment = self._environment
        properties = read_meta_properties(environment.files, self._log_manager)
        # Before anything is written.
        meta_properties.check_cluster_id(properties, await read_cluster_id(store))
        self.broker_id = await resolve_broker_id(store, broker_id_rules(self.config.broker), properties)
        self.cluster_id = await create_or_get_cluster_id(store, environment.entropy)
        now_ms = environment.clock.wall_ms()
        write_meta_properties(environment.files, self._log_manager, self.broker_id, self.cluster_id, now_ms)
        self.config.set_broker_id(self.broker_id)

    def _make_config_manager(self, membership: Membership) -> DynamicConfigManager:
        clock = self._environment.clock
        self._timer_driver = TimerDriver(clock)
        self._admin_manager = AdminManager(
            membership, self.metadata_cache, self.config, self._timer_driver, clock, self._environment.entropy
        )
        values = self.config.broker
        self._client_configs = ClientConfigs(
            QuotaManagers(values, clock.monotonic_ms), ConnectionRates(values), ScramCredentialCache()
        )
        self.config.observers.append(self._client_configs.connection_rates.update)
        return DynamicConfigManager(
            membership, self.config, self._admin_manager, self._client_configs, self.broker_id, clock
        )

    async def _load_logs(self) -> None:
        self._factory = ComponentFactory(
            self.broker_id,
            self._environment,
            self.config,
            self.metadata_cache,
            self._log_manager,
            self._timer_driver,
            self._admin_manager,
        )
        await load_logs(
            self._log_manager,
            lambda name: self._factory.log_config_of(name)[0],
            self._environment.clock,
            self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR],
            self._on_load_progress,
        )

    def _make_components(self, membership: Membership) -> SocketServer:
        """Make everything that serves requests; nothing is served yet."""
        factory, environment = self._factory, self._environment
        cleaner = self._cleaner = factory.make_cleaner()
        replica_manager = self._replica_manager = factory.make_replica_manager(cleaner)
        self._failure_handler = LogDirFailureHandler(
            self._log_manager,
            replica_manager,
            self._on_replicas_offline,
            self._on_replicas_online,
            self.all_failed.set,
        )
        self._failure_handler.start()
        self._group_coordinator = factory.make_group_coordinator(replica_manager)
        observe_metadata(
            replica_manager,
            self._admin_manager,
            self._group_coordinator.delete_offsets,
            environment.on_resized,
        )
        self._marker_writer = factory.make_marker_writer(replica_manager, self._group_coordinator)
        requests = self._requests = factory.make_requests(self._dialling)
        self._transaction_coordinator = factory.make_transaction_coordinator(
            replica_manager, self._marker_writer, requests, membership.metadata_version
        )
        self._verification_requests = factory.make_verification_requests(
            self._transaction_coordinator, requests
        )
        sessions = self._sessions = SessionFactory(self.config, environment.clock)
        self._request_queue, self._memory_pool = sessions.request_queue, sessions.memory_pool
        self._finalized_features = FinalizedFeatureListener(membership)
        if membership.is_shared:
            self._admin_manager.create_through_controller(requests, lambda: membership.is_controller)
            self._log_dir_notifier = LogDirNotifier(membership, self.broker_id, environment.clock)
            self._missed_deletions = factory.make_missed_deletions(replica_manager, membership)
            self._replication = factory.attach_replication(replica_manager, membership, requests)
        clock = environment.clock
        muter = SessionMuter(clock.monotonic_ms, self._timer_driver.wheel, self._timer_driver.arm)
        socket_server = self._socket_server = SocketServer(
            self.config,
            environment.network,
            clock,
            environment.host_name,
            sessions.make_session,
            ConnectionThrottling(self._client_configs.connection_rates, muter, clock.monotonic_ms),
            self._security_of,
        )
        context = self._make_context(membership, requests, socket_server)
        dispatcher = self._dispatcher = Dispatcher(HANDLERS, context, sessions.request_queue, audited)
        quotas = self._client_configs.quotas
        enforce_quotas(dispatcher, context, RequestMeters(quotas, muter.mute, clock.monotonic_ns))
        sessions.dispatch = dispatcher.dispatch
        local_session = LocalSession(f"broker-{self.broker_id}", factory.inter_broker_listener)
        requests.call_local = partial(dispatcher.call, session=local_session)
        return socket_server

    # Security.

    def _reload_certificates(self) -> None:
        if self._socket_server is not None:
            self._socket_server.reload_security()

    @property
    def _security(self) -> BrokerSecurity:
        """Security of listeners that are not PLAINTEXT; made and imported by the first."""
        if self._made_security is None:
            from odradek.broker.security.broker_security import BrokerSecurity

            self._made_security = BrokerSecurity(
                self.config,
                self._environment,
                self._audit,
                self._scram_credential,
                self._token_credential,
            )
        return self._made_security

    def _scram_credential(self, mechanism: str, name: str) -> str | None:
        return self._client_configs.credentials.scram_credential(mechanism, name)

    def _token_credential(self, mechanism: str, token_id: str) -> TokenCredential | None:
        tokens = self._delegation_tokens
        return None if tokens is None else tokens.credential(mechanism, token_id)

    async def _load_delegation_tokens(self, membership: Membership) -> None:
        secret = derived.delegation_token_secret(self.config.broker)
        if secret is None:
            return
        from odradek.broker.security.delegation_tokens import make_delegation_tokens

        clock, entropy = self._environment.clock, self._environment.entropy
        tokens = make_delegation_tokens(secret, self.config.broker, membership, clock, entropy)
        self._delegation_tokens = tokens
        await tokens.load()

    def _check_security(self, values: Settings) -> None:
        """Make the security of all listeners once, to report what is wrong with their settings together."""
        configured = listeners(values)
        problems: list[str] = []
        for endpoint in configured.bound:
            try:
                self._security_of(endpoint, values)
            except ConfigError as error:
                problems += error.problems
        try:
            self._dialling(configured.inter_broker)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def _security_of(self, endpoint: ListenerEndpoint, values: Settings) -> ListenerSecurity | None:
        is_plain = endpoint.protocol is SecurityProtocol.PLAINTEXT
        return None if is_plain else self._security.for_listener(endpoint, values)

    def _dialling(self, listener: str) -> tuple[Network, Handshake | None]:
        """Return how to connect to a listener of other brokers."""
        if protocol_of(self.config.broker, listener) is SecurityProtocol.PLAINTEXT:
            return self._environment.network, None
        return self._security.network(listener), self._security.handshake(listener)

    def _make_context(
        self, membership: Membership, requests: InterBrokerRequests, socket_server: SocketServer
    ) -> BrokerContext:
        clock, workers = self._environment.clock, self._environment.workers
        producer_ids = self._factory.make_producer_id_manager(
            membership, requests, self._transaction_coordinator
        )
        self._producer_ids = producer_ids
        return BrokerContext(
            broker_id=self.broker_id,
            broker_epoch=lambda: membership.broker_epoch,
            cluster_id=self.cluster_id,
            clock=clock,
            config=self.config,
            metadata_cache=self.metadata_cache,
            all_topics_cache=AllTopicsResponseCache(self.metadata_cache, workers),
            replica_manager=self._replica_manager,
            log_manager=self._log_manager,
            admin_manager=self._admin_manager,
            fetch_session_cache=self._factory.make_fetch_session_cache(self._replica_manager),
            producer_id_manager=producer_ids,
            group_coordinator=self._group_coordinator,
            transaction_coordinator=self._transaction_coordinator,
            marker_writer=self._marker_writer,
            transaction_verification=self._factory.make_transaction_verification(self._verification_requests),
            membership=membership,
            requests=requests,
            finalized_features=self._finalized_features,
            workers=workers,
            socket_server=socket_server,
            acl_manager=self._acl_manager,
            delegation_tokens=self._delegation_tokens,
            rejected_batches=RateLimitedEvents(events.logger("produce"), clock.monotonic_ms),
            client_configs=self._client_configs,
            audit=self._audit,
        )

    def _registration(self, endpoints: Sequence[ListenerEndpoint]) -> znodes.BrokerRegistration:
        advertised = tuple(
            znodes.RegisteredEndpoint(endpoint.name, endpoint.protocol.value, endpoint.host, endpoint.port)
            for endpoint in endpoints
        )
        rack = self.config.broker[settings.BROKER_RACK]
        return znodes.BrokerRegistration(advertised, self._environment.clock.wall_ms(), rack)

    async def _join(
        self, membership: Membership, socket_server: SocketServer, config_manager: DynamicConfigManager
    ) -> None:
        """Register this broker and stand for controller; the same again under each new session."""
        await membership.register(self.broker_id, lambda: self._registration(socket_server.endpoints))
        socket_server.on_advertised = self._update_registration
        membership.on_session(config_manager.reload)
        if self._acl_manager is not None:
            membership.on_session(self._acl_manager.reload)
        if self._delegation_tokens is not None:
            membership.on_session(self._delegation_tokens.reload)
        membership.on_session(self._finalized_features.load)
        self._admin_manager.is_deleting = self._is_deleting
        await membership.stand_for_controller(self._make_controller)
        await self._finalized_features.load(membership.store)

    async def _update_registration(self, endpoints: Sequence[ListenerEndpoint]) -> None:
        """Publish changed endpoints."""
        assert self._membership is not None
        await self._membership.update_registration(self._registration(endpoints))

    def _make_controller(self, store: Store, fence: Fence) -> Controller:
        assert self._membership is not None
        controller = self._factory.make_controller(
            store, fence, self._membership, self._replica_manager, self._dialling
        )
        controller.on_topic_deleted = self._admin_manager.on_topic_changed
        return controller

    def _is_controller(self) -> bool:
        return self._membership is not None and self._membership.is_controller

    def _is_deleting(self, topic: str) -> bool:
        controller = None if self._membership is None else self._membership.controller
        return controller is not None and controller.is_deleting(topic)

    def _on_unclean_election_enabled(self, topic: str | None) -> None:
        controller = None if self._membership is None else self._membership.controller
        if controller is not None:
            controller.on_unclean_election_enabled(topic)

    def _log_started(self) -> None:
        log.info(
            "started",
            version=VERSION,
            broker=self.broker_id,
            cluster=self.cluster_id,
            listeners=",".join(map(str, self.endpoints)),
            log_dirs=",".join(self.log_dirs),
        )

    # Scheduled tasks.

    def _list_tasks(self, config_manager: DynamicConfigManager) -> list[ScheduledTask]:
        idle_ms = self.config.broker[settings.CONNECTIONS_MAX_IDLE_MS]
        idle_check_ms = min(max(idle_ms // 4, 10), 60_000) if idle_ms >= 0 else 60_000
        lag_ms, replicas = self.config.broker[settings.REPLICA_LAG_TIME_MAX_MS], self._replica_manager
        isr_task = ScheduledTask("shrink_isrs", max(lag_ms // 2, 1), replicas.shrink_isrs)
        clock, on_log_start, acls = self._environment.clock, replicas.on_log_start_changed, self._acl_manager
        retry_offline, tokens = self._failure_handler.retry_offline_partitions, self._delegation_tokens
        return [
            *([] if self._replication is None else [isr_task]),
            ScheduledTask("close_idle", idle_check_ms, self._close_idle),
            *([] if self._made_security is None else self._made_security.tasks(self._reload_certificates)),
            ScheduledTask("close_stalled", STALLED_CHECK_MS, self._close_stalled),
            ScheduledTask("expire_quota_sensors", SHORT_INTERVAL_MS, self._expire_quota_sensors),
            *LogMaintenance(self._log_manager, self.config, clock, on_log_start).tasks(),
            ScheduledTask("retry_flushes", SHORT_INTERVAL_MS, replicas.retry_flushes),
            ScheduledTask("retry_offline_partitions", OFFLINE_PARTITION_RETRY_MS, retry_offline),
            ScheduledTask("delete_expired_config_changes", 300_000, config_manager.delete_expired),
            *(
                []
                if acls is None
                else [ScheduledTask("delete_expired_acl_changes", 300_000, acls.delete_expired)]
            ),
            *([] if tokens is None else tokens.tasks(self.config.broker, self._is_controller)),
        ]

    async def _close_idle(self) -> None:
        idle_ms = self.config.broker[settings.CONNECTIONS_MAX_IDLE_MS]
        if idle_ms >= 0:
            now_ms = self._environment.clock.monotonic_ms()
            for listener in self._socket_server or ():
                listener.close_idle(now_ms, idle_ms)

    async def _close_stalled(self) -> None:
        self._memory_pool.close_stalled_session(self._environment.clock.monotonic_ms())

    async def _expire_quota_sensors(self) -> None:
        self._client_configs.expire_sensors(self._environment.clock.monotonic_ms())

    # Failures.

    def _on_replicas_offline(self, partitions: Sequence[TopicPartition]) -> None:
        controller = None if self._membership is None else self._membership.controller
        if self._log_dir_notifier is not None:
            self._log_dir_notifier.notify()
        elif controller is not None:
            controller.on_replicas_offline(self.broker_id, partitions)

    def _on_replicas_online(self, partitions: Sequence[TopicPartition]) -> None:
        controller = None if self._membership is None else self._membership.controller
        if controller is not None:
            controller.on_replicas_online(self.broker_id, partitions)

    # Stop.

    async def stop(self) -> None:
        """Stop in order. Also stops what a failed start has started."""
        await self._shut_down_controlled()
        if self._cleaner is not None:
            await self._cleaner.stop()
        await self._task_scheduler.stop()
        await self._drain_requests()
        if self._producer_ids is not None:
            await self._producer_ids.stop()
        if self._replication is not None:
            await self._replication.close()
        if self._requests is not None:
            await self._requests.close()
        if self._log_dir_notifier is not None:
            await self._log_dir_notifier.stop()
        if self._missed_deletions is not None:
            await self._missed_deletions.stop()
        if self._acl_manager is not None:
            await self._acl_manager.stop()
        if self._delegation_tokens is not None:
            await self._delegation_tokens.stop()
        broker_epoch = NO_EPOCH
        if self._membership is not None:
            await self._membership.stop()
            broker_epoch = self._membership.broker_epoch
        threads = self.config.broker[settings.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        failures = await close_directories(
            self._log_manager, broker_epoch, threads, is_start_complete=self._is_start_complete
        )
        if self._membership is not None:
            await self._membership.close()
        if failures:
            raise failures[0]
        log.info("stopped", broker=self.broker_id)

    async def _shut_down_controlled(self) -> None:
        """Hand over leaderships while requests are still served. A broker without others has none to."""
        membership, requests = self._membership, self._requests
        if not self._is_serving or membership is None or requests is None or not membership.is_shared:
            return
        self._is_serving = False
        await shut_down_controlled(
            ControlledShutdownSettings.of(self.config.broker),
            self.broker_id,
            lambda: membership.broker_epoch,
            membership,
            requests,
            self._environment.clock,
            membership.metadata_version.controlled_shutdown_version,
        )

    async def _drain_requests(self) -> None:
        if self._socket_server is None:
            return
        self._socket_server.stop_reading()
        await self._verification_requests.stop()
        await self._transaction_coordinator.stop()
        await self._group_coordinator.stop()
        await self._admin_manager.stop()
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
