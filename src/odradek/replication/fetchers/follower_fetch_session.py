"""Fetch session of a fetcher: requests in proportion to what has changed, not to its partitions.

Only the first request of a session lists all partitions. The topic names of responses, which have ids from
Fetch 13 on, are those of the partitions in the session.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cluster.fetch_session_handler import (
    INITIAL_EPOCH,
    FetchSessionHandler,
    FetchSessionRequest,
    PartitionFetch,
    is_recreated,
)
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition


class FollowerFetchSession(FetchSessionHandler):
    __slots__ = ("_topics",)

    def __init__(self) -> None:
        super().__init__()
        self._topics: dict[TopicId, tuple[str, int]] = {}
        """Name of each topic id in the session, and its number of partitions."""

    def name_of(self, topic_id: TopicId) -> str | None:
        topic = self._topics.get(topic_id)
        return None if topic is None else topic[0]

    def build_changes(self, changes: Mapping[TopicPartition, PartitionFetch | None]) -> FetchSessionRequest:
        """Build the request after which the session has these changes; None removes a partition.

        Changed partitions move to the end.
        """
        to_send: dict[TopicPartition, PartitionFetch] = {}
        forgotten: dict[TopicPartition, TopicId] = {}
        replaced: dict[TopicPartition, TopicId] = {}
        for partition, fetch in changes.items():
            before = self._partitions.get(partition)
            if fetch == before:
                continue
            if before is not None:
                self._remove(partition, before)
            if fetch is None:
                assert before is not None
                forgotten[partition] = before.topic_id
            else:
                self._add(partition, fetch)
                to_send[partition] = fetch
                if before is not None and is_recreated(before, fetch):
                    replaced[partition] = before.topic_id
        uses_ids = ZERO_TOPIC_ID not in self._topics
        if self._epoch == INITIAL_EPOCH:
            everything = dict(self._partitions)
            return FetchSessionRequest(self._session_id, INITIAL_EPOCH, everything, {}, {}, uses_ids)
        uses_ids = uses_ids and ZERO_TOPIC_ID not in forgotten.values()
        return FetchSessionRequest(self._session_id, self._epoch, to_send, forgotten, replaced, uses_ids)

    def _add(self, partition: TopicPartition, fetch: PartitionFetch) -> None:
        self._partitions[partition] = fetch
        _, count = self._topics.get(fetch.topic_id, ("", 0))
        self._topics[fetch.topic_id] = (partition.topic, count + 1)

    def _remove(self, partition: TopicPartition, fetch: PartitionFetch) -> None:
        del self._partitions[partition]
        name, count = self._topics.pop(fetch.topic_id)
        if count > 1:
            self._topics[fetch.topic_id] = (name, count - 1)
