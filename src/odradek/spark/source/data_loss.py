"""Records that a query has not read and never will. Pure: finds them, and puts them into words.

Four things lose records: the start of a log moves past where the query stands, a topic is deleted, it is
deleted and made again, or a log is cut. Offsets alone cannot tell a topic from a new one of the same name,
so ids of topics are compared where they are known.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition

_SPELLED_OUT_MAX: Final = 10


class DataLoss(ClientError):
    """Records are gone that the query had still to read."""


class Cause(enum.Enum):
    EXPIRED = enum.auto()
    REMADE = enum.auto()
    CUT = enum.auto()
    DELETED = enum.auto()


class Sight(NamedTuple):
    """What the driver saw of the cluster at one moment, for all partitions of the query."""

    topic_ids: Mapping[str, str]
    log_starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Loss(NamedTuple):
    """What is gone of one partition, in words, and where reading can go on: None if nowhere.

    Of an expired range the start is left as it is: the reader of the range finds what is there.
    """

    partition: TopicPartition
    cause: Cause
    words: str
    resume: int | None


def find_losses(
    start: Mapping[TopicPartition, int], sight: Sight, known_ids: Mapping[str, str]
) -> list[Loss]:
    """Losses by partition, sorted. ``known_ids`` are the topics that ``start`` was said of, where known."""
    found = (_loss(one, start[one], sight, known_ids.get(one.topic)) for one in sorted(start))
    return [loss for loss in found if loss is not None]


def batch_losses(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], sight: Sight
) -> list[Loss]:
    """What a batch query asks for and cannot have: offsets before the log's start or beyond its end."""
    wanted = {one: offset for one, offset in start.items() if offset < end[one]}
    losses = [loss for loss in find_losses(wanted, sight, {}) if loss.cause is Cause.EXPIRED]
    for one in sorted(wanted):
        if one not in sight.ends:
            losses.append(Loss(one, Cause.DELETED, f"{one}: the partition no longer exists", None))
        elif sight.ends[one] < end[one]:
            words = f"{one}: offsets up to {end[one]} are asked for, but the log ends at {sight.ends[one]}"
            losses.append(Loss(one, Cause.CUT, words, sight.ends[one]))
    return losses


def _loss(one: TopicPartition, start: int, sight: Sight, known_id: str | None) -> Loss | None:
    if one not in sight.ends:
        words = f"{one}: the partition no longer exists; it had been read up to offset {start}"
        return Loss(one, Cause.DELETED, words, None)
    log_start, end = sight.log_starts[one], sight.ends[one]
    topic_id = sight.topic_ids.get(one.topic)
    if known_id is not None and topic_id is not None and known_id != topic_id:
        words = (
            f"{one}: topic {one.topic} was deleted and made again (its id was {known_id} and is {topic_id}); "
            f"what the former one held from offset {start} on is gone"
        )
        return Loss(one, Cause.REMADE, words, log_start)
    if start < log_start:
        words = (
            f"{one}: offsets {start} to {log_start - 1} are gone, as the log now starts at {log_start} "
            "(expired by retention, or deleted)"
        )
        return Loss(one, Cause.EXPIRED, words, start)
    if end < start:
        words = (
            f"{one}: the log ends at {end}, below offset {start} where the query stands; the topic was made "
            "again, or its log was cut"
        )
        # The same topic with a shorter log has nothing new below its end; another topic has only new records.
        return Loss(one, Cause.CUT, words, end if known_id is not None else log_start)
    return None


def resume_places(losses: Sequence[Loss]) -> dict[TopicPartition, int | None]:
    """Where partitions go on that cannot go on from where the query stands."""
    return {loss.partition: loss.resume for loss in losses if loss.cause is not Cause.EXPIRED}


def words_of(losses: Sequence[Loss]) -> str:
    """All losses in one sentence each; of very many the first ones and a count."""
    spelled = [loss.words for loss in losses[:_SPELLED_OUT_MAX]]
    if len(losses) > len(spelled):
        spelled.append(f"{len(losses) - len(spelled)} more partitions have lost records")
    return "; ".join(spelled)


def refusal(losses: Sequence[Loss]) -> DataLoss:
    return DataLoss(
        f"records are lost: {words_of(losses)}. To go on with the records that are there, set "
        "failOnDataLoss=false; to read from the beginning, start the query with a new checkpoint"
    )
