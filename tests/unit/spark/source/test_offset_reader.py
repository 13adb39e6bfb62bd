"""Requests of the driver to the cluster, and their retries."""

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
from odradek.spark.options.offsets import LogBound, OffsetLimit, SpecificTimestamp
from odradek.spark.options.source_options import QueryType, read_source_options
from odradek.spark.source import offset_reader
from odradek.spark.source.offset_reader import OffsetReader

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class FakeAdmin:
    """Topics with log end offsets; the next calls can be made to fail."""

    def __init__(self) -> None:
        self.counts = {"a": 2, "b": 1}
        self.ends = {A0: 10, A1: 20, B0: 30}
        self.failures: list[ClientError] = []
        self.calls: list[str] = []
        self.levels: set[str] = set()

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if self.failures:
            raise self.failures.pop(0)

    def list_topics(self) -> list[str]:
        self._call("list")
        return [*self.counts, "other"]

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        self._call("describe")
        described = {
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
            raise PartialFailure("describe topics", unknown, described)
        return described

    def list_offsets(
        self, specs: Mapping[TopicPartition, Any], *, isolation_level: str
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._call("offsets")
        self.levels.add(isolation_level)
        offsets = {
            OffsetSpec.EARLIEST: lambda partition: 1,
            OffsetSpec.LATEST: lambda partition: self.ends[partition],
        }
        return {
            partition: OffsetAndTimestamp(offsets.get(spec, lambda partition: -1)(partition), -1)
            for partition, spec in specs.items()
        }

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._call(f"group {group}")
        return {A0: OffsetAndMetadata(4), A1: None}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(offset_reader, "get_admin", lambda settings: fake)
    monkeypatch.setattr(offset_reader, "discard", lambda client: None)
    monkeypatch.setattr("time.sleep", lambda seconds: fake.calls.append(f"wait {seconds:g}"))
    return fake


def new_reader(**options: str) -> OffsetReader:
    raw_options = {"kafka.bootstrap.servers": "nowhere:9092", **(options or {"subscribe": "a,b"})}
    return OffsetReader(read_source_options(raw_options, QueryType.STREAM))


def connected_reader(admin: FakeAdmin, **options: str) -> OffsetReader:
    """Return a reader that has had a response."""
    reader = new_reader(**options)
    reader.fetch_log_offsets({})
    admin.calls.clear()
    return reader


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"subscribe": "b,a"}, [A0, A1, B0]),
        ({"assign": '{"a": [1]}'}, [A1]),
        ({"subscribePattern": "[ab]"}, [A0, A1, B0]),
        ({"subscribePattern": "nothing"}, []),
    ],
)
def test_fetch_partitions_returns_the_selection(
    admin: FakeAdmin, options: dict[str, str], partitions: list[TopicPartition]
) -> None:
    metadata = new_reader(**options).fetch_partitions()
    assert list(metadata.partitions) == partitions
    assert metadata.topic_ids == {partition.topic: f"id of {partition.topic}" for partition in partitions}


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"subscribe": "a,none"}, "none"), ({"assign": '{"a": [0, 7], "none": [0]}'}, "none, a-7")],
)
def test_missing_topic_is_raised_at_once(admin: FakeAdmin, options: dict[str, str], missing: str) -> None:
    with pytest.raises(UnknownTopic, match=f"^{missing} does not exist: create it, or correct"):
        new_reader(**options).fetch_partitions()
    assert admin.calls == ["describe"]


def test_log_offsets_use_the_isolation_level(admin: FakeAdmin) -> None:
    log_offsets = new_reader(
        **{"subscribe": "a", "kafka.isolation.level": "read_committed"}
    ).fetch_log_offsets({})
    assert (log_offsets.log_starts, log_offsets.ends) == ({A0: 1, A1: 1}, {A0: 10, A1: 20})
    assert admin.levels == {"read_committed"}


def test_retriable_errors_are_retried_after_the_first_response(admin: FakeAdmin) -> None:
    reader = connected_reader(admin, subscribe="a", **{"fetchOffset.retryIntervalMs": "250"})
    admin.failures = [ConnectionFailed("gone"), PartialFailure("list", {A0: TimedOut("slow")})]
    assert reader.fetch_log_offsets({}).ends == {A0: 10, A1: 20}
    assert admin.calls == ["describe", "wait 0.25", "describe", "wait 0.25", "describe", "offsets", "offsets"]


def test_retries_are_bounded(admin: FakeAdmin) -> None:
    reader = connected_reader(admin, subscribe="a", **{"fetchOffset.numRetries": "2"})
    admin.failures = [ConnectionFailed(f"gone {number}") for number in range(5)]
    with pytest.raises(ConnectionFailed, match="gone 1"):
        reader.fetch_log_offsets({})


def test_other_errors_are_not_retried(admin: FakeAdmin) -> None:
    reader = connected_reader(admin)
    admin.failures = [AuthorizationFailed("not for you", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(AuthorizationFailed):
        reader.fetch_log_offsets({})
    assert admin.calls == ["describe"]


def test_unreachable_cluster_is_not_retried(admin: FakeAdmin) -> None:
    admin.failures = [TimedOut("nobody at nowhere:9092")]
    with pytest.raises(ConnectionFailed, match="no broker reachable at nowhere:9092: start it, or correct"):
        new_reader().fetch_log_offsets({})
    assert admin.calls == ["describe"]


def test_topic_deleted_between_two_requests_is_left_out(admin: FakeAdmin) -> None:
    reader = connected_reader(admin, subscribePattern="[ab]")

    def delete(what: str) -> None:
        if what == "offsets" and "b" in admin.counts:
            del admin.counts["b"]
            raise PartialFailure("list offsets", {B0: UnknownTopic("gone")})

    admin._call = delete  # type: ignore[method-assign]
    assert set(reader.fetch_log_offsets({}).ends) == {A0, A1}


def test_log_offsets_below_expected_are_fetched_again(admin: FakeAdmin) -> None:
    reader = connected_reader(admin, subscribe="a")
    assert reader.fetch_log_offsets({A0: 10}).ends[A0] == 10
    assert not [call for call in admin.calls if call.startswith("wait")]
    # Accepted after the third time.
    assert reader.fetch_log_offsets({A0: 11}).ends[A0] == 10
    assert [call for call in admin.calls if call.startswith("wait")] == ["wait 1", "wait 1"]


def test_partitions_are_cached_for_the_configured_time(admin: FakeAdmin) -> None:
    reader = connected_reader(admin, subscribe="a", **{"partition.metadata.cache.ttl.ms": "60000"})
    reader.fetch_log_offsets({})
    assert admin.calls == ["offsets", "offsets"]
    uncached = connected_reader(admin, subscribe="a")
    uncached.fetch_log_offsets({})
    assert admin.calls == ["describe", "offsets", "offsets"]


def test_fetch_offsets_resolves_limits(admin: FakeAdmin) -> None:
    reader = new_reader(**{"subscribe": "a", "startingOffsets": "group", "kafka.group.id": "readers"})
    assert reader.fetch_offsets(reader._options.start, [A0, A1]) == {A0: 4, A1: 1}
    assert reader.fetch_offsets(OffsetLimit(LogBound.LATEST, {A0: SpecificTimestamp(99)}), [A0, A1]) == {
        A0: 10,
        A1: 20,
    }
