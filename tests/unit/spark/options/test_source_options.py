"""Options of the topic source: names and defaults of Spark's own source, and validation errors."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek import ConfigError, TopicPartition
from odradek.spark.options.offsets import (
    GroupOffset,
    LogBound,
    OffsetLimit,
    SpecificOffset,
    SpecificTimestamp,
)
from odradek.spark.options.source_options import OPTION_NAMES, QueryType, SourceOptions, read_source_options
from odradek.spark.options.topic_selection import TopicSelection

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
PLAIN = {**SERVERS, "subscribe": "castle"}


def read(query_type: QueryType = QueryType.STREAM, /, **options: str) -> SourceOptions:
    return read_source_options({**PLAIN, **options}, query_type)


def config_error(query_type: QueryType, options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        read_source_options({**SERVERS, **options}, query_type)
    return str(raised.value)


def test_defaults_equal_those_of_sparks_own_source() -> None:
    options = read()
    assert options.start == options.end == OffsetLimit(LogBound.LATEST)
    assert read(QueryType.BATCH).start == OffsetLimit(LogBound.EARLIEST)
    assert (options.fail_on_data_loss, options.include_headers) == (True, False)
    assert (options.poll_timeout_ms, options.retry_count_max, options.retry_interval_ms) == (120_000, 3, 1000)
    assert (options.trigger_limits.offsets_max, options.trigger_limits.offsets_min) == (None, None)
    assert options.trigger_limits.delay_max_ms == 15 * 60 * 1000
    assert (options.range_count_min, options.range_offsets_max) == (None, None)
    assert (options.group_id, options.commits_group) == (None, False)
    assert options.isolation_level == "read_uncommitted"


def test_source_options_pickle() -> None:
    options = read(startingOffsets='{"castle": {"0": 12, "1": -2}}', minPartitions="7")
    assert pickle.loads(pickle.dumps(options)) == options


@given(name=st.sampled_from(sorted(OPTION_NAMES.values())), upper=st.booleans())
def test_source_option_names_are_case_insensitive(name: str, upper: bool) -> None:
    spelled = name.upper() if upper else name.lower()
    with pytest.raises(ConfigError) as raised:
        read_source_options({spelled: "no value fits all", "nonsense": ""}, QueryType.BATCH)
    assert f"{name} is not an option" not in str(raised.value)
    assert spelled.lower() + " is not an option" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": "b, a,,b"}, TopicSelection(topics=("a", "b"))),
        ({"subscribePattern": " castle-.* "}, TopicSelection(pattern="castle-.*")),
        (
            {"assign": '{"b": [1, 0], "a": [3]}'},
            TopicSelection(
                partitions=(TopicPartition("a", 3), TopicPartition("b", 0), TopicPartition("b", 1)),
            ),
        ),
    ],
)
def test_assign_subscribe_and_pattern_select_topics(
    options: dict[str, str], selection: TopicSelection
) -> None:
    assert read_source_options({**SERVERS, **options}, QueryType.STREAM).topics == selection


def test_pattern_matches_whole_topic_names() -> None:
    assert TopicSelection(pattern="a.").matching(["ab", "abc", "xab", "ac"]) == ["ab", "ac"]


def test_precedence_of_timestamp_timestamps_by_partition_and_offsets() -> None:
    offsets = {"startingOffsets": "earliest"}
    times = {**offsets, "startingOffsetsByTimestamp": '{"castle": {"0": 5}}'}
    time = {**times, "startingTimestamp": "7"}
    castle = TopicPartition("castle", 0)
    assert read(**offsets).start == OffsetLimit(LogBound.EARLIEST)
    assert read(**times).start == OffsetLimit(LogBound.LATEST, {castle: SpecificTimestamp(5)})
    assert read(**time).start == OffsetLimit(SpecificTimestamp(7))


def test_iso_times_without_offset_are_utc() -> None:
    options = read(
        QueryType.BATCH,
        startingTimestamp="2024-01-01T00:00:00",
        endingOffsetsByTimestamp='{"castle": {"0": "2024-01-01T02:00:00+01:00"}}',
    )
    assert options.start.default == SpecificTimestamp(1_704_067_200_000)
    assert options.end.by_partition == {
        TopicPartition("castle", 0): SpecificTimestamp(1_704_067_200_000 + 3_600_000)
    }


def test_partial_offsets_with_latest_and_earliest_as_numbers() -> None:
    start = read(startingOffsets='{"castle": {"0": 12, "1": -1, "2": -2}}').start
    limits = [start.of(TopicPartition("castle", number)) for number in range(4)]
    assert limits == [SpecificOffset(12), LogBound.LATEST, LogBound.EARLIEST, LogBound.LATEST]
    batch = read(QueryType.BATCH, startingOffsets='{"castle": {"0": 12}}').start
    assert batch.of(TopicPartition("castle", 1)) is LogBound.EARLIEST


def test_starting_offsets_of_a_group() -> None:
    options = read(**{"startingOffsets": "group", "kafka.group.id": "surveyors"})
    assert options.start == OffsetLimit(GroupOffset(LogBound.EARLIEST))
    assert (options.group_id, options.commits_group) == ("surveyors", True)
    latest = read(
        **{
            "startingOffsets": "group",
            "kafka.group.id": "surveyors",
            "groupOffsetsFallback": "latest",
            "commitGroup": "false",
        }
    )
    assert (latest.start, latest.commits_group) == (OffsetLimit(GroupOffset(LogBound.LATEST)), False)


def test_client_settings_exclude_unknown_options_and_the_group() -> None:
    options = read(
        **{
            "kafka.group.id": "surveyors",
            "kafka.fetch.max.bytes": "1048576",
            "kafka.isolation.level": "read_committed",
            "kafka.metric.castle": "7",
        }
    )
    assert options.client_settings == {
        "bootstrap.servers": "localhost:9092",
        "fetch.max.bytes": "1048576",
        "isolation.level": "read_committed",
        "auto.offset.reset": "none",
        "allow.auto.create.topics": "false",
    }
    assert options.admin_settings == {"bootstrap.servers": "localhost:9092"}
    assert options.isolation_level == "read_committed"
    assert options.without_effect == ("kafka.metric.castle is unknown to the client and has no effect",)


def test_trigger_options_have_no_effect_in_a_batch_query() -> None:
    unused = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"}
    assert len(read(QueryType.BATCH, **unused).without_effect) == 3
    assert read(QueryType.STREAM, **unused).without_effect == ()


STREAM, BATCH = QueryType.STREAM, QueryType.BATCH


@pytest.mark.parametrize(
    ("query_type", "options", "message"),
    [
        (STREAM, {}, "exactly one of assign, subscribe and subscribePattern must be set, got none"),
        (STREAM, {"subscribe": "a", "assign": "{}"}, "must be set, got assign and subscribe"),
        (STREAM, {"subscribe": " , "}, "subscribe must name at least one topic"),
        (STREAM, {"subscribePattern": ""}, "such as orders-.*, got ''"),
        (STREAM, {"subscribePattern": "("}, "must be a Python regular expression, got '('"),
        (STREAM, {"assign": "castle"}, "assign must be JSON"),
        (STREAM, {"assign": '{"castle": ["0"]}'}, "partitions of castle must be a list of integers"),
        (STREAM, {"assign": "{}"}, "assign must name at least one partition"),
        (BATCH, {"subscribe": "a", "startingOffsets": "latest"}, "must not be latest in a batch query"),
        (BATCH, {"subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, "must not be latest in a batch"),
        (BATCH, {"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets must not be earliest"),
        (BATCH, {"subscribe": "a", "endingOffsets": '{"a": {"0": -2}}'}, "must not be earliest"),
        (BATCH, {"subscribe": "a", "endingOffsets": "group"}, "endingOffsets must be latest, or offsets"),
        (STREAM, {"subscribe": "a", "endingOffsets": "latest"}, "not allowed in a streaming query"),
        (STREAM, {"subscribe": "a", "endingTimestamp": "5"}, "not allowed in a streaming query"),
        (STREAM, {"subscribe": "a", "startingOffsets": "oldest"}, "must be earliest, latest or group"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": 5}'}, "a must map partitions to values"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"x": 5}}'}, "must be an integer, got 'x'"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "a-0: offset must be >= 0"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"0": true}}'}, "(earliest), got True"),
        (STREAM, {"subscribe": "a", "startingOffsets": "{"}, "startingOffsets must be JSON"),
        (STREAM, {"subscribe": "a", "startingOffsets": "group"}, "requires kafka.group.id"),
        (STREAM, {"subscribe": "a", "commitGroup": "true"}, "commitGroup=true requires kafka.group.id"),
        (STREAM, {"subscribe": "a", "groupOffsetsFallback": "x", "startingOffsets": "group"}, "earliest or"),
        (STREAM, {"subscribe": "a", "startingTimestamp": "noon"}, "startingTimestamp must be milliseconds"),
        (STREAM, {"subscribe": "a", "startingTimestamp": "1960-01-01"}, "must not be before 1970"),
        (STREAM, {"subscribe": "a", "startingOffsetsByTimestampStrategy": "x"}, "must be error or latest"),
        (STREAM, {"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        (STREAM, {"subscribe": "a", "minPartitions": "0"}, "minPartitions must be >= 1, got 0"),
        (STREAM, {"subscribe": "a", "maxRecordsPerPartition": "x"}, "must be an integer, got 'x'"),
        (STREAM, {"subscribe": "a", "maxTriggerDelay": "15 fortnights"}, "must be a duration such as"),
        (
            STREAM,
            {"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger must be <= maxOffsetsPerTrigger (8), got 9",
        ),
        (STREAM, {"subscribe": "a", "expectedTopicIds": '{"a": 1}'}, "value of a must be a string"),
        (STREAM, {"subscribe": "a", "startingOfsets": "latest"}, "did you mean startingOffsets?"),
        (STREAM, {"subscribe": "a", "topic": "b"}, "topic is not an option of the source: use subscribe"),
        (STREAM, {"subscribe": "a", "fetch.max.bytes": "5"}, "as in kafka.fetch.max.bytes"),
        (STREAM, {"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        (STREAM, {"subscribe": "a", "kafka.key.deserializer": "x"}, "keys are bytes"),
        (STREAM, {"subscribe": "a", "kafka.value.deserializer": "x"}, "values are bytes"),
        (STREAM, {"subscribe": "a", "kafka.enable.auto.commit": "true"}, "commitGroup"),
        (STREAM, {"subscribe": "a", "kafka.interceptor.classes": "x"}, "an interceptor could change"),
        (STREAM, {"subscribe": "a", "kafka.fetch.max.bytes": "much"}, "fetch.max.bytes"),
        (STREAM, {"subscribe": "a", "kafka.security.protocol": "TLS"}, "security.protocol"),
    ],
)
def test_invalid_source_options_are_rejected_with_advice(
    query_type: QueryType, options: dict[str, str], message: str
) -> None:
    error = config_error(query_type, options)
    assert message in error
    assert error.count(message) == 1


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is required"):
        read_source_options({"subscribe": "castle"}, QueryType.BATCH)


def test_all_source_option_problems_are_reported_together() -> None:
    error = config_error(
        QueryType.BATCH, {"startingOffsets": "latest", "minPartitions": "0", "nonsense": "1"}
    )
    for message in ("got none", "must not be latest", "minPartitions", "nonsense"):
        assert message in error
