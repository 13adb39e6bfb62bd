"""Whether, and how, replicas near a member decide what it gets (KIP-881)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import Member, Topics
from odradek.model.ids import TopicPartition

NOWHERE: Final[frozenset[str]] = frozenset()


class RackAwareness:
    """Which member is near which partition; ``matter`` is false if it makes no difference.

    It makes none while no member has said where it is, while no replica is where a member is, and while all
    partitions are in the same places.
    """

    def __init__(self, topics: Topics, members: Sequence[Member]) -> None:
        self.of_member: Mapping[str, str] = {m.member_id: m.rack for m in members if m.rack}
        self.of_topic: Topics = topics
        self.matter = _matter(set(self.of_member.values()), topics)

    def of_partition(self, partition: TopicPartition) -> frozenset[str]:
        racks = self.of_topic.get(partition.topic, ())
        return racks[partition.partition] if partition.partition < len(racks) else NOWHERE

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member that has said where it is would read this partition from elsewhere."""
        rack = self.of_member.get(member_id)
        return self.matter and rack is not None and rack not in self.of_partition(partition)

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        rack = self.of_member.get(member_id)
        return rack is not None and rack in self.of_partition(partition)

    def by_readers_near(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions with the fewest members near them first: they have the least choice."""
        count_by_rack: dict[str, int] = {}
        for rack in self.of_member.values():
            count_by_rack[rack] = count_by_rack.get(rack, 0) + 1

        def readers_near(partition: TopicPartition) -> int:
            return sum(count_by_rack.get(rack, 0) for rack in self.of_partition(partition))

        return sorted(partitions, key=readers_near)


def _matter(member_racks: set[str], topics: Topics) -> bool:
    if not member_racks:
        return False
    everywhere: frozenset[str] = NOWHERE.union(*(racks for topic in topics.values() for racks in topic))
    if member_racks.isdisjoint(everywhere):
        return False
    return any(racks != everywhere for topic in topics.values() for racks in topic)
