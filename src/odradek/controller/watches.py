"""The nodes that the controller watches, and the event that each change gives.

A watch is set together with the read, and before it where these are two calls, so that no change is missed.
It queues a read, which sets the watch again. A topic has a watch of its own: a change of the list of topics
reads only those that are new. Nodes that cannot be decoded are logged and skipped; their watch stays, so that
a repaired node is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Final

from odradek.controller.event_queue import ReadEvent
from odradek.controller.events import (
    BrokersChanged,
    ControllerEvent,
    IsrChangesNotified,
    LogDirFailuresNotified,
    PreferredElectionNodeChanged,
    ReassignmentNodeChanged,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.context import ControllerContext
from odradek.store.controller_election import Fence
from odradek.store.controller_requests import (
    delete_isr_change_notifications,
    delete_log_dir_notifications,
    watch_isr_change_notifications,
    watch_log_dir_notifications,
    watch_preferred_election_request,
    watch_reassignment_request,
)
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import TopicAssignment, decode_broker, decode_topic
from odradek.store.port import BadPayload, Node, NoNode, Store, WatchedEvent, Watcher
from odradek.store.topics import read_marked_for_deletion
from odradek.telemetry import events

IN_FLIGHT_MAX: Final = 1_000
"""Reads at a time."""

log = events.logger("controller")


class ControllerWatches:
    def __init__(
        self,
        store: Store,
        context: ControllerContext,
        put_read: Callable[[Hashable, ReadEvent], None],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._context = context
        self._put_read = put_read
        self._monotonic_ms = monotonic_ms
        self._brokers_noticed_ms: int | None = None
        self._watched_topics: set[str] = set()

    async def load(self, fence: Fence) -> None:
        """Read brokers, topics and deletions into the context; from now on changes are queued.

        Notifications from before the election are deleted: everything they could tell is read here.
        """
        store, context = self._store, self._context
        isr_changes = await watch_isr_change_notifications(store, self._on_isr_notified)
        log_dir_failures = await watch_log_dir_notifications(store, self._on_log_dir_notified)
        await delete_isr_change_notifications(store, isr_changes.names, fence)
        await delete_log_dir_notifications(store, log_dir_failures.names, fence)
        for path in (znode_paths.BROKER_IDS, znode_paths.TOPICS, znode_paths.DELETE_TOPICS):
            await store.ensure_path(path)
        context.brokers = await self._read_brokers()
        names = await store.watch_children(znode_paths.TOPICS, self._on_topics_changed)
        for topic, assignment in (await self._read_topics(names)).items():
            context.set_topic(topic, assignment)
        context.deletions.queued = await self._read_deletions()

    def load_requests(self) -> None:
        """Queue the requests of tools that are already there."""
        self._put_read(znode_paths.REASSIGN_PARTITIONS, self._read_reassignment)
        self._put_read(znode_paths.PREFERRED_REPLICA_ELECTION, self._read_preferred_election)

    def forget_topic(self, topic: str) -> None:
        """Ignore a deleted topic. One that is created under its name is read as new."""
        self._watched_topics.discard(topic)

    # Brokers.

    def _on_brokers_changed(self, event: WatchedEvent) -> None:
        if self._brokers_noticed_ms is None:
            self._brokers_noticed_ms = self._monotonic_ms()
        self._put_read(znode_paths.BROKER_IDS, self._read_brokers_changed)

    async def _read_brokers_changed(self) -> ControllerEvent:
        noticed_ms, self._brokers_noticed_ms = self._brokers_noticed_ms, None
        return BrokersChanged(await self._read_brokers(), noticed_ms)

    async def _read_brokers(self) -> dict[int, LiveBroker]:
        names = await self._store.watch_children(znode_paths.BROKER_IDS, self._on_brokers_changed)
        ids = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
        paths = [znode_paths.broker(broker_id) for broker_id in ids]
        nodes = await _watch_each(self._store, paths, self._on_brokers_changed)
        brokers = {}
        for broker_id, path, node in zip(ids, paths, nodes, strict=True):
            if node is not None:
                try:
                    brokers[broker_id] = LiveBroker(decode_broker(path, node[0]), node[1].czxid)
                except BadPayload as error:
                    log.error("broker_registration_not_decoded", reason=str(error))
        return brokers

    # Topics.

    def _on_topics_changed(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.TOPICS, self._read_topics_changed)

    async def _read_topics_changed(self) -> ControllerEvent | None:
        """Read new topics. Known ones have their own watch, so that their assignments need no read."""
        names = await self._store.watch_children(znode_paths.TOPICS, self._on_topics_changed)
        new = await self._read_topics(name for name in names if name not in self._watched_topics)
        known = self._context.topics
        if known.keys() - set(names):
            return TopicsChanged({name: known[name] for name in names if name in known} | new, True)
        return TopicsChanged(new) if new else None

    def _on_topic_changed(self, event: WatchedEvent) -> None:
        topic = event.path.removeprefix(f"{znode_paths.TOPICS}/")

        async def read() -> ControllerEvent | None:
            if topic not in self._watched_topics:
                return None
            changed = await self._read_topics([topic])
            return TopicsChanged(changed) if changed else None

        self._put_read(event.path, read)

    async def _read_topics(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        """Read topics and watch each; those that are deleted meanwhile are omitted, and not watched."""
        topics = list(names)
        paths = [znode_paths.topic(topic) for topic in topics]
        assignments = {}
        for topic, path, node in zip(
            topics, paths, await _watch_each(self._store, paths, self._on_topic_changed), strict=True
        ):
            if node is None:
                self._watched_topics.discard(topic)
                continue
            self._watched_topics.add(topic)
            try:
                assignments[topic] = decode_topic(path, node[0])
            except BadPayload as error:
                log.error("topic_not_decoded", reason=str(error))
        return assignments

    def _on_deletions_changed(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.DELETE_TOPICS, self._read_deletions_changed)

    async def _read_deletions_changed(self) -> ControllerEvent | None:
        topics = await self._read_deletions()
        return TopicDeletionsRequested(frozenset(topics)) if topics else None

    async def _read_deletions(self) -> set[str]:
        return await read_marked_for_deletion(self._store, self._on_deletions_changed)

    # Requests of tools, and notifications of brokers.

    def _on_reassignment_changed(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.REASSIGN_PARTITIONS, self._read_reassignment)

    async def _read_reassignment(self) -> ControllerEvent | None:
        targets = await watch_reassignment_request(self._store, self._on_reassignment_changed)
        return None if targets is None else ReassignmentNodeChanged(targets)

    def _on_preferred_election_changed(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.PREFERRED_REPLICA_ELECTION, self._read_preferred_election)

    async def _read_preferred_election(self) -> ControllerEvent | None:
        partitions = await watch_preferred_election_request(self._store, self._on_preferred_election_changed)
        return None if partitions is None else PreferredElectionNodeChanged(frozenset(partitions))

    def _on_isr_notified(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.ISR_CHANGE_NOTIFICATION, self._read_isr_changes)

    async def _read_isr_changes(self) -> ControllerEvent | None:
        notified = await watch_isr_change_notifications(self._store, self._on_isr_notified)
        return IsrChangesNotified(notified.partitions, notified.names) if notified.names else None

    def _on_log_dir_notified(self, event: WatchedEvent) -> None:
        self._put_read(znode_paths.LOG_DIR_EVENT_NOTIFICATION, self._read_log_dir_failures)

    async def _read_log_dir_failures(self) -> ControllerEvent | None:
        notified = await watch_log_dir_notifications(self._store, self._on_log_dir_notified)
        return LogDirFailuresNotified(notified.broker_ids, notified.names) if notified.names else None


async def _watch_each(store: Store, paths: Collection[str], watcher: Watcher) -> list[Node | None]:
    """Read nodes and watch each, many at a time; None where there is no node."""
    nodes: list[Node | None] = [None] * len(paths)
    remaining = iter(enumerate(paths))

    async def work(remaining: Iterator[tuple[int, str]]) -> None:
        for index, path in remaining:
            try:
                nodes[index] = await store.watch_data(path, watcher)
            except NoNode:
                continue

    await asyncio.gather(*(work(remaining) for _ in range(min(IN_FLIGHT_MAX, len(paths)))))
    return nodes
