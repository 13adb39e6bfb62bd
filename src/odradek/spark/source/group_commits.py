"""Offset commits for the group, which show a query's progress to any Kafka tool.

The topic id is stored with each offset, as its metadata: a restarted query compares it with the current
topic. Brokers delete the offsets of a deleted topic, so a missing offset is a weak sign too. A failed commit
never fails the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import format_partitions
from odradek.spark.source.offset_reader import OffsetReader
from odradek.telemetry import events

_METADATA_PREFIX: Final = "odradek topic-id="
_log: Final = events.logger("spark")


def commits(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit: those of existing topics, with the topic id as metadata."""
    return {
        partition: OffsetAndMetadata(offset, f"{_METADATA_PREFIX}{topic_ids[partition.topic]}")
        for partition, offset in offsets.items()
        if partition.topic in topic_ids
    }


def topic_ids_of(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[str, str]:
    """Return the topic ids that were committed with offsets, by topic."""
    return {
        partition.topic: offset.metadata.removeprefix(_METADATA_PREFIX)
        for partition, offset in committed.items()
        if offset.metadata.startswith(_METADATA_PREFIX)
    }


class GroupCommitter:
    """Commits offsets when they have changed."""

    def __init__(self, offset_reader: OffsetReader) -> None:
        self._offset_reader = offset_reader
        self._committed: dict[TopicPartition, OffsetAndMetadata] | None = None
        self._last_warning = ""

    def topic_ids(self, expected: Mapping[TopicPartition, int]) -> dict[str, str]:
        """Return the topic ids committed with the group's offsets; empty if the request fails."""
        try:
            committed = self._offset_reader.fetch_committed()
        except ClientError as error:
            self._warn(str(error))
            return {}
        missing = [
            partition
            for partition in sorted(expected)
            if expected[partition] > 0 and partition not in committed
        ]
        if missing:
            _log.warning(
                "group_offsets_missing",
                partitions=format_partitions(missing),
                reason="the topic was recreated, or nothing was committed, or the commit has expired",
            )
        return topic_ids_of(committed)

    def commit(self, processed: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> None:
        """Commit the offsets up to which records have been processed."""
        offsets = commits(processed, topic_ids)
        if offsets == self._committed:
            return
        try:
            self._offset_reader.commit(offsets)
        except ClientError as error:
            self._warn(str(error))
        else:
            self._committed = offsets
            self._last_warning = ""

    def _warn(self, reason: str) -> None:
        # Each micro-batch retries; the same reason is logged once.
        if reason != self._last_warning:
            self._last_warning = reason
            _log.warning("group_commit_failed", reason=reason)
