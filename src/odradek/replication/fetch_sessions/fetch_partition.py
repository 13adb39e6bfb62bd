"""A partition of a fetch request, and the result of reading it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicId
from odradek.ports.files import Part

_NO_REPLICA: Final = -1
_NONE: Final = ErrorCode.NONE  # looked up once: an enum member costs more than a global

SessionKey = tuple[str | TopicId | None, int]
"""A partition in a session: topic id and partition if the session uses ids, else topic name and partition."""


class FetchPartition:
    """One partition of a fetch request. In a session it also holds the state last sent in a response.

    ``topic`` is None while the topic id is unknown here. ``log_start_offset`` is the fetcher's;
    ``leader_log_start_offset`` is the one last sent to it.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "leader_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    key: SessionKey

    def __init__(
        self,
        topic: str | None,
        topic_id: TopicId,
        partition: int,
        fetch_offset: int,
        log_start_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = UNKNOWN_OFFSET
        self.leader_log_start_offset = UNKNOWN_OFFSET


class FetchPartitionData:
    """The result of reading one partition of a fetch. ``log_end_offset`` is set only for followers."""

    __slots__ = (
        "aborted",
        "diverging_end_offset",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
        "preferred_replica",
        "records",
        "records_bytes",
        "request",
    )

    log_end_offset: int

    def __init__(
        self,
        request: FetchPartition,
        error: ErrorCode,
        high_watermark: int = UNKNOWN_OFFSET,
        last_stable_offset: int = UNKNOWN_OFFSET,
        log_start_offset: int = UNKNOWN_OFFSET,
        records: Part | None = None,
        records_bytes: int = 0,
    ) -> None:
        self.request = request
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.records_bytes = records_bytes
        self.preferred_replica = _NO_REPLICA
        self.diverging_epoch = NO_LEADER_EPOCH
        self.diverging_end_offset = UNKNOWN_OFFSET
        self.aborted: Sequence[tuple[int, int]] | None = None

    def must_respond(self) -> bool:
        """Return whether the response must include this partition, given the last response."""
        last_response = self.request
        return (
            self.records_bytes > 0
            or self.high_watermark != last_response.high_watermark
            or self.log_start_offset != last_response.leader_log_start_offset
            or self.error != _NONE
            or self.preferred_replica != _NO_REPLICA
            or self.diverging_epoch >= 0
        )
