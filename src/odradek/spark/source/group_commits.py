"""The group's committed offsets: how any Kafka tool sees how far a query has come.

The id of a topic is kept with each offset, as its metadata: a query that starts again compares it with the
topic it finds. Brokers drop the offsets of a topic that they delete, so an offset that is missing is a sign
of its own, if a weak one. Committing never fails a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import listed
from odradek.spark.source.offset_reader import OffsetReader
from odradek.telemetry import events

_MARK: Final = "odradek topic-id="
_log: Final = events.logger("spark")


def commits(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit: offsets of partitions whose topics exist, with the ids of these topics."""
    return {
        one: OffsetAndMetadata(offset, f"{_MARK}{topic_ids[one.topic]}")
        for one, offset in offsets.items()
        if one.topic in topic_ids
    }


def topic_ids_of(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[str, str]:
    """The ids that were committed with offsets, by topic."""
    return {
        one.topic: value.metadata.removeprefix(_MARK)
        for one, value in committed.items()
        if value.metadata.startswith(_MARK)
    }


class GroupCommitter:
    """Commits when something has changed."""

    def __init__(self, view: OffsetReader) -> None:
        self._view = view
        self._committed: dict[TopicPartition, OffsetAndMetadata] | None = None
        self._last_complaint = ""

    def topic_ids(self, expected: Mapping[TopicPartition, int]) -> dict[str, str]:
        """The topics that the group's offsets were said of; empty if the group cannot be asked."""
        try:
            committed = self._view.committed()
        except ClientError as error:
            self._complain(str(error))
            return {}
        missing = [one for one in sorted(expected) if expected[one] > 0 and one not in committed]
        if missing:
            _log.warning(
                "group_offsets_missing",
                partitions=listed(missing),
                reason="the topic was made again since, or nothing was committed, or that has expired",
            )
        return topic_ids_of(committed)

    def follow(self, finished: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> None:
        """Everything below ``finished`` has been processed."""
        wanted = commits(finished, topic_ids)
        if wanted == self._committed:
            return
        try:
            self._view.commit(wanted)
        except ClientError as error:
            self._complain(str(error))
        else:
            self._committed = wanted
            self._last_complaint = ""

    def _complain(self, reason: str) -> None:
        # Each micro-batch tries again; the same reason is told once.
        if reason != self._last_complaint:
            self._last_complaint = reason
            _log.warning("group_commit_failed", reason=reason)
