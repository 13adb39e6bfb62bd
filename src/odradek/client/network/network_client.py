"""A client's cluster: its metadata, its connections, and who is asked what.

One per client, on one event loop. ``ask`` finds the broker, a connection and a version, and gives the decoded
answer; error codes inside answers mean different things to different callers, and are left to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from odradek.client.environment import ClientEnvironment
from odradek.client.errors import backoff, broker_error
from odradek.client.metrics import ClientMetrics
from odradek.client.network.connection_metrics import declare_connection_metrics
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
_LOST: Final = "the event loop of this client has ended, and it was never closed: make a new one"
# Brokers that an error names if it could be any of them.
_NAMED_MAX: Final = 3


class NetworkClient:
    """Starts nothing until ``start``."""

    def __init__(self, environment: ClientEnvironment, settings: Settings, *, client_id: str) -> None:
        self.metrics = ClientMetrics()
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._settings = settings
        self._request_timeout_ms = settings[options.REQUEST_TIMEOUT_MS]
        network = environment.network(
            settings[options.SEND_BUFFER_BYTES], settings[options.RECEIVE_BUFFER_BYTES]
        )
        self._connection_pool = ConnectionPool(
            network,
            environment.clock,
            environment.entropy,
            limits_of(settings),
            client_id,
            on_disconnect=self._suspect,
        )
        interest = MetadataSchedule(
            settings[options.METADATA_MAX_AGE_MS],
            settings[options.METADATA_MAX_IDLE_MS],
            lambda attempt: backoff(attempt, settings, environment.entropy),
        )
        self._updater = MetadataUpdater(
            interest,
            environment.clock,
            lambda request: self.send(ANY_NODE, request),
            self._learned,
            may_create=settings[options.ALLOW_AUTO_CREATE_TOPICS],
            whom=self._whom,
        )
        self._coordinators = CoordinatorLookup(
            lambda request: self.send(ANY_NODE, request), self._rest, self._place_coordinator
        )
        self._bootstrap = [
            (bootstrap_id(index), *address)
            for index, address in enumerate(options.bootstrap_addresses(settings))
        ]
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_lost = False
        self.abandoned: Callable[[], None] | None = None
        """Called if the event loop ends without ``close``, while there is still time to tell somebody."""
        declare_connection_metrics(self.metrics, self._connection_pool, self._age_s)

    # Life.

    async def start(self) -> None:
        """Begin to learn about the cluster; does not wait for it. May be called again."""
        self._check_alive()
        if self._task is None:
            for peer_id, host, port in self._bootstrap:
                self._connection_pool.put_node(peer_id, host, port, f"{host}:{port}")
            self._task = asyncio.get_running_loop().create_task(self._updater.run(), name="metadata")
            self._task.add_done_callback(self._has_ended)

    async def close(self) -> None:
        """End connections and tasks; whatever waits fails with ``ClientClosed``."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._updater.fail_waiting(ClientClosed(_CLOSED))
        await self._connection_pool.close(ClientClosed(_CLOSED))

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        """The task goes on until it is cancelled: by ``close``, or by a loop that ends all its tasks."""
        del task
        self._is_lost = not self._is_closed
        if self._is_lost and self.abandoned is not None:
            self.abandoned()

    def _check_alive(self) -> None:
        if self._is_closed or self._is_lost:
            raise ClientClosed(_LOST if self._is_lost else _CLOSED)

    def _check(self) -> None:
        self._check_alive()
        if self._task is None:
            raise InvalidState("the client has not been started")

    # The metadata.

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster as it was last told."""
        return self._updater.metadata

    def raise_fatal_error(self) -> None:
        """Raise why metadata cannot be had, if waiting will not change that."""
        trouble = self._updater.trouble
        if trouble is not None and not trouble.retriable:
            raise copy(trouble)

    def track_topics(self, topics: Iterable[str], *, expires: bool = False) -> None:
        """Ask about these topics too; with ``expires``, until they are not named here for long."""
        if self._updater.interest.follow(topics, self._clock.monotonic_ms(), expires=expires):
            self._updater.wake()

    def track_only_topics(self, topics: Iterable[str]) -> None:
        """Ask about these topics and no others."""
        if self._updater.interest.track_only_topics(topics, self._clock.monotonic_ms()):
            self._updater.wake()

    def track_all_topics(self, wanted: bool) -> None:
        """Ask about all topics there are, or again about those in use alone."""
        if self._updater.interest.track_all_topics(wanted, self._clock.monotonic_ms()):
            self._updater.wake()

    def request_update(self) -> int:
        """Ask for metadata soon; gives the version that its answer will be beyond."""
        return self._updater.request()

    async def await_update(self, beyond: int, timeout_ms: int) -> ClusterMetadata:
        """The metadata once it is newer than a version; raises TimedOut."""
        self._check()
        return await self._updater.refreshed(beyond, timeout_ms)

    async def wait_for_topic(
        self, name: str, timeout_ms: int, *, partition: int | None = None, expires: bool = False
    ) -> TopicMetadata:
        """A topic once it is known, and once it has this partition; followed from now on as by ``follow``.

        Raises at once what waiting cannot mend, a partition that a fresh answer does not have included, and
        UnknownTopic or TimedOut when the time is over.
        """
        self._check()
        if not _can_be_written(name):
            # It would spoil every question about other topics as well.
            raise broker_error(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r}")
        if expires or not self._updater.interest.wants(name):
            self.track_topics([name], expires=expires)
        return await self._updater.topic(name, timeout_ms, partition)

    def add_listener(self, listener: Callable[[ClusterMetadata], None]) -> None:
        """Call this after each new metadata."""
        self._updater.listen(listener)

    def remove_listener(self, listener: Callable[[ClusterMetadata], None]) -> None:
        self._updater.remove_listener(listener)

    def update_leader(
        self, partition: TopicPartition, node_id: int, leader_epoch: int, endpoints: Collection[Node] = ()
    ) -> bool:
        """Take over a leader that a broker named in passing; says whether that was news."""
        changed = with_leader(self.metadata, partition, node_id, leader_epoch, endpoints)
        if changed is None:
            return False
        self._updater.publish(changed)
        return True

    def observe_leader_epoch(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Ask for metadata if an answer has a later epoch than the metadata; says whether it has.

        Where no epoch is known, as of old brokers, none is later.
        """
        is_later = NO_LEADER_EPOCH < self.metadata.leader(partition)[1] < leader_epoch
        if is_later:
            self.request_update()
        return is_later

    def _suspect(self) -> None:
        """A connection was lost: who leads what may be different now."""
        self._updater.request()

    def _age_s(self) -> float:
        return (self._clock.monotonic_ms() - self._updater.refreshed_ms) / 1000

    def _learned(self, metadata: ClusterMetadata) -> None:
        """Brokers may have moved, or left; bootstrap addresses have done their work."""
        for node in metadata.nodes.values():
            self._connection_pool.put_node(node.id, node.host, node.port, str(node))
        if not metadata.nodes:
            return
        for peer_id, _, _ in self._bootstrap:
            self._connection_pool.close_unused(peer_id)
        needed = {*metadata.nodes, *self._coordinators.node_ids(), *(one[0] for one in self._bootstrap)}
        for peer_id in [one for one in self._connection_pool.node_ids() if one not in needed]:
            if not self._connection_pool.node_status(peer_id).in_flight:
                self._connection_pool.remove_node(peer_id)

    # Asking.

    async def send(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> Any:
        """Send a request and give its answer, decoded.

        ``timeout_ms`` bounds the wait for a connection and, from when it was sent, that for the answer; an
        overdue answer ends the connection. Raises ConnectionFailed, TimedOut, UnsupportedVersion or
        ClientClosed.
        """
        self._check()
        timeout_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        failed: dict[int, ConnectionFailed] = {}
        while True:
            target = await self._target(node_id, failed, deadline_ms)
            answer = self._connection_pool.send(target, request, timeout_ms, version_max=version_max)
            if answer is not None:
                return await answer
            try:
                await self._connection_pool.ready(target, max(deadline_ms - self._clock.monotonic_ms(), 0))
            except ConnectionFailed as reason:
                failed[target] = reason
                if node_id != ANY_NODE or not self._candidates(failed):
                    self._raise_if_unresolved(failed.values())
                    raise

    def _raise_if_unresolved(self, failures: Collection[ConnectionFailed]) -> None:
        """No host name of the first contact exists. Those of a cluster that was met may be back soon."""
        unknown = [each.__cause__ for each in failures if isinstance(each.__cause__, UnknownHost)]
        if not self.metadata.nodes and len(unknown) == len(failures):
            causes = [f"{each.broker} ({why.reason})" for each, why in zip(failures, unknown, strict=True)]
            raise UnresolvedBootstrap(f"no host in bootstrap.servers resolves: {', '.join(causes)}")

    def send_if_ready(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        expects_response: bool = True,
    ) -> asyncio.Future[Any] | None:
        """Send a request at once if its broker is ready for it, in the order of calls; else give None."""
        return self._connection_pool.send(
            node_id, request, timeout_ms, version_max=version_max, expects_response=expects_response
        )

    def is_ready(self, node_id: int) -> bool:
        """Whether ``begin`` would send now."""
        return self._connection_pool.is_ready(node_id)

    async def wait_until_ready(self, node_id: int, timeout_ms: int) -> None:
        """Wait until ``begin`` can send; raises ConnectionFailed as soon as an attempt to connect fails."""
        self._check()
        await self._connection_pool.ready(node_id, timeout_ms)

    def versions(self, node_id: int) -> Mapping[int, range]:
        """Versions that a broker offers by API; empty while it is not connected."""
        return self._connection_pool.versions(node_id)

    def broker_name(self, node_id: int) -> str:
        """A broker as it is called in errors."""
        return self._connection_pool.name(node_id)

    async def _target(self, node_id: int, failed: Collection[int], deadline_ms: int) -> int:
        if node_id == ANY_NODE:
            standings = [self._connection_pool.node_status(one) for one in self._candidates(failed)]
            first = self._entropy.below(len(standings)) if len(standings) > 1 else 0
            target = least_loaded_node(standings, first, self._clock.monotonic_ms())
            if target is None:
                raise ConnectionFailed("there is no broker to ask")
            return target
        if node_id == CONTROLLER:
            return await self._controller(deadline_ms)
        return node_id

    async def _controller(self, deadline_ms: int) -> int:
        while (found := self.metadata.controller_id) == NO_LEADER or found not in self.metadata.nodes:
            beyond = self.request_update()
            await self.await_update(beyond, max(deadline_ms - self._clock.monotonic_ms(), 0))
        return found

    def _candidates(self, failed: Collection[int]) -> list[int]:
        """Brokers that may be asked when any will do."""
        known = list(self.metadata.nodes)
        if not known or (self._starts_over and all(self._is_out_of_reach(one) for one in known)):
            known += [peer_id for peer_id, _, _ in self._bootstrap]
        return [one for one in known if one not in failed]

    def _whom(self) -> str:
        return " or ".join(self._connection_pool.name(one) for one in self._candidates(())[:_NAMED_MAX])

    @property
    def _starts_over(self) -> bool:
        return self._settings[options.METADATA_RECOVERY_STRATEGY].lower() == "rebootstrap"

    def _is_out_of_reach(self, node_id: int) -> bool:
        node_status = self._connection_pool.node_status(node_id)
        return node_status.failures > 0 and not node_status.is_ready

    # CoordinatorLookup.

    async def coordinator(self, kind: CoordinatorType, key: str, timeout_ms: int) -> int:
        """The node that looks after a group or a transactional id; asked for until it is known."""
        found = self._coordinators.get(kind, key)
        return (await self.coordinators(kind, [key], timeout_ms))[key] if found is None else found

    async def coordinators(
        self, kind: CoordinatorType, keys: Sequence[str], timeout_ms: int
    ) -> dict[str, int]:
        """The same for many keys; brokers that can answer for all at once are asked so."""
        self._check()
        return await self._coordinators.find(kind, keys, timeout_ms)

    def mark_coordinator_unknown(self, kind: CoordinatorType, key: str) -> None:
        """It is no longer the coordinator, or was not: ask again next time."""
        self._coordinators.forget(kind, key)

    def _place_coordinator(self, kind: CoordinatorType, found: CoordinatorResult) -> int:
        is_group = kind is CoordinatorType.GROUP
        peer_id = group_connection_id(found.node_id) if is_group else found.node_id
        self._connection_pool.put_node(
            peer_id, found.host, found.port, str(Node(found.node_id, found.host, found.port))
        )
        return peer_id

    async def _rest(self, attempt: int) -> None:
        await self._clock.sleep_ms(backoff(attempt, self._settings, self._entropy))


def _can_be_written(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def limits_of(settings: Settings) -> ConnectionSettings:
    """How connections are made and kept, by the options."""
    return ConnectionSettings(
        request_timeout_ms=settings[options.REQUEST_TIMEOUT_MS],
        reconnect_backoff_ms=settings[options.RECONNECT_BACKOFF_MS],
        reconnect_backoff_max_ms=settings[options.RECONNECT_BACKOFF_MAX_MS],
        setup_timeout_ms=settings[options.SOCKET_CONNECTION_SETUP_TIMEOUT_MS],
        setup_timeout_max_ms=settings[options.SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS],
        idle_max_ms=settings[options.CONNECTIONS_MAX_IDLE_MS],
        in_flight_max=settings[options.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION],
    )
