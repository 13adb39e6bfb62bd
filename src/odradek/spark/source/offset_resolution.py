"""From where reading shall begin or end to offsets: what to ask the cluster, what its answers mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import NoOffset
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import AtCommit, AtOffset, AtTime, Edge, Offsets, Position, Spot, listed

Spots = Mapping[TopicPartition, Spot]
_SPEC_OF = {Edge.EARLIEST: OffsetSpec.EARLIEST, Edge.LATEST: OffsetSpec.LATEST}


def spots_of(
    position: Position,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, Spot]:
    """A spot for each partition. What the group has committed takes the place of the group."""
    spots: dict[TopicPartition, Spot] = {}
    for one in partitions:
        spot = position.of(one)
        if isinstance(spot, AtCommit):
            spot = AtOffset(committed[one].offset) if one in committed else spot.fallback
        spots[one] = spot
    return spots


def questions(spots: Spots) -> dict[TopicPartition, OffsetSpec | int]:
    """What to ask about partitions whose offset is not given."""
    asked: dict[TopicPartition, OffsetSpec | int] = {}
    for one, spot in spots.items():
        if isinstance(spot, Edge):
            asked[one] = _SPEC_OF[spot]
        elif isinstance(spot, AtTime):
            asked[one] = spot.timestamp_ms
    return asked


def timed(spots: Spots) -> list[TopicPartition]:
    """Partitions with a time. Their ends are asked before: if no record is so late, the end stands for it."""
    return [one for one, spot in spots.items() if isinstance(spot, AtTime)]


def settled(
    spots: Spots,
    answers: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    late_is_error: bool,
) -> Offsets:
    """The offset of each spot; raises NoOffset if a time has no record after it and that is an error."""
    late = [one for one in timed(spots) if answers[one] < 0]
    if late and late_is_error:
        raise NoOffset(
            f"{listed(late)} has no record at or after the starting time: give an earlier time, or set "
            "startingOffsetsByTimestampStrategy=latest to start at the end of the log"
        )
    found: Offsets = {}
    for one, spot in spots.items():
        if isinstance(spot, AtOffset):
            found[one] = spot.offset
        else:
            found[one] = ends[one] if one in late else answers[one]
    return found
