"""Sends a client's requests to brokers, and owns its metadata and connections.

One per client, on one event loop. ``send`` finds the broker, a connection and a version, and returns the
decoded response. Error codes inside responses mean different things to different callers, and are left to
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from odradek.client.environment import ClientEnvironment
from odradek.client.errors import backoff, broker_error
from odradek.client.metrics import ClientMetrics
from odradek.client.network.connection_security import secured
from odradek.client.network.coordinator_lookup import CoordinatorLookup, CoordinatorResult
from odradek.client.network.metadata import ClusterMetadata, TopicMetadata, with_leader
from odradek.client.network.metadata_schedule import MetadataSchedule
from odradek.client.network.metadata_updater import MetadataUpdater
from odradek.client.network.node_selection import (
    ANY_NODE,
    CONTROLLER,
    CoordinatorType,
    bootstrap_id,
    group_connection_id,
    least_loaded_node,
)
from odradek.client.values import Node
from odradek.config.client import connection as options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientClosed, ConnectionFailed, InvalidState, UnresolvedBootstrap
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, TopicPartition
from odradek.net.connection_pool import ConnectionPool
from odradek.net.connection_state import ConnectionSettings
from odradek.ports.network import UnknownHost

__all__ = ["ANY_NODE", "CONTROLLER", "NetworkClient", "ClusterMetadata", "CoordinatorType", "TopicMetadata"]

_CLOSED: Final = "the client has been closed"
_LOST: Final = "the event loop of this client ended before the client was closed; create a new client"
# Brokers named in an error that could be about any of them.
_NAMED_MAX: Final = 3


class NetworkClient:
    """Metadata and connections of one client. Inactive until ``start``."""

    def __init__(self, environment: ClientEnvironment, settings: Settings, *, client_id: str) -> None:
        self.metrics = ClientMetrics()
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._settings = settings
        self._request_timeout_ms = settings[options.REQUEST_TIMEOUT_MS]
        network = environment.network(
            settings[options.SEND_BUFFER_BYTES], settings[options.RECEIVE_BUFFER_BYTES]
        )
        network, handshake = secured(network, settings, environment)
        self._connection_pool = ConnectionPool(
            network,
            environment.clock,
            environment.entropy,
            _connection_settings(settings),
            client_id,
            handshake,
            on_disconnect=self._on_connection_lost,
        )
        schedule = MetadataSchedule(
            settings[options.METADATA_MAX_AGE_MS],
            settings[options.METADATA_MAX_IDLE_MS],
            lambda attempt: backoff(attempt, settings, environment.entropy),
        )
        self._updater = MetadataUpdater(
            schedule,
            environment.clock,
            lambda request: self.send(ANY_NODE, request),
            self._on_metadata_update,
            allow_auto_create=settings[options.ALLOW_AUTO_CREATE_TOPICS],
            candidates=self._candidate_names,
        )
        self._coordinators = CoordinatorLookup(
            lambda request, avoided: self.send(ANY_NODE, request, avoided=avoided),
            self._back_off,
            self._add_coordinator,
        )
        self._bootstrap = [
            (bootstrap_id(index), *address)
            for index, address in enumerate(options.bootstrap_addresses(settings))
        ]
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_lost = False
        self.on_loop_ended: Callable[[], None] | None = None
        """Called if the event loop ends without ``close``, while callbacks can still run."""
        declare_connection_metrics(self.metrics, self._connection_pool, self._metadata_age_s)

    # Lifecycle.

    async def start(self) -> None:
        """Start the metadata updates, without waiting for the first. May be called again."""
        self._check_alive()
        if self._task is None:
            for node_id, host, port in self._bootstrap:
                self._connection_pool.put_node(node_id, host, port, f"{host}:{port}")
            self._task = asyncio.get_running_loop().create_task(self._updater.run(), name="metadata")
            self._task.add_done_callback(self._on_task_ended)

    async def close(self) -> None:
        """Close connections and end tasks; pending calls fail with ``ClientClosed``."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._updater.fail_waiting(ClientClosed(_CLOSED))
        await self._connection_pool.close(ClientClosed(_CLOSED))

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        """Note the end of the loop: the task only ends when ``close`` or the end of the loop cancels it."""
        del task
        self._is_lost = not self._is_closed
        if self._is_lost and self.on_loop_ended is not None:
            self.on_loop_ended()

    def _check_alive(self) -> None:
        if self._is_closed or self._is_lost:
            raise ClientClosed(_LOST if self._is_lost else _CLOSED)

    def _check(self) -> None:
        self._check_alive()
        if self._task is None:
            raise InvalidState("the client must be started first; call start()")

    # Metadata.

    @property
    def metadata(self) -> ClusterMetadata:
        return self._updater.metadata

    def raise_fatal_error(self) -> None:
        """Raise the last error of the metadata updates, if it is not retriable."""
        error = self._updater.last_error
        if error is not None and not error.retriable:
            raise copy(error)

    def track_topics(self, topics: Iterable[str], *, expires: bool = False) -> None:
        """Add topics to the metadata requests; with ``expires``, until they are idle for long."""
        if self._updater.schedule.track_topics(topics, self._clock.monotonic_ms(), expires=expires):
            self._updater.wakeup()

    def track_only_topics(self, topics: Iterable[str]) -> None:
        """Request metadata of these topics and no others."""
        if self._updater.schedule.track_only_topics(topics, self._clock.monotonic_ms()):
            self._updater.wakeup()

    def track_all_topics(self, enabled: bool) -> None:
        """Request metadata of all topics, or only of the tracked ones again."""
        if self._updater.schedule.track_all_topics(enabled, self._clock.monotonic_ms()):
            self._updater.wakeup()

    def request_update(self) -> int:
        """Request metadata soon; return the version that the response will exceed."""
        return self._updater.request_update()

    async def await_update(self, last_version: int, timeout_ms: int) -> ClusterMetadata:
        """Return the metadata once it is newer than a version; raise TimedOut."""
        self._check()
        return await self._updater.await_update(last_version, timeout_ms)

    async def wait_for_topic(
        self, name: str, timeout_ms: int, *, partition: int | None = None, expires: bool = False
    ) -> TopicMetadata:
        """Return a topic once it is known and has this partition; it is tracked from now on.

        Non-retriable errors are raised immediately, also for a partition that is missing after an update;
        UnknownTopic or TimedOut after the timeout.
        """
        self._check()
        if not _is_encodable(name):
            # It would fail every metadata request, also those for other topics.
            raise broker_error(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r}")
        if expires or not self._updater.schedule.retains(name):
            self.track_topics([name], expires=expires)
        return await self._updater.wait_for_topic(name, timeout_ms, partition)

    def add_listener(self, listener: Callable[[ClusterMetadata], None]) -> None:
        """Call a function after each update."""
        self._updater.add_listener(listener)

    def remove_listener(self, listener: Callable[[ClusterMetadata], None]) -> None:
        self._updater.remove_listener(listener)

    def update_leader(
        self, partition: TopicPartition, node_id: int, leader_epoch: int, endpoints: Collection[Node] = ()
    ) -> bool:
        """Take the current leader from another response; return whether it is newer."""
        changed = with_leader(self.metadata, partition, node_id, leader_epoch, endpoints)
        if changed is None:
            return False
        self._updater.publish(changed)
        return True

    def observe_leader_epoch(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Request metadata if a response has a newer leader epoch; return whether it has.

        Never newer where no epoch is known, as with old brokers.
        """
        is_newer = NO_LEADER_EPOCH < self.metadata.leader(partition)[1] < leader_epoch
        if is_newer:
            self.request_update()
        return is_newer

    def _on_connection_lost(self) -> None:
        """Request metadata: leaders may have moved."""
        self._updater.request_update()

    def _metadata_age_s(self) -> float:
        return (self._clock.monotonic_ms() - self._updater.updated_ms) / 1000

    def _on_metadata_update(self, metadata: ClusterMetadata) -> None:
        """Update the addresses of nodes, drop removed ones, and retire the bootstrap connections."""
        for node in metadata.nodes.values():
            self._connection_pool.put_node(node.id, node.host, node.port, str(node))
        if not metadata.nodes:
            return
        for node_id, _, _ in self._bootstrap:
            self._connection_pool.close_unused(node_id)
        needed = {
            *metadata.nodes,
            *self._coordinators.node_ids(),
            *(node_id for node_id, _, _ in self._bootstrap),
        }
        for node_id in [known_id for known_id in self._connection_pool.node_ids() if known_id not in needed]:
            if not self._connection_pool.node_status(node_id).in_flight:
                self._connection_pool.remove_node(node_id)

    # Requests.

    async def send(
        self,
        node_id: int,
        request: object,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        avoided: Collection[int] = (),
    ) -> Any:
        """Send a request and return its decoded response.

        ``timeout_ms`` bounds the wait for a connection and, once sent, the wait for the response; an overdue
        response closes the connection. A request to ``ANY_NODE`` goes to an ``avoided`` node only if all
        others are known to be unreachable.

        Raises ConnectionFailed, TimedOut, UnsupportedVersion or ClientClosed.
        """
        self._check()
        timeout_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        failed: dict[int, ConnectionFailed] = {}
        while True:
            target = await self._target(node_id, failed, avoided, deadline_ms)
            response = self._connection_pool.send(target, request, timeout_ms, version_max=version_max)
            if response is not None:
                return await response
            try:
                await self._connection_pool.ready(target, max(deadline_ms - self._clock.monotonic_ms(), 0))
            except ConnectionFailed as failure:
                failed[target] = failure
                if node_id != ANY_NODE or not self._candidates(failed):
                    self._raise_if_unresolved(failed.values())
                    raise

    def _raise_if_unresolved(self, failures: Collection[ConnectionFailed]) -> None:
        """Raise if no bootstrap host resolves. Hosts of known brokers may resolve again soon."""
        unknown = [failure.__cause__ for failure in failures if isinstance(failure.__cause__, UnknownHost)]
        if not self.metadata.nodes and len(unknown) == len(failures):
            causes = [
                f"{failure.broker} ({cause.reason})" for failure, cause in zip(failures, unknown, strict=True)
            ]
            raise UnresolvedBootstrap(f"no host in bootstrap.servers resolves: {', '.join(causes)}")

    def send_if_ready(
        self,
        node_id: int,
        request: object,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        expects_response: bool = True,
        prompt: bool = False,
    ) -> Any:
        """Send a request immediately, in the order of calls; return None if the broker is not ready.

        Returns a future of the decoded response; with ``prompt``, a PromptResponse.
        """
        return self._connection_pool.send(
            node_id,
            request,
            timeout_ms,
            version_max=version_max,
            expects_response=expects_response,
            prompt=prompt,
        )

    def is_ready(self, node_id: int) -> bool:
        """Return whether ``send_if_ready`` would send now."""
        return self._connection_pool.is_ready(node_id)

    async def wait_until_ready(self, node_id: int, timeout_ms: int) -> None:
        """Wait until ``send_if_ready`` can send; raise ConnectionFailed if connecting fails."""
        self._check()
        await self._connection_pool.ready(node_id, timeout_ms)

    def versions(self, node_id: int) -> Mapping[int, range]:
        """Return the versions that a broker supports by API key; empty while it is not connected."""
        return self._connection_pool.versions(node_id)

    def broker_name(self, node_id: int) -> str:
        """Return the name of a broker for error messages."""
        return self._connection_pool.name(node_id)

    async def _target(
        self, node_id: int, failed: Collection[int], avoided: Collection[int], deadline_ms: int
    ) -> int:
        if node_id == ANY_NODE:
            candidates = self._candidates(failed)
            others = [
                candidate
                for candidate in candidates
                if candidate not in avoided and not self._is_unreachable(candidate)
            ]
            nodes = [self._connection_pool.node_status(candidate) for candidate in others or candidates]
            first = self._entropy.below(len(nodes)) if len(nodes) > 1 else 0
            target = least_loaded_node(nodes, first, self._clock.monotonic_ms())
            if target is None:
                raise ConnectionFailed("no broker available for the request")
            return target
        if node_id == CONTROLLER:
            return await self._controller(deadline_ms)
        return node_id

    async def _controller(self, deadline_ms: int) -> int:
        while (
            controller := self.metadata.controller_id
        ) == NO_LEADER or controller not in self.metadata.nodes:
            last_version = self.request_update()
            await self.await_update(last_version, max(deadline_ms - self._clock.monotonic_ms(), 0))
        return controller

    def _candidates(self, failed: Collection[int]) -> list[int]:
        """Return the nodes for a request that any broker can serve."""
        nodes = list(self.metadata.nodes)
        if not nodes or (self._rebootstraps and all(self._is_unreachable(node_id) for node_id in nodes)):
            nodes += [node_id for node_id, _, _ in self._bootstrap]
        return [node_id for node_id in nodes if node_id not in failed]

    def _candidate_names(self) -> str:
        names = [self._connection_pool.name(node_id) for node_id in self._candidates(())[:_NAMED_MAX]]
        return " or ".join(names)

    @property
    def _rebootstraps(self) -> bool:
        return self._settings[options.METADATA_RECOVERY_STRATEGY].lower() == "rebootstrap"

    def _is_unreachable(self, node_id: int) -> bool:
        status = self._connection_pool.node_status(node_id)
        return status.failures > 0 and not status.is_ready

    # Coordinators.

    async def coordinator(self, key_type: CoordinatorType, key: str, timeout_ms: int) -> int:
        """Return the coordinator of a group or transactional id, looked up if it is unknown."""
        node_id = self._coordinators.get(key_type, key)
        return (await self.coordinators(key_type, [key], timeout_ms))[key] if node_id is None else node_id

    async def coordinators(
        self, key_type: CoordinatorType, keys: Sequence[str], timeout_ms: int
    ) -> dict[str, int]:
        """Return the coordinators of many keys, with one request where brokers support it."""
        self._check()
        return await self._coordinators.find(key_type, keys, timeout_ms)

    def mark_coordinator_unknown(self, key_type: CoordinatorType, key: str) -> None:
        """Look the coordinator up again next time."""
        self._coordinators.mark_unknown(key_type, key)

    def _add_coordinator(self, key_type: CoordinatorType, result: CoordinatorResult) -> int:
        is_group = key_type is CoordinatorType.GROUP
        connection_id = group_connection_id(result.node_id) if is_group else result.node_id
        self._connection_pool.put_node(
            connection_id, result.host, result.port, str(Node(result.node_id, result.host, result.port))
        )
        return connection_id

    async def _back_off(self, attempt: int) -> None:
        await self._clock.sleep_ms(backoff(attempt, self._settings, self._entropy))


def _is_encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _connection_settings(settings: Settings) -> ConnectionSettings:
    return ConnectionSettings(
        request_timeout_ms=settings[options.REQUEST_TIMEOUT_MS],
        reconnect_backoff_ms=settings[options.RECONNECT_BACKOFF_MS],
        reconnect_backoff_max_ms=settings[options.RECONNECT_BACKOFF_MAX_MS],
        setup_timeout_ms=settings[options.SOCKET_CONNECTION_SETUP_TIMEOUT_MS],
        setup_timeout_max_ms=settings[options.SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS],
        idle_max_ms=settings[options.CONNECTIONS_MAX_IDLE_MS],
        in_flight_max=settings[options.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION],
    )


def declare_connection_metrics(
    metrics: ClientMetrics, pool: ConnectionPool, metadata_age_s: Callable[[], float]
) -> None:
    """Declare gauges over the pool's own counters, which add no work to a request."""
    traffic = pool.traffic
    table: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("connection-count", "Open connections.", lambda: pool.open_count),
        ("connection-creation-total", "Connections created.", lambda: pool.created_count),
        ("connection-close-total", "Connections closed.", lambda: pool.closed_count),
        ("request-total", "Requests sent.", lambda: traffic.request_count),
        ("response-total", "Responses received.", lambda: traffic.response_count),
        ("outgoing-byte-total", "Bytes sent.", lambda: traffic.sent_bytes),
        ("incoming-byte-total", "Bytes received.", lambda: traffic.received_bytes),
        (
            "request-latency-avg",
            "Average request latency in milliseconds.",
            lambda: _mean(traffic.latency_ms_sum, traffic.response_count),
        ),
        (
            "request-latency-max",
            "Maximum request latency in milliseconds.",
            lambda: traffic.latency_ms_max,
        ),
        (
            "throttle-time-total",
            "Total time requests were throttled by brokers, in milliseconds.",
            lambda: traffic.throttle_ms_sum,
        ),
        (
            "throttle-time-max",
            "Maximum time a request was throttled by a broker, in milliseconds.",
            lambda: traffic.throttle_ms_max,
        ),
        ("metadata-age", "Seconds since the last metadata update.", metadata_age_s),
    )
    for name, description, read in table:
        metrics.gauge(name, description, read)


def _mean(total: float, count: int) -> float:
    return total / count if count else float("nan")
