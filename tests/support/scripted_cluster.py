"""A cluster of several brokers that exist only as what a test makes them answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from odradek.client.metadata import ClusterImage, topic_image, with_leader
from odradek.client.meters import Meters
from odradek.client.values import Node, PartitionInfo
from odradek.model.ids import TopicPartition

TOPIC_ID = b"t" * 16
ALL_VERSIONS = {1: range(4, 18), 2: range(1, 10), 23: range(5)}


def image_of(
    leaders: Mapping[TopicPartition, tuple[int, int]], node_ids: Collection[int] = (1, 2, 3), version: int = 1
) -> ClusterImage:
    """An image where partitions have these leaders and epochs."""
    topics: dict[str, list[PartitionInfo]] = {}
    for (topic, partition), (leader, epoch) in sorted(leaders.items()):
        topics.setdefault(topic, []).append(
            PartitionInfo(topic, partition, leader, (1, 2), (1, 2), (), epoch)
        )
    return ClusterImage(
        version,
        "c",
        1,
        MappingProxyType({each: Node(each, "host", 9000 + each) for each in node_ids}),
        MappingProxyType({name: topic_image(name, TOPIC_ID, each) for name, each in topics.items()}),
    )


class ScriptedCluster:
    """Stands for ``Cluster``: keeps what is sent, and answers when the test says so."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.meters = Meters()
        self.sent: list[tuple[int, Any, int | None, asyncio.Future[Any]]] = []
        self.refreshes = 0
        self.not_ready: set[int] = set()
        self.spoken: Mapping[int, range] = ALL_VERSIONS
        self.listeners: list[Callable[[ClusterImage], None]] = []

    def begin(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        expects_answer: bool = True,
    ) -> asyncio.Future[Any] | None:
        if node_id in self.not_ready:
            return None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((node_id, request, version_max, answer))
        return answer

    async def ask(self, node_id: int, request: Any, **how: Any) -> Any:
        answer = self.begin(node_id, request)
        assert answer is not None
        return await answer

    def is_ready(self, node_id: int) -> bool:
        return node_id not in self.not_ready

    async def ready(self, node_id: int, timeout_ms: int) -> None:
        while node_id in self.not_ready:
            await asyncio.sleep(0.01)

    def versions(self, node_id: int) -> Mapping[int, range]:
        return self.spoken

    def broker_name(self, node_id: int) -> str:
        return f"{node_id} (host:{9000 + node_id})"

    def refresh(self) -> int:
        self.refreshes += 1
        return self.image.version

    def saw_epoch(self, partition: TopicPartition, leader_epoch: int) -> bool:
        return False

    def learn_leader(
        self, partition: TopicPartition, node_id: int, leader_epoch: int, endpoints: Collection[Node] = ()
    ) -> bool:
        changed = with_leader(self.image, partition, node_id, leader_epoch, endpoints)
        self.image = changed or self.image
        return changed is not None

    # What a test does.

    async def take(self) -> tuple[int, Any, asyncio.Future[Any]]:
        """The oldest request that is not answered yet: to whom, what, and where its answer goes."""
        for _ in range(100):
            if self.sent:
                node_id, request, _, answer = self.sent.pop(0)
                return node_id, request, answer
            await asyncio.sleep(0.001)
        raise AssertionError("nothing was sent")
