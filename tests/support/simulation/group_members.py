"""Consumer group members without fetching: they poll their coordinator and record listener callbacks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.support.simulation.client_fixture import ADDRESS, ClientFixture, client_environment

from odradek.client.consumer.group.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.interceptors import ConsumerInterceptors
from odradek.client.network.network_client import CONTROLLER, NetworkClient
from odradek.client.options.parsing import read_options
from odradek.config.client import CONSUMER
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

QUICK: dict[str, Any] = {
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 3000,
    "max_poll_interval_ms": 60_000,
    "metadata_max_age_ms": 5000,
    "enable_auto_commit": False,
}
POLL_MS = 100


class GroupMember:
    """One member. ``heard`` has the callbacks of its listener: a name and partitions."""

    def __init__(
        self, fixture: ClientFixture, name: str, options: dict[str, Any], own: Sequence[Any] = ()
    ) -> None:
        self.name = name
        self.clock = fixture.memory.clock
        settings_by_name: dict[str, Any] = {
            "bootstrap_servers": ADDRESS,
            "client_id": name,
            "group_id": "g",
            **QUICK,
            **options,
        }
        settings = read_options(CONSUMER, None, settings_by_name)
        self.cluster = NetworkClient(
            client_environment(fixture.network, self.clock, name), settings, client_id=name
        )
        fixture.clients.append(self.cluster)
        self.subscription = SubscriptionState(OffsetReset.EARLIEST)
        self.committed_by_interceptor: list[Any] = []
        self.coordinator = ConsumerCoordinator(
            self.cluster,
            settings,
            self.subscription,
            self.clock,
            SeededEntropy(),
            assignors=own,
            interceptors=ConsumerInterceptors([self]),  # type: ignore[list-item]
        )
        self.heard: list[tuple[str, list[TopicPartition]]] = []
        self.raises: dict[str, Exception] = {}
        self.failures: list[BaseException] = []
        self._polls: asyncio.Task[None] | None = None

    # Listener and interceptor callbacks.

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("revoked", partitions)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("assigned", partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("lost", partitions)

    def _hear(self, word: str, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append((word, list(partitions)))
        if word in self.raises:
            raise self.raises.pop(word)

    def on_consume(self, records: list[Any]) -> list[Any]:
        return records

    def on_commit(self, offsets: Any) -> None:
        self.committed_by_interceptor.append(dict(offsets))

    # Actions.

    async def subscribe(self, *topics: str) -> GroupMember:
        await self.cluster.start()
        self.subscription.subscribe(topics, self)
        self.cluster.track_only_topics(self.subscription.group_topics)
        return self

    async def subscribe_pattern(self, pattern: str) -> GroupMember:
        await self.cluster.start()
        self.subscription.subscribe_pattern(re.compile(pattern), self)
        self.cluster.track_all_topics(True)
        return self

    async def poll(self, timeout_ms: int = POLL_MS) -> bool:
        return await self.coordinator.ensure_active(self.clock.monotonic_ms() + timeout_ms)

    def keep_polling(self) -> GroupMember:
        self._polls = asyncio.get_running_loop().create_task(self._poll_on())
        return self

    async def stop_polling(self) -> None:
        if self._polls is not None:
            self._polls.cancel()
            await asyncio.wait([self._polls])
            self._polls = None

    async def _poll_on(self) -> None:
        while True:
            try:
                await self.poll()
            except Exception as failure:  # noqa: BLE001 - scenarios look at what comes
                self.failures.append(failure)
            await asyncio.sleep(POLL_MS / 1000)

    def read_to(self, offset: int, *partitions: TopicPartition) -> None:
        """Set the position, as if records had been polled up to it."""
        for partition in partitions or tuple(self.subscription.assigned):
            self.subscription.of(partition).seek_validated(FetchPosition(offset))

    @property
    def assigned(self) -> set[TopicPartition]:
        return set(self.subscription.assigned)

    @property
    def is_rebalancing(self) -> bool:
        return self.coordinator._membership.needs_join or self.coordinator._joiner.is_joining

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.heard]

    async def close(self, timeout_ms: int = 30_000) -> None:
        await self.stop_polling()
        await self.coordinator.close(timeout_ms)
        await self.cluster.close()

    async def die(self) -> None:
        """Stop without leaving the group."""
        await self.stop_polling()
        await self.coordinator._heartbeats.stop()
        await self.cluster.close()
        await self.coordinator.close(0)


class GroupMembers:
    """The members of a group."""

    def __init__(self, fixture: ClientFixture) -> None:
        self.fixture = fixture
        self.all: list[GroupMember] = []

    def reader(self, name: str, own: Sequence[Any] = (), **options: Any) -> GroupMember:
        made = GroupMember(self.fixture, name, options, own)
        self.all.append(made)
        return made

    async def polling(self, name: str, *topics: str, **options: Any) -> GroupMember:
        return (await self.reader(name, **options).subscribe(*topics)).keep_polling()

    async def create(self, topic: str, partitions: int) -> list[TopicPartition]:
        cluster = await self.fixture.network_client()
        topic_request = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        response = await cluster.send(
            CONTROLLER, CreateTopicsRequest(topics=[topic_request], timeout_ms=10_000)
        )
        assert response.topics[0].error_code == ErrorCode.NONE
        return [TopicPartition(topic, index) for index in range(partitions)]

    async def grow(self, topic: str, partitions: int) -> None:
        cluster = await self.fixture.network_client()
        topic_request = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        response = await cluster.send(
            CONTROLLER,
            CreatePartitionsRequest(topics=[topic_request], timeout_ms=10_000, validate_only=False),
        )
        assert response.results[0].error_code == ErrorCode.NONE

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not holds():
                await asyncio.sleep(0.05)

    async def until_shared(
        self, readers: Iterable[GroupMember], partitions: Iterable[TopicPartition]
    ) -> None:
        """Wait until these members own all partitions, each once, and no rebalance is pending."""
        members, topic_request = list(readers), sorted(partitions)
        await self.until(
            lambda: (
                sorted(tp for member in members for tp in member.assigned) == topic_request
                and not any(member.is_rebalancing for member in members)
            )
        )

    async def close(self) -> None:
        for member in self.all:
            await member.close()
        hosts = {member.name for member in self.all}
        assert [
            connection.peer for connection in self.fixture.network.connections if connection.host in hosts
        ] == []
        names = {"heartbeats", "join", "commit", "last commit"}
        assert [task for task in asyncio.all_tasks() if task.get_name() in names] == []
