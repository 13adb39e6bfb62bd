"""Requests of a replica fetcher to its leader, and their responses. No input or output.

Versions follow the inter-broker protocol version, without negotiation: brokers of different releases agree on
it during a rolling upgrade.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.cluster.fetch_session_handler import FetchSessionRequest, PartitionFetch
from odradek.log.leader_epoch_cache import EpochEnd
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.fetchers.fetch_state import PartitionFetchState
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.fetchers.follower_fetch_session import FollowerFetchSession
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

NAMES_VERSION: Final = 12
"""Last version of Fetch that names topics, for partitions without a topic id."""
REPLICA_STATE_SINCE: Final = 15
"""First version of Fetch with the broker epoch of the follower."""


class ReplicaFetch(NamedTuple):
    """A Fetch request. All partitions of its session count as fetched, listed in the request or not."""

    request: FetchRequest
    version: int


class FetchResult(NamedTuple):
    """Partitions of a response. ``error`` is set if they must not be used."""

    error: ErrorCode
    partitions: dict[TopicPartition, PartitionData]


# Fetch.


def partition_fetch(
    state: PartitionFetchState, log_start_offset: int, settings: FetcherSettings
) -> PartitionFetch:
    """Return the fetch parameters of a partition that is ready."""
    sends_epochs = settings.metadata_version.is_truncation_on_fetch_supported
    return PartitionFetch(
        state.topic_id,
        state.fetch_offset,
        settings.partition_bytes_max,
        state.leader_epoch,
        log_start_offset,
        state.last_fetched_epoch if sends_epochs else -1,
    )


def build_fetch(
    session: FollowerFetchSession,
    changes: Mapping[TopicPartition, PartitionFetch | None],
    settings: FetcherSettings,
) -> ReplicaFetch | None:
    """Build the request after changes of the session, None for partitions that are not ready any more.

    Returns None if the session has no partitions.
    """
    request = session.build_changes(changes)
    if not session.partitions and not request.forgotten:
        return None
    version = settings.metadata_version.fetch_version
    if not request.uses_topic_ids:
        version = min(version, NAMES_VERSION)
    return ReplicaFetch(_fetch_request(request, version, settings), version)


def _fetch_request(session: FetchSessionRequest, version: int, settings: FetcherSettings) -> FetchRequest:
    by_id = version > NAMES_VERSION
    request = FetchRequest(
        max_wait_ms=settings.wait_max_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_bytes_max,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=_fetch_topics(session.to_send),
        forgotten_topics_data=_forgotten_topics(
            {**session.forgotten, **session.replaced} if by_id else session.forgotten
        ),
    )
    if version >= REPLICA_STATE_SINCE:
        request.replica_state = ReplicaState(
            replica_id=settings.broker_id, replica_epoch=settings.broker_epoch()
        )
    else:
        request.replica_id = settings.broker_id
    return request


def _fetch_topics(fetches: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, number), fetch in fetches.items():
        topic = topics.setdefault(
            (name, fetch.topic_id), FetchTopic(topic=name, topic_id=fetch.topic_id, partitions=[])
        )
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.offset,
                last_fetched_epoch=fetch.last_fetched_epoch,
                log_start_offset=fetch.log_start_offset,
                partition_max_bytes=fetch.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(topic_ids: Mapping[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, number), topic_id in topic_ids.items():
        topic = topics.setdefault(
            (name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
        )
        topic.partitions.append(number)
    return list(topics.values())


def read_fetch_response(session: FollowerFetchSession, response: FetchResponse) -> FetchResult:
    """Update the session and return the partitions of the response."""
    error = ErrorCode(response.error_code)
    partitions = {
        TopicPartition(topic.topic or session.name_of(topic.topic_id) or "", data.partition_index): data
        for topic in response.responses
        for data in topic.partitions
    }
    is_throttled = response.throttle_time_ms > 0
    if session.handle_response(error, response.session_id, partitions.keys(), is_throttled):
        return FetchResult(ErrorCode.NONE, partitions)
    return FetchResult(error or ErrorCode.INVALID_FETCH_SESSION_EPOCH, {})


# OffsetForLeaderEpoch.


class EpochResult(NamedTuple):
    """End of a leader epoch in the leader's log."""

    error: ErrorCode
    end: EpochEnd


def build_epochs(
    epochs: Mapping[TopicPartition, tuple[int, int]], settings: FetcherSettings
) -> OffsetForLeaderEpochRequest:
    """Build the request for the end of an epoch per partition: its current leader epoch and that epoch."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, number), (current_leader_epoch, epoch) in epochs.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=number, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=settings.broker_id, topics=list(topics.values()))


def read_epochs(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochResult]:
    return {
        TopicPartition(topic.topic, result.partition): EpochResult(
            ErrorCode(result.error_code), EpochEnd(result.leader_epoch, result.end_offset)
        )
        for topic in response.topics
        for result in topic.partitions
    }


# ListOffsets.


class OffsetResult(NamedTuple):
    error: ErrorCode
    offset: int


def build_list_offsets(
    partition: TopicPartition, leader_epoch: int, timestamp: int, settings: FetcherSettings
) -> ListOffsetsRequest:
    """Build the request for the leader's log start or log end offset."""
    lookup = ListOffsetsPartition(
        partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    return ListOffsetsRequest(
        replica_id=settings.broker_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[lookup])]
    )


def read_list_offsets(response: ListOffsetsResponse, partition: TopicPartition) -> OffsetResult:
    for topic in response.topics:
        for result in topic.partitions:
            if topic.name == partition.topic and result.partition_index == partition.partition:
                return OffsetResult(ErrorCode(result.error_code), result.offset)
    return OffsetResult(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
