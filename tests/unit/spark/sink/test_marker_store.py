"""Markers as brokers keep them: what is asked for, and what becomes of a connection that failed."""

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
PLACE = TopicPartition("__pipeline_markers", 0)
NAME = "odradek-sink.q.3"
REFUSED = RequestRefused("no", code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Brokers:
    """An admin client that gives what it was told to, or raises it."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, Any, Any]] = []
        self.forgotten = 0

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any, **named: Any) -> Any:
            self.asked.append((name, args, named))
            answer = self.answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return ask


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()

    def forget(admin: Any) -> None:
        made.forgotten += 1

    monkeypatch.setattr(marker_store, "admin_of", lambda settings: made)
    monkeypatch.setattr(marker_store, "forget", forget)
    made.answers["describe_cluster"] = SimpleNamespace(
        nodes=[SimpleNamespace(id=number) for number in range(5)]
    )
    return made


def test_a_marker_is_read_when_it_is_stable(brokers: Brokers) -> None:
    brokers.answers["list_group_offsets"] = {PLACE: OffsetAndMetadata(5, "rows=2")}
    assert read_marker(OPTIONS, KEY) == Marker(5, 2)
    assert brokers.asked == [("list_group_offsets", ("__sink.q.3", [PLACE]), {"require_stable": True})]
    brokers.answers["list_group_offsets"] = {PLACE: None}
    assert read_marker(OPTIONS, KEY) == Marker(0)


def test_markers_of_a_query_are_those_of_its_numbered_groups(brokers: Brokers) -> None:
    brokers.answers["list_groups"] = ["__sink.q.0", "__sink.q.12", "__sink.q.x", "__sink.qq.1", "other"]
    brokers.answers["list_offsets_of_groups"] = {
        "__sink.q.0": {PLACE: OffsetAndMetadata(5, "")},
        "__sink.q.12": {PLACE: None},
    }
    assert read_markers(OPTIONS, "q") == {0: Marker(5)}
    assert brokers.asked[1][1] == ({"__sink.q.0": [PLACE], "__sink.q.12": [PLACE]},)


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("list_group_offsets", lambda: read_marker(OPTIONS, KEY)),
        ("list_groups", lambda: read_markers(OPTIONS, "q")),
        ("describe_transactions", lambda: describe_transaction(OPTIONS, KEY)),
        ("end_transaction", lambda: end_transaction(OPTIONS, OpenTransaction("t", 1, 2), committed=True)),
    ],
)
def test_what_fails_is_raised_and_its_connection_not_used_again(
    brokers: Brokers, call: str, ask: Any
) -> None:
    brokers.answers[call] = REFUSED
    with pytest.raises(ClientError, match="no"):
        ask()
    assert brokers.forgotten == 1


def some_failed(error: ClientError) -> PartialFailure:
    return PartialFailure("some", {NAME: error}, {})


@pytest.mark.parametrize(
    "error", [RequestRefused("?", code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), UnsupportedVersion("old")]
)
def test_a_transaction_that_is_not_known_is_none(brokers: Brokers, error: ClientError) -> None:
    brokers.answers["describe_transactions"] = some_failed(error)
    assert describe_transaction(OPTIONS, KEY) is None
    assert brokers.forgotten == 0


def test_one_that_may_not_be_described_is_a_failure(brokers: Brokers) -> None:
    brokers.answers["describe_transactions"] = some_failed(REFUSED)
    with pytest.raises(PartialFailure):
        describe_transaction(OPTIONS, KEY)
    assert brokers.forgotten == 1


@pytest.mark.parametrize(
    ("values", "expected_ms"),
    [(["10", "7"], 7 * 60_000), (["10", None], 10 * 60_000), ([None], None), ([], None)],
)
def test_markers_are_kept_for_as_long_as_the_broker_keeps_them_that_keeps_them_shortest(
    brokers: Brokers, values: list[str | None], expected_ms: int | None
) -> None:
    brokers.answers["describe_configs"] = {
        number: {RETENTION_SETTING: SimpleNamespace(value=value)} for number, value in enumerate(values)
    } | {"silent": {}}
    assert offsets_retention_ms(brokers) == expected_ms  # type: ignore[arg-type]
    brokers.answers["describe_configs"] = REFUSED
    assert offsets_retention_ms(brokers) is None  # type: ignore[arg-type]


def test_a_marker_topic_is_looked_for_once_a_minute_or_when_it_is_doubted(brokers: Brokers) -> None:
    times: list[int] = []
    topics = MarkerTopics(lambda: times[-1])
    looks = []
    for now_ms, afresh in ((0, False), (59_999, False), (59_999, True), (100_000, False), (119_999, False)):
        times.append(now_ms)
        brokers.asked.clear()
        topics.ensure(OPTIONS, afresh=afresh)
        looks.append("create_topics" in [name for name, *_ in brokers.asked])
    assert looks == [True, False, True, False, True]


def test_a_process_remembers_a_bounded_number_of_marker_topics(brokers: Brokers) -> None:
    topics = MarkerTopics(lambda: 0)
    for number in range(200):
        topics.ensure(SinkOptions({"bootstrap.servers": f"broker-{number}:1"}))
    assert 0 < len(topics._seen_ms) <= 64


def test_a_marker_topic_that_cannot_be_made_is_told_and_looked_for_again(brokers: Brokers) -> None:
    brokers.answers["describe_cluster"] = REFUSED
    topics = MarkerTopics(lambda: 0)
    for count in (1, 2):
        with pytest.raises(SinkFailed, match="__pipeline_markers"):
            topics.ensure(OPTIONS)
        assert brokers.forgotten == count


@pytest.mark.parametrize(
    ("code", "topics", "is_there"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, [], True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ["__pipeline_markers"], True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ["another"], False),
    ],
)
def test_a_marker_topic_that_an_administrator_made_will_do(
    brokers: Brokers, code: ErrorCode, topics: list[str], is_there: bool
) -> None:
    refused = RequestRefused("not made", code=code)
    brokers.answers["create_topics"] = PartialFailure("some", {"__pipeline_markers": refused})
    brokers.answers["list_topics"] = topics
    if is_there:
        MarkerTopics(lambda: 0).ensure(OPTIONS)
    else:
        with pytest.raises(SinkFailed, match="not made"):
            MarkerTopics(lambda: 0).ensure(OPTIONS)


def test_a_marker_topic_has_one_partition_and_no_more_replicas_than_three(brokers: Brokers) -> None:
    MarkerTopics(lambda: 0).ensure(OPTIONS)
    [[made]] = [args[0] for name, args, _ in brokers.asked if name == "create_topics"]
    assert made == NewTopic("__pipeline_markers", 1, 3)
