"""What the driver asks a cluster, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from odradek import (
    AuthorizationFailed,
    ClientError,
    ConnectionFailed,
    ErrorCode,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    PartialFailure,
    PartitionInfo,
    TimedOut,
    TopicDescription,
    TopicPartition,
    UnknownTopic,
)
from odradek.spark.options.offsets import AtTime, Edge, Position
from odradek.spark.options.source_options import Use, read_source_options
from odradek.spark.source import offset_reader
from odradek.spark.source.offset_reader import OffsetReader

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class FakeAdmin:
    """Topics with ends of logs; the next calls can be made to fail."""

    def __init__(self) -> None:
        self.counts = {"a": 2, "b": 1}
        self.ends = {A0: 10, A1: 20, B0: 30}
        self.failures: list[ClientError] = []
        self.asked: list[str] = []
        self.levels: set[str] = set()

    def _call(self, what: str) -> None:
        self.asked.append(what)
        if self.failures:
            raise self.failures.pop(0)

    def list_topics(self) -> list[str]:
        self._call("list")
        return [*self.counts, "other"]

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        self._call("describe")
        found = {
            name: TopicDescription(
                name,
                f"id of {name}",
                False,
                tuple(PartitionInfo(name, number, 0, (0,), (0,)) for number in range(self.counts[name])),
                None,
            )
            for name in names
            if name in self.counts
        }
        unknown = {name: UnknownTopic(f"no {name}") for name in names if name not in self.counts}
        if unknown:
            raise PartialFailure("describe topics", unknown, found)
        return found

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], *, isolation_level: str
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._call("offsets")
        self.levels.add(isolation_level)
        answers = {OffsetSpec.EARLIEST: lambda one: 1, OffsetSpec.LATEST: lambda one: self.ends[one]}
        return {
            one: OffsetAndTimestamp(answers.get(spec, lambda one: -1)(one), -1)
            for one, spec in wanted.items()
        }

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._call(f"group {group}")
        return {A0: OffsetAndMetadata(4), A1: None}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(offset_reader, "admin_of", lambda settings: fake)
    monkeypatch.setattr(offset_reader, "forget", lambda client: None)
    monkeypatch.setattr(offset_reader.time, "sleep", lambda seconds: fake.asked.append(f"wait {seconds:g}"))
    return fake


def view(**options: str) -> OffsetReader:
    given = {"kafka.bootstrap.servers": "nowhere:9092", **(options or {"subscribe": "a,b"})}
    return OffsetReader(read_source_options(given, Use.STREAM))


def reached(admin: FakeAdmin, **options: str) -> OffsetReader:
    """A view that has had an answer."""
    one = view(**options)
    one.look({})
    admin.asked.clear()
    return one


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"subscribe": "b,a"}, [A0, A1, B0]),
        ({"assign": '{"a": [1]}'}, [A1]),
        ({"subscribePattern": "[ab]"}, [A0, A1, B0]),
        ({"subscribePattern": "nothing"}, []),
    ],
)
def test_partitions_are_found_as_they_were_chosen(
    admin: FakeAdmin, options: dict[str, str], partitions: list[TopicPartition]
) -> None:
    layout = view(**options).layout()
    assert list(layout.partitions) == partitions
    assert layout.topic_ids == {one.topic: f"id of {one.topic}" for one in partitions}


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"subscribe": "a,none"}, "none"), ({"assign": '{"a": [0, 7], "none": [0]}'}, "none, a-7")],
)
def test_what_was_named_and_does_not_exist_is_told_at_once(
    admin: FakeAdmin, options: dict[str, str], missing: str
) -> None:
    with pytest.raises(UnknownTopic, match=f"^{missing} does not exist: create it, or correct"):
        view(**options).layout()
    assert admin.asked == ["describe"]


def test_logs_are_seen_with_the_isolation_of_the_reader(admin: FakeAdmin) -> None:
    sight = view(**{"subscribe": "a", "kafka.isolation.level": "read_committed"}).look({})
    assert (sight.log_starts, sight.ends) == ({A0: 1, A1: 1}, {A0: 10, A1: 20})
    assert admin.levels == {"read_committed"}


def test_what_may_pass_is_tried_again_once_the_cluster_was_reached(admin: FakeAdmin) -> None:
    one = reached(admin, subscribe="a", **{"fetchOffset.retryIntervalMs": "250"})
    admin.failures = [ConnectionFailed("gone"), PartialFailure("list", {A0: TimedOut("slow")})]
    assert one.look({}).ends == {A0: 10, A1: 20}
    assert admin.asked == ["describe", "wait 0.25", "describe", "wait 0.25", "describe", "offsets", "offsets"]


def test_retries_are_bounded(admin: FakeAdmin) -> None:
    one = reached(admin, subscribe="a", **{"fetchOffset.numRetries": "2"})
    admin.failures = [ConnectionFailed(f"gone {number}") for number in range(5)]
    with pytest.raises(ConnectionFailed, match="gone 1"):
        one.look({})


def test_what_will_not_pass_is_told_at_once(admin: FakeAdmin) -> None:
    one = reached(admin)
    admin.failures = [AuthorizationFailed("not for you", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(AuthorizationFailed):
        one.look({})
    assert admin.asked == ["describe"]


def test_a_cluster_that_was_never_reached_is_not_waited_for_again(admin: FakeAdmin) -> None:
    admin.failures = [TimedOut("nobody at nowhere:9092")]
    with pytest.raises(ConnectionFailed, match="no broker answers at nowhere:9092: start it, or correct"):
        view().look({})
    assert admin.asked == ["describe"]


def test_a_topic_deleted_between_two_questions_is_left_out(admin: FakeAdmin) -> None:
    one = reached(admin, subscribePattern="[ab]")

    def delete(what: str) -> None:
        if what == "offsets" and "b" in admin.counts:
            del admin.counts["b"]
            raise PartialFailure("list offsets", {B0: UnknownTopic("gone")})

    admin._call = delete  # type: ignore[method-assign]
    assert set(one.look({}).ends) == {A0, A1}


def test_an_answer_that_contradicts_what_was_read_is_asked_for_again(admin: FakeAdmin) -> None:
    one = reached(admin, subscribe="a")
    assert one.look({A0: 10}).ends[A0] == 10
    assert not [word for word in admin.asked if word.startswith("wait")]
    # Believed after the third time.
    assert one.look({A0: 11}).ends[A0] == 10
    assert [word for word in admin.asked if word.startswith("wait")] == ["wait 1", "wait 1"]


def test_partitions_are_remembered_for_as_long_as_the_user_allows(admin: FakeAdmin) -> None:
    one = reached(admin, subscribe="a", **{"partition.metadata.cache.ttl.ms": "60000"})
    one.look({})
    assert admin.asked == ["offsets", "offsets"]
    every_time = reached(admin, subscribe="a")
    every_time.look({})
    assert admin.asked == ["describe", "offsets", "offsets"]


def test_positions_become_offsets(admin: FakeAdmin) -> None:
    one = view(**{"subscribe": "a", "startingOffsets": "group", "kafka.group.id": "readers"})
    assert one.offsets_of(one._options.start, [A0, A1]) == {A0: 4, A1: 1}
    assert one.offsets_of(Position(Edge.LATEST, {A0: AtTime(99)}), [A0, A1]) == {A0: 10, A1: 20}
