"""Rack-aware assignment (KIP-881): prefer partitions with a replica in the member's rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.consumer.assignors.assignor import Member, PartitionRacks
from odradek.model.ids import TopicPartition

NO_RACKS: Final[frozenset[str]] = frozenset()


class RackAwareness:
    """Racks of members and partitions; ``is_relevant`` is False if they make no difference.

    They make none if no member has a rack, if no replica is in the rack of a member, or if all partitions
    have replicas in the same racks.
    """

    def __init__(self, topics: PartitionRacks, members: Sequence[Member]) -> None:
        self.of_member: Mapping[str, str] = {m.member_id: m.rack for m in members if m.rack}
        self.of_topic: PartitionRacks = topics
        self.is_relevant = _is_relevant(set(self.of_member.values()), topics)

    def of_partition(self, partition: TopicPartition) -> frozenset[str]:
        racks = self.of_topic.get(partition.topic, ())
        return racks[partition.partition] if partition.partition < len(racks) else NO_RACKS

    def is_mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Return True if the member has a rack that holds no replica of the partition."""
        rack = self.of_member.get(member_id)
        return self.is_relevant and rack is not None and rack not in self.of_partition(partition)

    def is_match(self, member_id: str, partition: TopicPartition) -> bool:
        rack = self.of_member.get(member_id)
        return rack is not None and rack in self.of_partition(partition)

    def sort_by_local_members(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members in their racks: those with few have the least choice."""
        count_by_rack: dict[str, int] = {}
        for rack in self.of_member.values():
            count_by_rack[rack] = count_by_rack.get(rack, 0) + 1

        def local_members(partition: TopicPartition) -> int:
            return sum(count_by_rack.get(rack, 0) for rack in self.of_partition(partition))

        return sorted(partitions, key=local_members)


def _is_relevant(member_racks: set[str], topics: PartitionRacks) -> bool:
    if not member_racks:
        return False
    all_racks: frozenset[str] = NO_RACKS.union(*(racks for topic in topics.values() for racks in topic))
    if member_racks.isdisjoint(all_racks):
        return False
    return any(racks != all_racks for topic in topics.values() for racks in topic)
