"""Detection of data loss: records that a query had still to read and that are gone. Pure.

Four events lose records: the log start offset passes the query's position, a topic is deleted, a topic is
deleted and recreated, or a log is truncated. Offsets alone cannot tell a topic from a recreated one of the
same name, so topic ids are compared where they are known.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition

_LISTED_MAX: Final = 10


class DataLoss(ClientError):
    """Raised when records are lost that the query had still to read."""


class Cause(enum.Enum):
    EXPIRED = enum.auto()
    RECREATED = enum.auto()
    TRUNCATED = enum.auto()
    DELETED = enum.auto()


class LogOffsets(NamedTuple):
    """Topic ids, log start offsets and log end offsets of the query's partitions at one moment."""

    topic_ids: Mapping[str, str]
    log_starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Loss(NamedTuple):
    """Data loss of one partition, and the offset to resume at: None if it is deleted.

    For expired records ``resume`` stays at the start: the range reader finds the remaining records.
    """

    partition: TopicPartition
    cause: Cause
    message: str
    resume: int | None


def find_losses(
    start: Mapping[TopicPartition, int], log_offsets: LogOffsets, known_ids: Mapping[str, str]
) -> list[Loss]:
    """Return the losses, sorted by partition. ``known_ids`` are the ids of the topics of ``start``."""
    losses = (
        _loss(partition, start[partition], log_offsets, known_ids.get(partition.topic))
        for partition in sorted(start)
    )
    return [loss for loss in losses if loss is not None]


def batch_losses(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], log_offsets: LogOffsets
) -> list[Loss]:
    """Return the losses of a batch query: requested offsets before the log start or beyond the log end."""
    requested = {partition: offset for partition, offset in start.items() if offset < end[partition]}
    losses = [loss for loss in find_losses(requested, log_offsets, {}) if loss.cause is Cause.EXPIRED]
    for partition in sorted(requested):
        if partition not in log_offsets.ends:
            message = f"{partition}: the partition no longer exists"
            losses.append(Loss(partition, Cause.DELETED, message, None))
        elif log_offsets.ends[partition] < end[partition]:
            log_end = log_offsets.ends[partition]
            message = (
                f"{partition}: offsets up to {end[partition]} are requested, but the log ends at {log_end}"
            )
            losses.append(Loss(partition, Cause.TRUNCATED, message, log_end))
    return losses


def _loss(
    partition: TopicPartition, start: int, log_offsets: LogOffsets, known_id: str | None
) -> Loss | None:
    if partition not in log_offsets.ends:
        message = f"{partition}: the partition no longer exists; it had been read up to offset {start}"
        return Loss(partition, Cause.DELETED, message, None)
    log_start, end = log_offsets.log_starts[partition], log_offsets.ends[partition]
    topic_id = log_offsets.topic_ids.get(partition.topic)
    if known_id is not None and topic_id is not None and known_id != topic_id:
        message = (
            f"{partition}: topic {partition.topic} was deleted and recreated (its id was {known_id} and is "
            f"{topic_id}); records of the deleted topic from offset {start} on are lost"
        )
        return Loss(partition, Cause.RECREATED, message, log_start)
    if start < log_start:
        message = (
            f"{partition}: offsets {start} to {log_start - 1} are lost: the log now starts at {log_start} "
            "(expired by retention, or deleted)"
        )
        return Loss(partition, Cause.EXPIRED, message, start)
    if end < start:
        message = (
            f"{partition}: the log ends at {end}, below the query's offset {start}: the topic was recreated, "
            "or its log was truncated"
        )
        # The same topic with a shorter log has nothing new below its end; another topic has only new records.
        return Loss(partition, Cause.TRUNCATED, message, end if known_id is not None else log_start)
    return None


def resume_offsets(losses: Sequence[Loss]) -> dict[TopicPartition, int | None]:
    """Return the resume offsets of partitions that cannot continue at the query's offset."""
    return {loss.partition: loss.resume for loss in losses if loss.cause is not Cause.EXPIRED}


def describe_losses(losses: Sequence[Loss]) -> str:
    """Return one sentence per loss; of very many the first ones and a count."""
    messages = [loss.message for loss in losses[:_LISTED_MAX]]
    if len(losses) > len(messages):
        messages.append(f"{len(losses) - len(messages)} more partitions have lost records")
    return "; ".join(messages)


def data_loss_error(losses: Sequence[Loss]) -> DataLoss:
    return DataLoss(
        f"records are lost: {describe_losses(losses)}. To continue with the remaining records, set "
        "failOnDataLoss=false; to read from the start, use a new checkpoint"
    )
