"""Requests of replica fetchers are those of Apache Kafka, at every recorded protocol version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.cluster.recordings import SCENARIOS, Decoded, requests
from tests.unit.replication.fetchers.scripted_leader import settings

from odradek.cluster.metadata_version import MetadataVersion
from odradek.model.ids import TopicPartition
from odradek.replication.fetchers import fetch_requests
from odradek.replication.fetchers.fetch_state import PartitionFetchState, ReplicaState
from odradek.replication.fetchers.follower_fetch_session import FollowerFetchSession
from odradek.wire.message_codecs import encoder


def recorded(api: str) -> list[tuple[str, Decoded]]:
    return [(ibp, request) for ibp, scenario in SCENARIOS for request in requests(ibp, scenario, api)]


def body_bytes(body: Any, version: int) -> bytes:
    body_type: type = type(body)
    return encoder(body_type, version)(body)


FULL_FETCHES = [(ibp, fetch) for ibp, fetch in recorded("Fetch") if fetch.body.session_epoch == 0]


def settings_of(ibp: str, body: Any) -> Any:
    state = getattr(body, "replica_state", None)
    return settings(
        broker_id=body.replica_id if state is None else state.replica_id,
        broker_epoch=lambda: -1 if state is None else state.replica_epoch,
        metadata_version=MetadataVersion.parse(ibp),
    )


def test_there_are_recordings() -> None:
    assert len(FULL_FETCHES) > 20
    assert {ibp for ibp, _ in FULL_FETCHES} >= {"2.8", "3.4", "3.9"}
    assert recorded("ListOffsets")


@pytest.mark.parametrize(
    ("ibp", "fetch"), FULL_FETCHES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_full_fetch_is_kafkas(ibp: str, fetch: Decoded) -> None:
    body, version = fetch.body, fetch.recorded.version
    changes, used = {}, settings_of(ibp, body)
    for number, topic in enumerate(body.topics):
        for partition in topic.partitions:
            name = TopicPartition(topic.topic or f"topic {number}", partition.partition)
            state = PartitionFetchState(
                topic.topic_id if version > 12 else b"t" * 16,
                partition.current_leader_epoch,
                partition.fetch_offset,
                ReplicaState.FETCHING,
                partition.last_fetched_epoch,
            )
            changes[name] = fetch_requests.partition_fetch(state, partition.log_start_offset, used)
    built = fetch_requests.build_fetch(FollowerFetchSession(), changes, used)
    assert built is not None
    built.request.session_id = body.session_id  # of the session that a full fetch closes
    assert built.version == version
    assert body_bytes(built.request, version) == body_bytes(body, version)


@pytest.mark.parametrize(
    ("ibp", "lookup"), recorded("ListOffsets"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_offset_lookup_is_kafkas(ibp: str, lookup: Decoded) -> None:
    body, version = lookup.body, lookup.recorded.version
    if body.replica_id < 0:
        pytest.skip("a consumer's")
    [topic] = body.topics
    [partition] = topic.partitions
    config = settings(broker_id=body.replica_id, metadata_version=MetadataVersion.parse(ibp))
    built = fetch_requests.build_list_offsets(
        TopicPartition(topic.name, partition.partition_index),
        partition.current_leader_epoch,
        partition.timestamp,
        config,
    )
    assert config.metadata_version.list_offsets_version == version
    assert body_bytes(built, version) == body_bytes(body, version)
