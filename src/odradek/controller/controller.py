"""The controller's runtime: it watches the store, steps the machine and executes its actions in order.

Events are queued and handled one at a time. Results of store writes are handled before later events;
requests to brokers are queued (``channels``), and their responses come back as later events. A write that
fails because a znode changed meanwhile is not retried blindly: the partition state is read again, and the
machine decides anew. While the store is unavailable an action is retried for a while. An action that fails
for good ends this controller (``on_failed``): its state is ahead of the store and the brokers, and only
another election, which reads all state again, repairs that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from odradek.controller.actions import (
    NO_VERSION,
    Action,
    RemoveTopic,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStates,
)
from odradek.controller.channels import BrokerRequest, ControllerChannels, OpenChannel
from odradek.controller.controller_context import ControllerContext
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
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.step import step
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import ControlResult
from odradek.store import znode_paths
from odradek.store.broker_registration import read_brokers
from odradek.store.controller_election import ControllerMoved, Fence
from odradek.store.partition_states import (
    VersionedLeaderAndIsr,
    create_partition_states,
    read_partition_states,
    write_partition_states,
)
from odradek.store.port import BadPayload, NoNode, Store, StoreError, Unavailable, Watcher
from odradek.store.topics import read_marked_for_deletion, read_topics, remove_topic
from odradek.store.znodes import TopicAssignment
from odradek.telemetry import events

T = TypeVar("T")

RETRY_WAITS_MS: Final = (100, 500, 2_000, 10_000, 30_000)
"""Waits between attempts while the store is unavailable. After the last one the controller fails."""

log = events.logger("controller")


class Controller:
    """The controller on this broker, from election to resignation."""

    def __init__(
        self,
        store: Store,
        fence: Fence,
        open_channel: OpenChannel,
        sleep_ms: Callable[[int], Awaitable[None]],
    ) -> None:
        self.on_failed: Callable[[], None] = lambda: None
        """Called once if this controller cannot go on; it has stopped acting by then."""
        self._store = store
        self._sleep_ms = sleep_ms
        self._fence = fence
        self._channels = ControllerChannels(open_channel, sleep_ms, self._on_answered, self._fail)
        self._context = ControllerContext(fence.controller_epoch)
        self._events: asyncio.Queue[Callable[[], Awaitable[ControllerEvent | None]]] = asyncio.Queue()
        self._watched_topics: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_active = True
        self._failure: Exception | None = None

    @property
    def controller_epoch(self) -> int:
        return self._fence.controller_epoch

    @property
    def context(self) -> ControllerContext:
        """The controller's view of the cluster, for requests that it answers."""
        return self._context

    @property
    def fence(self) -> Fence:
        return self._fence

    async def start(self) -> None:
        """Load the context, set watches, send the state to all brokers; then process events."""
        context = self._context
        context.brokers = await self._read_brokers()
        context.topics = await self._read_topics()
        partitions = [partition for topic in context.topics for partition in context.partitions_of(topic)]
        context.partitions = await read_partition_states(self._store, partitions)
        context.deletions = {topic: set() for topic in await self._read_deletions()}
        await self._handle(ContextLoaded())
        if self._is_active:
            self._task = asyncio.get_running_loop().create_task(self._process_events())

    async def settle(self) -> None:
        """Wait until all requests so far are answered and their responses handled; raise a failure."""
        is_settled = False
        while self._is_active and not is_settled:
            assert self._task is not None, "settle follows start"
            settled = asyncio.ensure_future(self._settle_once())
            await asyncio.wait([settled, self._task], return_when=asyncio.FIRST_COMPLETED)
            if settled.done():
                is_settled = settled.result()
            else:
                settled.cancel()
        if self._failure is not None:
            raise self._failure

    async def _settle_once(self) -> bool:
        await self._channels.drain()
        was_idle = self._events.empty()
        await self._events.join()
        return was_idle

    def resign(self) -> None:
        """Stop acting at once: queued events and requests are dropped."""
        self._is_active = False
        if self._task is not None:
            self._task.cancel()
        self._channels.close()
        while not self._events.empty():
            self._events.get_nowait()

    async def stop(self) -> None:
        self.resign()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
        await self._channels.wait_closed()

    def _fail(self, error: Exception) -> None:
        if self._is_active:
            log.error("controller_failed", controller_epoch=self.controller_epoch, reason=str(error))
            self._failure = error
            self.resign()
            self.on_failed()

    def _on_answered(self, broker_id: int, request: BrokerRequest, result: ControlResult) -> None:
        errors = result.partition_errors
        match request:
            case SendLeaderAndIsr():
                offline = [p for p, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR]
                if offline:
                    self.on_replicas_offline(broker_id, offline)
            case SendStopReplica():
                self._put(ReplicasDeleted(broker_id, [p for p, error in errors.items() if not error]))
            case SendUpdateMetadata():
                return

    def _put(self, event: ControllerEvent) -> None:
        async def read() -> ControllerEvent:
            return event

        self._events.put_nowait(read)

    def on_replicas_offline(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas went offline on a broker."""
        self._put(ReplicasOffline(broker_id, partitions))

    def on_replicas_online(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas are online again on a broker."""
        self._put(ReplicasOnline(broker_id, partitions))

    def on_broker_modified(self) -> None:
        """Queue an event: a live broker registered other endpoints."""

        async def read() -> ControllerEvent:
            return BrokersChanged(await self._read_registrations())

        self._events.put_nowait(read)

    async def _process_events(self) -> None:
        while True:
            read = await self._events.get()
            try:
                event = await self._read_event(read)
                if event is not None:
                    await self._handle(event)
            except Exception as error:  # noqa: BLE001 - the edge of a task
                if not isinstance(error, StoreError):
                    log.failure("controller_event_crashed", error)
                self._fail(error)
                return
            finally:
                self._events.task_done()

    async def _read_event(
        self, read: Callable[[], Awaitable[ControllerEvent | None]]
    ) -> ControllerEvent | None:
        """Read what has changed. Nothing is applied yet, so a node that cannot be decoded is only logged."""
        try:
            return await self._retrying(read)
        except BadPayload as error:
            log.error("controller_event_failed", reason=str(error))
            return None

    async def _handle(self, event: ControllerEvent) -> None:
        """Step, execute the actions, and handle their results until there are none."""
        queue: deque[ControllerEvent] = deque([event])
        while queue:
            actions = step(self._context, queue.popleft())
            self._channels.set_brokers(self._context.brokers)
            for action in actions:
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
            case SendLeaderAndIsr() | SendStopReplica():
                self._channels.send(action.broker_id, action)
            case SendUpdateMetadata():
                for broker_id in action.broker_ids:
                    self._channels.send(broker_id, action)
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
