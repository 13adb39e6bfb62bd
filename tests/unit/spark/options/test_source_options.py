"""Options of the source: Spark's names and defaults, and one message for all that is wrong."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek import ConfigError, TopicPartition
from odradek.spark.options.names import NAMES
from odradek.spark.options.offsets import AtCommit, AtOffset, AtTime, Edge, Position
from odradek.spark.options.source_options import SourceOptions, Use, read_source_options
from odradek.spark.options.topic_selection import TopicSelection

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
PLAIN = {**SERVERS, "subscribe": "castle"}


def read(use: Use = Use.STREAM, **options: str) -> SourceOptions:
    return read_source_options({**PLAIN, **options}, use)


def refused(use: Use, options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        read_source_options({**SERVERS, **options}, use)
    return str(raised.value)


def test_the_defaults_are_those_of_sparks_own_source() -> None:
    options = read()
    assert options.start == options.end == Position(Edge.LATEST)
    assert read(Use.BATCH).start == Position(Edge.EARLIEST)
    assert (options.fail_on_data_loss, options.include_headers) == (True, False)
    assert (options.poll_timeout_ms, options.retry_count_max, options.retry_interval_ms) == (120_000, 3, 1000)
    assert (options.pace.offsets_max, options.pace.offsets_min) == (None, None)
    assert options.pace.delay_max_ms == 15 * 60 * 1000
    assert (options.range_count_min, options.range_offsets_max) == (None, None)
    assert (options.group_id, options.commits_group) == (None, False)
    assert options.isolation_level == "read_uncommitted"


def test_options_travel_to_executors() -> None:
    options = read(startingOffsets='{"castle": {"0": 12, "1": -2}}', minPartitions="7")
    assert pickle.loads(pickle.dumps(options)) == options


@given(name=st.sampled_from(sorted(NAMES.values())), upper=st.booleans())
def test_names_are_read_in_any_case(name: str, upper: bool) -> None:
    spelled = name.upper() if upper else name.lower()
    with pytest.raises(ConfigError) as raised:
        read_source_options({spelled: "no value fits all", "nonsense": ""}, Use.BATCH)
    assert f"{name} is not an option" not in str(raised.value)
    assert spelled.lower() + " is not an option" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "choice"),
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
def test_topics_are_chosen_in_three_ways(options: dict[str, str], choice: TopicSelection) -> None:
    assert read_source_options({**SERVERS, **options}, Use.STREAM).topics == choice


def test_a_pattern_means_whole_names() -> None:
    assert TopicSelection(pattern="a.").fitting(["ab", "abc", "xab", "ac"]) == ["ab", "ac"]


def test_a_time_for_all_goes_before_times_and_these_before_offsets() -> None:
    offsets = {"startingOffsets": "earliest"}
    times = {**offsets, "startingOffsetsByTimestamp": '{"castle": {"0": 5}}'}
    time = {**times, "startingTimestamp": "7"}
    castle = TopicPartition("castle", 0)
    assert read(**offsets).start == Position(Edge.EARLIEST)
    assert read(**times).start == Position(Edge.LATEST, {castle: AtTime(5)})
    assert read(**time).start == Position(AtTime(7))


def test_times_may_be_iso_and_without_an_offset_are_meant_in_utc() -> None:
    options = read(
        Use.BATCH,
        startingTimestamp="2024-01-01T00:00:00",
        endingOffsetsByTimestamp='{"castle": {"0": "2024-01-01T02:00:00+01:00"}}',
    )
    assert options.start.default == AtTime(1_704_067_200_000)
    assert options.end.given == {TopicPartition("castle", 0): AtTime(1_704_067_200_000 + 3_600_000)}


def test_offsets_may_be_partial_and_name_edges_by_number() -> None:
    start = read(startingOffsets='{"castle": {"0": 12, "1": -1, "2": -2}}').start
    spots = [start.of(TopicPartition("castle", number)) for number in range(4)]
    assert spots == [AtOffset(12), Edge.LATEST, Edge.EARLIEST, Edge.LATEST]
    batch = read(Use.BATCH, startingOffsets='{"castle": {"0": 12}}').start
    assert batch.of(TopicPartition("castle", 1)) is Edge.EARLIEST


def test_reading_can_begin_where_a_group_stands() -> None:
    options = read(**{"startingOffsets": "group", "kafka.group.id": "surveyors"})
    assert options.start == Position(AtCommit(Edge.EARLIEST))
    assert (options.group_id, options.commits_group) == ("surveyors", True)
    latest = read(
        **{
            "startingOffsets": "group",
            "kafka.group.id": "surveyors",
            "groupOffsetsFallback": "latest",
            "commitGroup": "false",
        }
    )
    assert (latest.start, latest.commits_group) == (Position(AtCommit(Edge.LATEST)), False)


def test_clients_get_what_they_know_and_readers_join_no_group() -> None:
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
    assert options.without_effect == ("kafka.metric.castle is not known to the client and has no effect",)


def test_options_of_triggers_do_nothing_in_a_batch_query() -> None:
    idle = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"}
    assert len(read(Use.BATCH, **idle).without_effect) == 3
    assert read(Use.STREAM, **idle).without_effect == ()


STREAM, BATCH = Use.STREAM, Use.BATCH


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        (STREAM, {}, "no topic is named: give one of assign, subscribe and subscribePattern"),
        (STREAM, {"subscribe": "a", "assign": "{}"}, "assign and subscribe exclude each other"),
        (STREAM, {"subscribe": " , "}, "subscribe names no topic"),
        (STREAM, {"subscribePattern": ""}, "subscribePattern is empty"),
        (STREAM, {"subscribePattern": "("}, "is no regular expression of Python"),
        (STREAM, {"assign": "castle"}, "assign is no JSON"),
        (STREAM, {"assign": '{"castle": ["0"]}'}, "partitions of castle must be a list of numbers"),
        (STREAM, {"assign": "{}"}, "assign names no partition"),
        (BATCH, {"subscribe": "a", "startingOffsets": "latest"}, "cannot be latest in a batch query"),
        (BATCH, {"subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, "cannot be latest in a batch"),
        (BATCH, {"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        (BATCH, {"subscribe": "a", "endingOffsets": '{"a": {"0": -2}}'}, "cannot be earliest"),
        (BATCH, {"subscribe": "a", "endingOffsets": "group"}, "endingOffsets must be latest, or offsets"),
        (STREAM, {"subscribe": "a", "endingOffsets": "latest"}, "no place in a streaming query"),
        (STREAM, {"subscribe": "a", "endingTimestamp": "5"}, "no place in a streaming query"),
        (STREAM, {"subscribe": "a", "startingOffsets": "oldest"}, "must be earliest, latest or group"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": 5}'}, "a must have an object of partitions"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"x": 5}}'}, "'x' is no partition of a"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "a-0: -3 is no offset"),
        (STREAM, {"subscribe": "a", "startingOffsets": '{"a": {"0": true}}'}, "True is no offset"),
        (STREAM, {"subscribe": "a", "startingOffsets": "{"}, "startingOffsets is no JSON"),
        (STREAM, {"subscribe": "a", "startingOffsets": "group"}, "needs kafka.group.id"),
        (STREAM, {"subscribe": "a", "commitGroup": "true"}, "commitGroup needs kafka.group.id"),
        (STREAM, {"subscribe": "a", "groupOffsetsFallback": "x", "startingOffsets": "group"}, "earliest or"),
        (STREAM, {"subscribe": "a", "startingTimestamp": "noon"}, "startingTimestamp must be milliseconds"),
        (STREAM, {"subscribe": "a", "startingTimestamp": "1960-01-01"}, "must not lie before 1970"),
        (STREAM, {"subscribe": "a", "startingOffsetsByTimestampStrategy": "x"}, "must be error or latest"),
        (STREAM, {"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        (STREAM, {"subscribe": "a", "minPartitions": "0"}, "minPartitions must be at least 1"),
        (STREAM, {"subscribe": "a", "maxRecordsPerPartition": "x"}, "must be a whole number, not 'x'"),
        (STREAM, {"subscribe": "a", "maxTriggerDelay": "15 fortnights"}, "must be a duration such as"),
        (
            STREAM,
            {"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger (9) must not be above maxOffsetsPerTrigger (8)",
        ),
        (STREAM, {"subscribe": "a", "expectedTopicIds": '{"a": 1}'}, "expectedTopicIds: a must have a text"),
        (STREAM, {"subscribe": "a", "startingOfsets": "latest"}, "did you mean startingOffsets?"),
        (STREAM, {"subscribe": "a", "topic": "b"}, "the option of a source is subscribe"),
        (STREAM, {"subscribe": "a", "fetch.max.bytes": "5"}, "say kafka.fetch.max.bytes"),
        (STREAM, {"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        (STREAM, {"subscribe": "a", "kafka.key.deserializer": "x"}, "keys are bytes"),
        (STREAM, {"subscribe": "a", "kafka.value.deserializer": "x"}, "values are bytes"),
        (STREAM, {"subscribe": "a", "kafka.enable.auto.commit": "true"}, "commitGroup"),
        (STREAM, {"subscribe": "a", "kafka.interceptor.classes": "x"}, "an interceptor could change"),
        (STREAM, {"subscribe": "a", "kafka.fetch.max.bytes": "much"}, "fetch.max.bytes"),
        (STREAM, {"subscribe": "a", "kafka.security.protocol": "SASL_SSL"}, "security.protocol"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(use: Use, options: dict[str, str], words: str) -> None:
    told = refused(use, options)
    assert words in told
    assert told.count(words) == 1


def test_brokers_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        read_source_options({"subscribe": "castle"}, Use.BATCH)


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = refused(Use.BATCH, {"startingOffsets": "latest", "minPartitions": "0", "nonsense": "1"})
    for words in ("no topic", "cannot be latest", "minPartitions", "nonsense"):
        assert words in told
