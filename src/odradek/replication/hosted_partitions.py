"""The partitions that have a replica on this broker and are not offline."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition


class HostedPartitions:
    __slots__ = ("by_topic",)

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, Partition]] = {}
        """Partitions by topic and number. No topic is empty."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_topic.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def get(self, topic: str, number: int) -> Partition | None:
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(number)

    def add(self, partition: Partition) -> None:
        topic, number = partition.topic_partition
        self.by_topic.setdefault(topic, {})[number] = partition

    def remove(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        del self.by_topic[topic][number]
        if not self.by_topic[topic]:
            del self.by_topic[topic]
