"""Sticky assignment where members want different topics: as even as single moves make it, moving little.

What is owned stays, what is free goes to the member with the least that wants it. Then partitions move, each
from its owner to the member with the least that wants it, as long as that brings two members closer
together. Every move does so; so there is an end, and no move is taken back for nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from odradek.client.consumer.assignors.assignor import Topics, partitions_of
from odradek.client.consumer.assignors.ownership import Ownership
from odradek.client.consumer.assignors.rack_awareness import RackAwareness
from odradek.model.ids import TopicPartition


class GeneralAssignmentBuilder:
    """An assignment in the making."""

    def __init__(
        self, topics: Topics, wishes: Mapping[str, frozenset[str]], ownership: Ownership, racks: RackAwareness
    ) -> None:
        self._wishes = wishes
        self._racks = racks
        self._earlier = ownership.earlier
        self._owned = ownership.owned
        self.assigned: dict[str, set[TopicPartition]] = {member: set() for member in wishes}
        self._owner: dict[TopicPartition, str] = {}
        self._moves = _Moves()
        readers_count = dict.fromkeys(topics, 0)
        for wanted in wishes.values():
            for topic in wanted & topics.keys():
                readers_count[topic] += 1
        # Topics with few readers first: they have the least choice.
        self._order = sorted((t for t in topics if readers_count[t]), key=lambda t: (readers_count[t], t))
        self._everything = [tp for topic in self._order for tp in partitions_of(topic, topics)]
        self._movable = {topic for topic in self._order if readers_count[topic] > 1}
        # Members by how much they have, then by name.
        self._ranking: list[tuple[int, str]] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        something_revoked = self._keep()
        self._ranking = sorted((len(partitions), member) for member, partitions in self.assigned.items())
        free = [tp for tp in self._everything if tp not in self._owner]
        self._place(free)
        if not something_revoked:
            # What is new to everybody may move first: it costs nobody anything.
            self._even_out(free)
        self._even_out(self._everything)
        return {member: sorted(partitions) for member, partitions in self.assigned.items()}

    def _keep(self) -> bool:
        """Keep what is owned and wanted; whether something owned is not wanted any more."""
        revoked = False
        for member, partitions in self._owned.items():
            for partition in partitions:
                if partition.topic in self._wishes[member] and not self._racks.is_far(member, partition):
                    self.assigned[member].add(partition)
                    self._owner[partition] = member
                else:
                    revoked = True
        return revoked

    def _place(self, free: Iterable[TopicPartition]) -> None:
        far = []
        for partition in free:
            member = self._least(partition, near=self._racks.matter)
            if member is None:
                far.append(partition)
            else:
                self._give(partition, member)
        for partition in far:
            member = self._least(partition)
            assert member is not None, "topics nobody wants are not handed out"
            self._give(partition, member)

    def _least(self, partition: TopicPartition, near: bool = False) -> str | None:
        """The member with the least that wants this topic."""
        topic, wishes = partition.topic, self._wishes
        for _, member in self._ranking:
            if topic in wishes[member] and not (near and self._racks.is_far(member, partition)):
                return member
        return None

    def _even_out(self, partitions: list[TopicPartition]) -> None:
        moving = [tp for tp in partitions if tp.topic in self._movable]
        moved = True
        while moved:
            moved = False
            for partition in moving:
                taker = self._taker(partition)
                if taker is not None:
                    self._move(partition, taker)
                    moved = True

    def _taker(self, partition: TopicPartition) -> str | None:
        """Who should have a partition instead of its owner: who had it once, or who has the least."""
        count = len(self.assigned[self._owner[partition]])
        if count <= self._ranking[0][0] + 1:
            return None
        once = self._earlier.get(partition)
        if (
            once is not None
            and partition.topic in self._wishes.get(once, ())
            and count > len(self.assigned[once]) + 1
        ):
            return once
        least = self._least(partition)
        return least if least is not None and count > len(self.assigned[least]) + 1 else None

    def _move(self, partition: TopicPartition, taker: str) -> None:
        """Move this partition, or take back one of the same topic that had gone the other way."""
        back = self._moves.opposite(partition, self._owner[partition], taker)
        if back is not None and len(self.assigned[self._owner[back]]) > len(self.assigned[taker]) + 1:
            partition = back
        giver = self._owner[partition]
        self._moves.note(partition, giver, taker)
        self._unrank(giver)
        self.assigned[giver].remove(partition)
        self._rank(giver)
        self._give(partition, taker)

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._unrank(member)
        self.assigned[member].add(partition)
        self._rank(member)
        self._owner[partition] = member

    def _rank(self, member: str) -> None:
        insort(self._ranking, (len(self.assigned[member]), member))

    def _unrank(self, member: str) -> None:
        del self._ranking[bisect_left(self._ranking, (len(self.assigned[member]), member))]


class _Moves:
    """Who has given what to whom, so that two members do not exchange partitions of one topic for nothing."""

    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._of_pair: dict[tuple[str, str, str], set[TopicPartition]] = {}

    def note(self, partition: TopicPartition, giver: str, taker: str) -> None:
        before = self._of_partition.pop(partition, None)
        if before is not None:
            giver = before[0]
            self._of_pair[partition.topic, *before].discard(partition)
        if giver != taker:
            self._of_partition[partition] = (giver, taker)
            self._of_pair.setdefault((partition.topic, giver, taker), set()).add(partition)

    def opposite(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition | None:
        """A partition of the same topic that has come from the taker to the first giver of this one."""
        first_giver = self._of_partition.get(partition, (giver, taker))[0]
        return min(self._of_pair.get((partition.topic, taker, first_giver), ()), default=None)
