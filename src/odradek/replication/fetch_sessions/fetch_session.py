"""A fetch session: the partitions of a fetcher, and the last response for each.

Invariants: a session's epoch grows by one with every request it serves, so a response prepared for an older
request is recognised and rejected; a later request replaces an entry of a session and never modifies it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.model.errors import ErrorCode
from odradek.model.ids import UNKNOWN_OFFSET, TopicId
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData, SessionKey
from odradek.replication.fetch_sessions.follower_watches import FollowerWatches

NO_SESSION: Final = 0
INITIAL_SESSION_EPOCH: Final = 0
FINAL_SESSION_EPOCH: Final = -1

_NONE: Final = ErrorCode.NONE  # looked up once: an enum member costs more than a global


class FetchSession:
    """The partitions of one fetcher, in the order in which they are read and returned."""

    __slots__ = (
        "cached_size",
        "created_ms",
        "has_unresolved_topics",
        "is_old",
        "last_used_ms",
        "partitions",
        "privileged",
        "session_epoch",
        "session_id",
        "uses_topic_ids",
        "watches",
    )

    def __init__(self, session_id: int, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.session_epoch = INITIAL_SESSION_EPOCH + 1
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.partitions: dict[SessionKey, FetchPartition] = {}
        self.has_unresolved_topics = False
        self.cached_size = -1
        self.is_old = False
        self.watches: FollowerWatches | None = None
        """Set for a follower whose partitions are watched."""

    def add(self, entry: FetchPartition) -> None:
        """Add or update a partition; an update keeps its position and the state last sent."""
        key = (entry.topic_id if self.uses_topic_ids else entry.topic, entry.partition)
        entry.key = key
        known = self.partitions.get(key)
        if known is not None:
            entry.high_watermark = known.high_watermark
            entry.leader_log_start_offset = known.leader_log_start_offset
            if entry.topic is None:
                entry.topic = known.topic
        if entry.topic is None:
            self.has_unresolved_topics = True
        self.partitions[key] = entry
        if self.watches is not None:
            self.watches.keep(key)

    def forget(self, key: SessionKey) -> None:
        self.partitions.pop(key, None)
        if self.watches is not None:
            self.watches.forget(key)

    def update_response_state(self, result: FetchPartitionData) -> None:
        """Record what is being sent to the fetcher."""
        entry = result.request
        # After an error the partition must be sent again once it recovers, whatever its high watermark is;
        # also after a diverging epoch, with which a follower does not take over the high watermark.
        is_usable = result.error == _NONE and result.diverging_epoch < 0
        entry.high_watermark = result.high_watermark if is_usable else UNKNOWN_OFFSET
        entry.leader_log_start_offset = result.log_start_offset
        if result.records_bytes > 0 and len(self.partitions) > 1:
            # To the end, so that partitions with much data do not starve others of a size-limited response.
            del self.partitions[entry.key]
            self.partitions[entry.key] = entry
            if self.watches is not None:
                self.watches.keep_last(entry.key)

    def resolve_unknown_topics(self, name_of: Callable[[TopicId], str | None]) -> None:
        """Look up the names of topics whose ids were unknown when they were added."""
        self.has_unresolved_topics = False
        for entry in self.partitions.values():
            if entry.topic is None:
                entry.topic = name_of(entry.topic_id)
                self.has_unresolved_topics = self.has_unresolved_topics or entry.topic is None
