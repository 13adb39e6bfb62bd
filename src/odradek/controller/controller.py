"""The controller's runtime: it watches the store, steps the machine and executes its actions in order.

Events are queued and handled one at a time, results of an event before later events. A write that fails
because a znode changed meanwhile is not retried blindly: the partition state is read again, and the machine
decides anew. While the store is unavailable an action is retried for a while: an event with only some of
its actions executed would leave brokers and store inconsistent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from odradek.controller.actions import (
    NO_VERSION,
    Action,
    RemoveTopic,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStates,
)
from odradek.controller.controller_context import ControllerContext, LiveBroker
from odradek.controller.events import (
    BrokersChanged,
    ContextLoaded,
    ControllerEvent,
    PartitionStatesWritten,
    ReplicasDeleted,
    ReplicasOffline,
    ReplicasOnline,
    TopicDeleted,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.controller.machine import step
from odradek.model.ids import TopicPartition
from odradek.store import znode_paths
from odradek.store.broker_registration import read_brokers
from odradek.store.controller_election import ControllerMoved, Fence
from odradek.store.partition_states import (
    VersionedLeaderAndIsr,
    create_partition_states,
    read_partition_states,
    write_partition_states,
)
from odradek.store.port import NoNode, Store, StoreError, Unavailable, Watcher
from odradek.store.topics import read_marked_for_deletion, read_topics, remove_topic
from odradek.store.znodes import TopicAssignment
from odradek.telemetry import events

T = TypeVar("T")

RETRY_WAITS_MS: Final = (100, 500, 2_000, 10_000, 30_000)
"""Waits between attempts while the store is unavailable. After the last one the event is dropped."""

log = events.logger("controller")


class BrokerChannel(Protocol):
    """Requests from the controller to a broker, including its own."""

    async def leader_and_isr(self, request: SendLeaderAndIsr) -> Collection[TopicPartition]:
        """Send a LeaderAndIsr request; return the partitions that are offline on the broker."""
        ...

    async def update_metadata(self, request: SendUpdateMetadata) -> None: ...

    async def stop_replica(self, request: SendStopReplica) -> Iterable[TopicPartition]: ...


class Controller:
    """The controller on this broker, from election to resignation."""

    def __init__(
        self,
        store: Store,
        fence: Fence,
        channel: BrokerChannel,
        sleep_ms: Callable[[int], Awaitable[None]],
    ) -> None:
        self._store = store
        self._sleep_ms = sleep_ms
        self._fence = fence
        self._channel = channel
        self._context = ControllerContext(fence.controller_epoch)
        self._events: asyncio.Queue[Callable[[], Awaitable[ControllerEvent | None]]] = asyncio.Queue()
        self._watched_topics: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def controller_epoch(self) -> int:
        return self._fence.controller_epoch

    async def start(self) -> None:
        """Load the context, set watches, send the state to all brokers; then process events."""
        context = self._context
        context.brokers = await self._read_brokers()
        context.topics = await self._read_topics()
        partitions = [partition for topic in context.topics for partition in context.partitions_of(topic)]
        context.partitions = await read_partition_states(self._store, partitions)
        context.deletions = {topic: set() for topic in await self._read_deletions()}
        await self._handle(ContextLoaded())
        self._task = asyncio.get_running_loop().create_task(self._process_events())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def on_replicas_offline(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas went offline on a broker."""

        async def read() -> ControllerEvent:
            return ReplicasOffline(broker_id, partitions)

        self._events.put_nowait(read)

    def on_replicas_online(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas are online again on a broker."""

        async def read() -> ControllerEvent:
            return ReplicasOnline(broker_id, partitions)

        self._events.put_nowait(read)

    def on_broker_modified(self) -> None:
        """Queue an event: a live broker registered other endpoints."""

        async def read() -> ControllerEvent:
            return BrokersChanged(await self._read_registrations())

        self._events.put_nowait(read)

    async def _process_events(self) -> None:
        while True:
            read = await self._events.get()
            try:
                event = await self._retrying(read)
                if event is not None:
                    await self._handle(event)
            except ControllerMoved as error:
                log.warning("controller_replaced", reason=str(error))
                return
            except StoreError as error:
                log.error("controller_event_failed", reason=str(error))
            except Exception as error:  # noqa: BLE001 - the edge of a task
                log.failure("controller_event_crashed", error)

    async def _handle(self, event: ControllerEvent) -> None:
        """Step, execute the actions, and handle their results until there are none."""
        queue: deque[ControllerEvent] = deque([event])
        while queue:
            for action in step(self._context, queue.popleft()):
                result = await self._retrying(partial(self._execute, action))
                if result is not None:
                    queue.append(result)

    async def _retrying(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run idempotent work, retrying while the store is unavailable, except during startup."""
        for wait_ms in () if self._task is None else RETRY_WAITS_MS:
            try:
                return await work()
            except Unavailable as error:
                log.warning("controller_store_retry", reason=str(error), wait_ms=wait_ms)
                await self._sleep_ms(wait_ms)
        return await work()

    async def _execute(self, action: Action) -> ControllerEvent | None:
        match action:
            case WritePartitionStates():
                return PartitionStatesWritten(await self._write_states(action))
            case SendLeaderAndIsr():
                failed = await self._channel.leader_and_isr(action)
                return ReplicasOffline(action.broker_id, failed) if failed else None
            case SendUpdateMetadata():
                await self._channel.update_metadata(action)
            case SendStopReplica():
                return ReplicasDeleted(action.broker_id, await self._channel.stop_replica(action))
            case RemoveTopic():
                await remove_topic(self._store, action.topic, self._fence)
                self._watched_topics.discard(action.topic)
                log.info("topic_deleted", topic=action.topic)
                return TopicDeleted(action.topic)
        return None

    async def _write_states(
        self, action: WritePartitionStates
    ) -> dict[TopicPartition, VersionedLeaderAndIsr]:
        """Write partition states; a state that another writer has written first is adopted."""
        new_states = {
            p: w.leader_and_isr for p, w in action.writes.items() if w.expected_version == NO_VERSION
        }
        changed_states = {
            p: VersionedLeaderAndIsr(w.leader_and_isr, w.expected_version)
            for p, w in action.writes.items()
            if w.expected_version != NO_VERSION
        }
        outcomes = await create_partition_states(self._store, new_states, self._fence)
        outcomes |= await write_partition_states(self._store, changed_states, self._fence)
        written = {
            partition: VersionedLeaderAndIsr(action.writes[partition].leader_and_isr, outcome)
            for partition, outcome in outcomes.items()
            if isinstance(outcome, int)
        }
        for outcome in outcomes.values():
            if isinstance(outcome, ControllerMoved | Unavailable):
                raise outcome
        conflicting = [partition for partition in outcomes if partition not in written]
        written |= await read_partition_states(self._store, conflicting)
        return written

    # Reads after a change. Each read sets the next watch.

    def _read_later(self, read: Callable[[], Awaitable[ControllerEvent | None]]) -> Watcher:
        return lambda event: self._events.put_nowait(read)

    async def _read_brokers(self) -> dict[int, LiveBroker]:
        await self._store.ensure_path(znode_paths.BROKER_IDS)
        await self._store.watch_children(znode_paths.BROKER_IDS, self._read_later(self._on_brokers_changed))
        return await self._read_registrations()

    async def _read_registrations(self) -> dict[int, LiveBroker]:
        brokers = await read_brokers(self._store)
        return {broker_id: LiveBroker(b.registration, b.broker_epoch) for broker_id, b in brokers.items()}

    async def _on_brokers_changed(self) -> ControllerEvent:
        return BrokersChanged(await self._read_brokers())

    async def _read_topics(self) -> dict[str, TopicAssignment]:
        await self._store.ensure_path(znode_paths.TOPICS)
        topics = await read_topics(self._store, watcher=self._read_later(self._on_topics_changed))
        for topic in topics:
            if topic not in self._watched_topics:
                self._watched_topics.add(topic)
                await self._watch_topic(topic)
        return {topic: versioned.assignment for topic, versioned in topics.items()}

    async def _on_topics_changed(self) -> ControllerEvent:
        return TopicsChanged(await self._read_topics())

    async def _watch_topic(self, topic: str) -> None:
        async def on_changed() -> ControllerEvent | None:
            if topic not in self._watched_topics:
                return None
            await self._watch_topic(topic)
            topics = await read_topics(self._store, [topic])
            return TopicsChanged({name: versioned.assignment for name, versioned in topics.items()})

        with suppress(NoNode):
            await self._store.watch_data(znode_paths.topic(topic), self._read_later(on_changed))

    async def _read_deletions(self) -> set[str]:
        await self._store.ensure_path(znode_paths.DELETE_TOPICS)
        return await read_marked_for_deletion(self._store, self._read_later(self._on_deletions_changed))

    async def _on_deletions_changed(self) -> ControllerEvent | None:
        topics = await self._read_deletions()
        return TopicDeletionsRequested(frozenset(topics)) if topics else None
