"""Requests of a replica fetcher: versions, session fields, replica id."""

from __future__ import annotations

import pytest
from tests.unit.replication.fetchers.scripted_leader import (
    BROKER_EPOCH,
    FOLLOWER_ID,
    ORDERS,
    REFUNDS,
    TOPIC_IDS,
    OldMetadataVersion,
    settings,
)

from odradek.cluster.metadata_version import MetadataVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.replication.fetchers import fetch_requests
from odradek.replication.fetchers.fetch_requests import ReplicaFetch
from odradek.replication.fetchers.fetch_state import PartitionFetchState, ReplicaState
from odradek.replication.fetchers.follower_fetch_session import FollowerFetchSession
from odradek.wire.message_codecs import encoder
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData


def at(offset: int, topic_id: bytes = TOPIC_IDS[ORDERS]) -> PartitionFetchState:
    return PartitionFetchState(topic_id, 4, offset, ReplicaState.FETCHING, 3)


def build_or_none(
    session: FollowerFetchSession, states: dict[TopicPartition, PartitionFetchState], **changes: object
) -> ReplicaFetch | None:
    """Build the request after which the session has exactly these partitions."""
    used = settings(**changes)
    fetches = {
        partition: fetch_requests.partition_fetch(state, 2, used) for partition, state in states.items()
    }
    return fetch_requests.build_fetch(session, {**dict.fromkeys(session.partitions), **fetches}, used)


def build(
    session: FollowerFetchSession, states: dict[TopicPartition, PartitionFetchState], **changes: object
) -> ReplicaFetch:
    fetch = build_or_none(session, states, **changes)
    assert fetch is not None
    return fetch


def respond(*partitions: TopicPartition, session_id: int = 9, error: int = 0) -> FetchResponse:
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=[
            FetchableTopicResponse(
                topic_id=TOPIC_IDS[partition],
                partitions=[
                    PartitionData(partition_index=partition.partition, error_code=0, high_watermark=1)
                ],
            )
            for partition in partitions
        ],
    )


@pytest.mark.parametrize("version", list(MetadataVersion))
def test_versions_follow_the_inter_broker_protocol(version: MetadataVersion) -> None:
    fetch = build(FollowerFetchSession(), {ORDERS: at(5)}, metadata_version=version)
    assert fetch.version == version.fetch_version
    encoder(FetchRequest, fetch.version)(fetch.request)
    if fetch.version >= 15:
        state = fetch.request.replica_state
        assert state is not None
        assert (state.replica_id, state.replica_epoch) == (FOLLOWER_ID, BROKER_EPOCH)
    else:
        assert fetch.request.replica_id == FOLLOWER_ID


def test_partition_without_a_topic_id_is_fetched_by_name() -> None:
    states = {ORDERS: at(5), REFUNDS: at(1, ZERO_TOPIC_ID)}
    fetch = build(FollowerFetchSession(), states)
    assert fetch.version == 12
    assert fetch.request.replica_id == FOLLOWER_ID
    encoder(FetchRequest, 12)(fetch.request)


def test_request_has_the_offsets_and_epochs_of_the_follower() -> None:
    fetch = build(FollowerFetchSession(), {ORDERS: at(5)}, partition_bytes_max=77, wait_max_ms=3)
    [topic] = fetch.request.topics
    [partition] = topic.partitions
    assert (topic.topic, topic.topic_id) == ("orders", TOPIC_IDS[ORDERS])
    assert (partition.fetch_offset, partition.log_start_offset) == (5, 2)
    assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (4, 3)
    assert partition.partition_max_bytes == 77
    assert (fetch.request.max_wait_ms, fetch.request.min_bytes, fetch.request.max_bytes) == (3, 1, 10 << 20)
    assert fetch.request.isolation_level == 0


def test_last_fetched_epoch_is_not_sent_to_old_leaders() -> None:
    fetch = build(FollowerFetchSession(), {ORDERS: at(5)}, metadata_version=OldMetadataVersion())
    assert fetch.request.topics[0].partitions[0].last_fetched_epoch == -1


def test_session_lists_changes_and_forgets() -> None:
    session = FollowerFetchSession()
    first = build(session, {ORDERS: at(5), REFUNDS: at(1, TOPIC_IDS[REFUNDS])})
    assert (first.request.session_id, first.request.session_epoch) == (0, 0)
    result = fetch_requests.read_fetch_response(session, respond(ORDERS, REFUNDS))
    assert list(result.partitions) == [ORDERS, REFUNDS]
    second = build(session, {ORDERS: at(6)})
    assert (second.request.session_id, second.request.session_epoch) == (9, 1)
    assert [topic.topic for topic in second.request.topics] == ["orders"]
    [forgotten] = second.request.forgotten_topics_data
    assert (forgotten.topic, forgotten.topic_id, forgotten.partitions) == ("refunds", TOPIC_IDS[REFUNDS], [1])
    assert list(session.partitions) == [ORDERS]
    fetch_requests.read_fetch_response(session, respond())
    third = build(session, {ORDERS: at(6)})
    assert not third.request.topics
    assert list(session.partitions) == [ORDERS]


def test_nothing_is_sent_without_partitions() -> None:
    session = FollowerFetchSession()
    assert build_or_none(session, {}) is None
    build(session, {ORDERS: at(5)})
    fetch_requests.read_fetch_response(session, respond(ORDERS))
    forget = build(session, {})
    assert forget.request.forgotten_topics_data
    fetch_requests.read_fetch_response(session, respond())
    assert build_or_none(session, {}) is None


def test_nothing_is_sent_without_partitions_after_a_failed_request() -> None:
    session = FollowerFetchSession()
    build(session, {ORDERS: at(5)})
    session.handle_error()
    assert build_or_none(session, {}) is None


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
def test_session_error_leads_to_a_full_request(error: ErrorCode) -> None:
    session = FollowerFetchSession()
    build(session, {ORDERS: at(5)})
    fetch_requests.read_fetch_response(session, respond(ORDERS))
    build(session, {ORDERS: at(5)})
    result = fetch_requests.read_fetch_response(session, respond(session_id=0, error=error))
    assert result.error is error
    again = build(session, {ORDERS: at(5)})
    assert again.request.session_epoch == 0
    assert again.request.topics


def test_response_for_an_unknown_topic_id_is_not_used() -> None:
    session = FollowerFetchSession()
    build(session, {ORDERS: at(5)})
    result = fetch_requests.read_fetch_response(session, respond(REFUNDS))
    assert result.error is not ErrorCode.NONE
    assert not result.partitions


def test_recreated_topic_is_forgotten_under_its_old_id() -> None:
    session = FollowerFetchSession()
    build(session, {ORDERS: at(5)})
    fetch_requests.read_fetch_response(session, respond(ORDERS))
    again = build(session, {ORDERS: at(0, b"n" * 16)})
    assert [topic.topic_id for topic in again.request.topics] == [b"n" * 16]
    assert [topic.topic_id for topic in again.request.forgotten_topics_data] == [TOPIC_IDS[ORDERS]]


def test_request_lists_only_changes() -> None:
    session = FollowerFetchSession()
    names = [TopicPartition(f"topic-{number % 7}", number) for number in range(50)]
    ids = {name: f"{name.topic:16}".encode() for name in names}
    states = {name: at(0, ids[name]) for name in names}
    build(session, states)
    session.handle_response(ErrorCode.NONE, 9, names, is_throttled=False)
    moved = fetch_requests.partition_fetch(at(1, ids[names[3]]), 2, settings())
    fetch = fetch_requests.build_fetch(session, {names[3]: moved, names[4]: None}, settings())
    assert fetch is not None
    assert [len(topic.partitions) for topic in fetch.request.topics] == [1]
    assert [topic.partitions for topic in fetch.request.forgotten_topics_data] == [[4]]
    assert list(session.partitions) == [*names[:3], *names[5:], names[3]]
    session.handle_response(ErrorCode.NONE, 9, [], is_throttled=False)
    idle = fetch_requests.build_fetch(session, {names[3]: moved}, settings())
    assert idle is not None
    assert not idle.request.topics


def test_names_of_topics_go_with_their_last_partition() -> None:
    session = FollowerFetchSession()
    second = TopicPartition(ORDERS.topic, ORDERS.partition + 1)
    topic_id = TOPIC_IDS[ORDERS]
    build(session, {ORDERS: at(0), second: at(0)})
    build(session, {second: at(3)})
    assert session.name_of(topic_id) == ORDERS.topic
    build_or_none(session, {})
    assert session.name_of(topic_id) is None


def test_epoch_request_and_list_offsets_name_the_replica() -> None:
    epochs = fetch_requests.build_epochs({ORDERS: (4, 3), REFUNDS: (1, 0)}, settings())
    assert epochs.replica_id == FOLLOWER_ID
    assert [topic.topic for topic in epochs.topics] == ["orders", "refunds"]
    lookup = epochs.topics[0].partitions[0]
    assert (lookup.current_leader_epoch, lookup.leader_epoch) == (4, 3)
    offsets = fetch_requests.build_list_offsets(ORDERS, 4, -1, settings())
    assert offsets.replica_id == FOLLOWER_ID
    assert offsets.topics[0].partitions[0].current_leader_epoch == 4
