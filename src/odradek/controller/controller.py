"""Runs the controller: hears of changes, steps the machine, carries its actions out one after the other.

Events wait in one queue and are handled one at a time, results before what came later. A write that the store
refuses because something changed in between is not retried blindly: the partition's state is read again, and
the machine decides anew. What a store that is not available keeps from being done is tried again for a while:
an event whose actions are done by half would leave brokers and store apart.
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
from odradek.controller.controller_context import ControllerContext, LiveBroker, StoredLeaderAndIsr
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
"""How long a store that is not available is waited for, between attempts. Then the event is given up."""

log = events.logger("controller")


class BrokerChannel(Protocol):
    """How a controller reaches a broker, itself included."""

    async def leader_and_isr(self, order: SendLeaderAndIsr) -> Collection[TopicPartition]:
        """Give an order; gives the partitions whose logs the broker cannot use."""
        ...

    async def update_metadata(self, news: SendUpdateMetadata) -> None: ...

    async def stop_replica(self, order: SendStopReplica) -> Iterable[TopicPartition]: ...


class Controller:
    """The controller's office on this broker, from election to resignation."""

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
        self._state = ControllerContext(fence.controller_epoch)
        self._events: asyncio.Queue[Callable[[], Awaitable[ControllerEvent | None]]] = asyncio.Queue()
        self._watched: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def controller_epoch(self) -> int:
        return self._fence.controller_epoch

    async def start(self) -> None:
        """Read everything, watch everything, tell every broker; then follow what changes."""
        state = self._state
        state.brokers = await self._read_brokers()
        state.topics = await self._read_topics()
        partitions = [partition for topic in state.topics for partition in state.partitions_of(topic)]
        states = await read_partition_states(self._store, partitions)
        state.partitions = {p: StoredLeaderAndIsr(found.state, found.version) for p, found in states.items()}
        state.deletions = {topic: set() for topic in await self._read_deletions()}
        await self._handle(ContextLoaded())
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def on_replicas_offline(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """A broker lost the use of these replicas."""

        async def look() -> ControllerEvent:
            return ReplicasOffline(broker_id, partitions)

        self._events.put_nowait(look)

    def on_replicas_online(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """A broker can use these replicas after all."""

        async def look() -> ControllerEvent:
            return ReplicasOnline(broker_id, partitions)

        self._events.put_nowait(look)

    def on_broker_modified(self) -> None:
        """A broker that is alive registered other endpoints."""

        async def look() -> ControllerEvent:
            return BrokersChanged(await self._registered())

        self._events.put_nowait(look)

    async def _follow(self) -> None:
        while True:
            look = await self._events.get()
            try:
                event = await self._patiently(look)
                if event is not None:
                    await self._handle(event)
            except ControllerMoved as moved:
                log.warning("controller_replaced", reason=str(moved))
                return
            except StoreError as broken:
                log.error("controller_event_failed", reason=str(broken))
            except Exception as broken:  # noqa: BLE001 - the edge of a task
                log.failure("controller_event_broken", broken)

    async def _handle(self, event: ControllerEvent) -> None:
        """Step, carry out, and handle results, until there are none."""
        queue: deque[ControllerEvent] = deque([event])
        while queue:
            for action in step(self._state, queue.popleft()):
                result = await self._patiently(partial(self._carry_out, action))
                if result is not None:
                    queue.append(result)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what can be done twice; while the store is not available, again. Not during the start."""
        for wait_ms in () if self._task is None else RETRY_WAITS_MS:
            try:
                return await work()
            except Unavailable as passing:
                log.warning("controller_waits", reason=str(passing), wait_ms=wait_ms)
                await self._sleep_ms(wait_ms)
        return await work()

    async def _carry_out(self, action: Action) -> ControllerEvent | None:
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
                self._watched.discard(action.topic)
                log.info("topic_deleted", topic=action.topic)
                return TopicDeleted(action.topic)
        return None

    async def _write_states(self, action: WritePartitionStates) -> dict[TopicPartition, StoredLeaderAndIsr]:
        """Write new states; what another writer got in before us is taken as it stands."""
        fresh = {p: w.state for p, w in action.writes.items() if w.expected_version == NO_VERSION}
        known = {
            p: VersionedLeaderAndIsr(w.state, w.expected_version)
            for p, w in action.writes.items()
            if w.expected_version != NO_VERSION
        }
        outcomes = await create_partition_states(self._store, fresh, self._fence)
        outcomes |= await write_partition_states(self._store, known, self._fence)
        written = {
            partition: StoredLeaderAndIsr(action.writes[partition].state, outcome)
            for partition, outcome in outcomes.items()
            if isinstance(outcome, int)
        }
        for outcome in outcomes.values():
            if isinstance(outcome, ControllerMoved | Unavailable):
                raise outcome
        lost = [partition for partition in outcomes if partition not in written]
        for partition, found in (await read_partition_states(self._store, lost)).items():
            written[partition] = StoredLeaderAndIsr(found.state, found.version)
        return written

    # What is read when something changed. Each look is also the next watch.

    def _look(self, look: Callable[[], Awaitable[ControllerEvent | None]]) -> Watcher:
        return lambda event: self._events.put_nowait(look)

    async def _read_brokers(self) -> dict[int, LiveBroker]:
        await self._store.ensure_path(znode_paths.BROKER_IDS)
        await self._store.watch_children(znode_paths.BROKER_IDS, self._look(self._find_brokers))
        return await self._registered()

    async def _registered(self) -> dict[int, LiveBroker]:
        found = await read_brokers(self._store)
        return {broker_id: LiveBroker(b.registration, b.broker_epoch) for broker_id, b in found.items()}

    async def _find_brokers(self) -> ControllerEvent:
        return BrokersChanged(await self._read_brokers())

    async def _read_topics(self) -> dict[str, TopicAssignment]:
        await self._store.ensure_path(znode_paths.TOPICS)
        found = await read_topics(self._store, watcher=self._look(self._find_topics))
        for topic in found:
            if topic not in self._watched:
                self._watched.add(topic)
                await self._watch_topic(topic)
        return {topic: versioned.assignment for topic, versioned in found.items()}

    async def _find_topics(self) -> ControllerEvent:
        return TopicsChanged(await self._read_topics())

    async def _watch_topic(self, topic: str) -> None:
        async def find() -> ControllerEvent | None:
            if topic not in self._watched:
                return None
            await self._watch_topic(topic)
            found = await read_topics(self._store, [topic])
            return TopicsChanged({name: versioned.assignment for name, versioned in found.items()})

        with suppress(NoNode):
            await self._store.watch_data(znode_paths.topic(topic), self._look(find))

    async def _read_deletions(self) -> set[str]:
        await self._store.ensure_path(znode_paths.DELETE_TOPICS)
        return await read_marked_for_deletion(self._store, self._look(self._find_deletions))

    async def _find_deletions(self) -> ControllerEvent | None:
        marked = await self._read_deletions()
        return TopicDeletionsRequested(frozenset(marked)) if marked else None
