"""Requests for markers and marker topics, and discarding of clients after errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.admin.topics import NewTopic
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, PartialFailure, RequestRefused, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.spark.options.sink_options import SinkOptions
from odradek.spark.sink import marker_store
from odradek.spark.sink.errors import SinkFailed
from odradek.spark.sink.marker_store import (
    MarkerTopics,
    describe_transaction,
    end_transaction,
    offsets_retention_ms,
    read_marker,
    read_markers,
)
from odradek.spark.sink.markers import RETENTION_SETTING, Marker, MarkerKey
from odradek.spark.sink.row_sender import OpenTransaction

KEY = MarkerKey("q", 3)
OPTIONS = SinkOptions({"bootstrap.servers": "nowhere:1"})
MARKER_PARTITION = TopicPartition("__pipeline_markers", 0)
NAME = "odradek-sink.q.3"
REFUSED = RequestRefused("no", code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Brokers:
    """Admin client that returns or raises prepared responses."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.requests: list[tuple[str, Any, Any]] = []
        self.discarded_count = 0

    def __getattr__(self, name: str) -> Any:
        def request(*args: Any, **named: Any) -> Any:
            self.requests.append((name, args, named))
            response = self.responses.get(name)
            if isinstance(response, BaseException):
                raise response
            return response

        return request


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()

    def discard(admin: Any) -> None:
        brokers.discarded_count += 1

    monkeypatch.setattr(marker_store, "get_admin", lambda settings: brokers)
    monkeypatch.setattr(marker_store, "discard", discard)
    brokers.responses["describe_cluster"] = SimpleNamespace(
        nodes=[SimpleNamespace(id=number) for number in range(5)]
    )
    return brokers


def test_marker_is_read_with_require_stable(brokers: Brokers) -> None:
    brokers.responses["list_group_offsets"] = {MARKER_PARTITION: OffsetAndMetadata(5, "rows=2")}
    assert read_marker(OPTIONS, KEY) == Marker(5, 2)
    assert brokers.requests == [
        ("list_group_offsets", ("__sink.q.3", [MARKER_PARTITION]), {"require_stable": True})
    ]
    brokers.responses["list_group_offsets"] = {MARKER_PARTITION: None}
    assert read_marker(OPTIONS, KEY) == Marker(0)


def test_markers_of_a_query_are_read_from_its_numbered_groups(brokers: Brokers) -> None:
    brokers.responses["list_groups"] = ["__sink.q.0", "__sink.q.12", "__sink.q.x", "__sink.qq.1", "other"]
    brokers.responses["list_offsets_of_groups"] = {
        "__sink.q.0": {MARKER_PARTITION: OffsetAndMetadata(5, "")},
        "__sink.q.12": {MARKER_PARTITION: None},
    }
    assert read_markers(OPTIONS, "q") == {0: Marker(5)}
    assert brokers.requests[1][1] == ({"__sink.q.0": [MARKER_PARTITION], "__sink.q.12": [MARKER_PARTITION]},)


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("list_group_offsets", lambda: read_marker(OPTIONS, KEY)),
        ("list_groups", lambda: read_markers(OPTIONS, "q")),
        ("describe_transactions", lambda: describe_transaction(OPTIONS, KEY)),
        ("end_transaction", lambda: end_transaction(OPTIONS, OpenTransaction("t", 1, 2), committed=True)),
    ],
)
def test_failed_requests_raise_and_discard_the_client(brokers: Brokers, call: str, function: Any) -> None:
    brokers.responses[call] = REFUSED
    with pytest.raises(ClientError, match="no"):
        function()
    assert brokers.discarded_count == 1


def partial_failure(error: ClientError) -> PartialFailure:
    return PartialFailure("some", {NAME: error}, {})


@pytest.mark.parametrize(
    "error", [RequestRefused("?", code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), UnsupportedVersion("old")]
)
def test_unknown_transaction_is_none(brokers: Brokers, error: ClientError) -> None:
    brokers.responses["describe_transactions"] = partial_failure(error)
    assert describe_transaction(OPTIONS, KEY) is None
    assert brokers.discarded_count == 0


def test_denied_describe_transaction_raises(brokers: Brokers) -> None:
    brokers.responses["describe_transactions"] = partial_failure(REFUSED)
    with pytest.raises(PartialFailure):
        describe_transaction(OPTIONS, KEY)
    assert brokers.discarded_count == 1


@pytest.mark.parametrize(
    ("values", "expected_ms"),
    [(["10", "7"], 7 * 60_000), (["10", None], 10 * 60_000), ([None], None), ([], None)],
)
def test_marker_retention_is_the_minimum_over_brokers(
    brokers: Brokers, values: list[str | None], expected_ms: int | None
) -> None:
    brokers.responses["describe_configs"] = {
        number: {RETENTION_SETTING: SimpleNamespace(value=value)} for number, value in enumerate(values)
    } | {"silent": {}}
    assert offsets_retention_ms(brokers) == expected_ms  # type: ignore[arg-type]
    brokers.responses["describe_configs"] = REFUSED
    assert offsets_retention_ms(brokers) is None  # type: ignore[arg-type]


def test_marker_topic_is_checked_once_a_minute_or_on_request(brokers: Brokers) -> None:
    times: list[int] = []
    topics = MarkerTopics(lambda: times[-1])
    checks = []
    for now_ms, recheck in ((0, False), (59_999, False), (59_999, True), (100_000, False), (119_999, False)):
        times.append(now_ms)
        brokers.requests.clear()
        topics.ensure(OPTIONS, recheck=recheck)
        checks.append("create_topics" in [name for name, *_ in brokers.requests])
    assert checks == [True, False, True, False, True]


def test_checked_marker_topics_are_bounded(brokers: Brokers) -> None:
    topics = MarkerTopics(lambda: 0)
    for number in range(200):
        topics.ensure(SinkOptions({"bootstrap.servers": f"broker-{number}:1"}))
    assert 0 < len(topics._checked_ms) <= 64


def test_failed_marker_topic_creation_raises_and_is_retried(brokers: Brokers) -> None:
    brokers.responses["describe_cluster"] = REFUSED
    topics = MarkerTopics(lambda: 0)
    for count in (1, 2):
        with pytest.raises(SinkFailed, match="__pipeline_markers"):
            topics.ensure(OPTIONS)
        assert brokers.discarded_count == count


@pytest.mark.parametrize(
    ("code", "topics", "exists"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, [], True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ["__pipeline_markers"], True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ["another"], False),
    ],
)
def test_existing_marker_topic_is_accepted(
    brokers: Brokers, code: ErrorCode, topics: list[str], exists: bool
) -> None:
    rejected = RequestRefused("not created", code=code)
    brokers.responses["create_topics"] = PartialFailure("some", {"__pipeline_markers": rejected})
    brokers.responses["list_topics"] = topics
    if exists:
        MarkerTopics(lambda: 0).ensure(OPTIONS)
    else:
        with pytest.raises(SinkFailed, match="not created"):
            MarkerTopics(lambda: 0).ensure(OPTIONS)


def test_marker_topic_has_one_partition_and_at_most_three_replicas(brokers: Brokers) -> None:
    MarkerTopics(lambda: 0).ensure(OPTIONS)
    [[new_topic]] = [args[0] for name, args, _ in brokers.requests if name == "create_topics"]
    assert new_topic == NewTopic("__pipeline_markers", 1, 3)
