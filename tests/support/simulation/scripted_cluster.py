"""A cluster whose brokers respond as scripted by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from odradek.client.metrics import ClientMetrics
from odradek.client.network.metadata import ClusterMetadata, topic_metadata, with_leader
from odradek.client.values import Node, PartitionInfo
from odradek.model.ids import TopicPartition

TOPIC_ID = b"t" * 16
ALL_VERSIONS = {1: range(4, 18), 2: range(1, 10), 23: range(5)}


def image_of(
    leaders: Mapping[TopicPartition, tuple[int, int]], node_ids: Collection[int] = (1, 2, 3), version: int = 1
) -> ClusterMetadata:
    """Return metadata with these partition leaders and epochs."""
    topics: dict[str, list[PartitionInfo]] = {}
    for (topic, partition), (leader, epoch) in sorted(leaders.items()):
        topics.setdefault(topic, []).append(
            PartitionInfo(topic, partition, leader, (1, 2), (1, 2), (), epoch)
        )
    return ClusterMetadata(
        version,
        "c",
        1,
        MappingProxyType({node_id: Node(node_id, "host", 9000 + node_id) for node_id in node_ids}),
        MappingProxyType({name: topic_metadata(name, TOPIC_ID, each) for name, each in topics.items()}),
    )


class ScriptedCluster:
    """A fake ``NetworkClient``: records requests; the test provides responses."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self.metrics = ClientMetrics()
        self.sent: list[tuple[int, Any, int | None, asyncio.Future[Any]]] = []
        self.refreshes = 0
        self.not_ready: set[int] = set()
        self.spoken: Mapping[int, range] = ALL_VERSIONS
        self.listeners: list[Callable[[ClusterMetadata], None]] = []

    def send_if_ready(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        expects_response: bool = True,
    ) -> asyncio.Future[Any] | None:
        if node_id in self.not_ready:
            return None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((node_id, request, version_max, answer))
        return answer

    async def send(self, node_id: int, request: Any, **how: Any) -> Any:
        answer = self.send_if_ready(node_id, request)
        assert answer is not None
        return await answer

    def is_ready(self, node_id: int) -> bool:
        return node_id not in self.not_ready

    async def wait_until_ready(self, node_id: int, timeout_ms: int) -> None:
        while node_id in self.not_ready:
            await asyncio.sleep(0.01)

    def versions(self, node_id: int) -> Mapping[int, range]:
        return self.spoken

    def broker_name(self, node_id: int) -> str:
        return f"{node_id} (host:{9000 + node_id})"

    def request_update(self) -> int:
        self.refreshes += 1
        return self.metadata.version

    def observe_leader_epoch(self, partition: TopicPartition, leader_epoch: int) -> bool:
        return False

    def update_leader(
        self, partition: TopicPartition, node_id: int, leader_epoch: int, endpoints: Collection[Node] = ()
    ) -> bool:
        changed = with_leader(self.metadata, partition, node_id, leader_epoch, endpoints)
        self.metadata = changed or self.metadata
        return changed is not None

    # Used by tests.

    async def take(self) -> tuple[int, Any, asyncio.Future[Any]]:
        """Return the oldest request without a response: node, request, and the future of the response."""
        for _ in range(100):
            if self.sent:
                node_id, request, _, answer = self.sent.pop(0)
                return node_id, request, answer
            await asyncio.sleep(0.001)
        raise AssertionError("nothing was sent")
