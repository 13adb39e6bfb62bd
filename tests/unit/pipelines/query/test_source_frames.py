"""Options of the source and the sink, the session's settings, and the pins of a schema, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.model.ids import TopicPartition
from odradek.pipelines.query.dead_letters import DeadLetterShare, TooManyDeadLetters
from odradek.pipelines.query.json_values import (
    StoredSchema,
    column_problem,
    pin_text,
    read_pin,
    schema_change,
)
from odradek.pipelines.query.sinks import sink_options
from odradek.pipelines.query.source_frames import topic_options, window_options
from odradek.pipelines.query.value_sample import sample_starts
from odradek.pipelines.run.session import session_settings
from odradek.pipelines.spec.reader import Spec, parse_spec


def spec_of(source: str = "", sink: str = 'type = "noop"', rest: str = "") -> Spec:
    text = f"""
[pipeline]
name = "orders"
[source]
brokers = "b:1"
topics = ["orders", "more"]
{source}
[sink]
{sink}
{rest}
"""
    return parse_spec(text, Path("/pipelines/orders.toml"), {})


def test_a_stream_from_topics_commits_its_group_and_reads_what_is_committed() -> None:
    assert topic_options(spec_of()) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.isolation.level": "read_committed",
        "subscribe": "orders,more",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "1000000",
        "kafka.group.id": "orders",
        "commitGroup": "true",
    }


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ('"group"', {"startingOffsets": "group"}),
        ("{orders = {0 = 12}}", {"startingOffsets": '{"orders": {"0": 12}}'}),
        (
            '"1970-01-01T00:00:01"',
            {"startingTimestamp": "1000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
    ],
)
def test_the_start_becomes_an_option(start: str, options: dict[str, str]) -> None:
    assert options.items() <= topic_options(spec_of(f"start = {start}")).items()


def test_offsets_that_a_reset_left_go_before_the_start_of_the_file() -> None:
    assert topic_options(spec_of(), '{"orders":{"0":3}}')["startingOffsets"] == '{"orders":{"0":3}}'


def test_options_of_the_file_win_whatever_their_case() -> None:
    options = topic_options(spec_of('options = {maxoffsetspertrigger = "5", commitGroup = false}'))
    assert options["maxoffsetspertrigger"] == "5"
    assert options["commitGroup"] == "false"
    assert "maxOffsetsPerTrigger" not in options


def test_a_window_names_its_partitions_and_leaves_the_group_alone() -> None:
    options = window_options(spec_of(), ({"orders": {"1": 5, "0": 2}}, {"orders": {"0": 9, "1": 9}}))
    assert json.loads(options["assign"]) == {"orders": [0, 1]}
    assert json.loads(options["startingOffsets"]) == {"orders": {"1": 5, "0": 2}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": 9, "1": 9}}
    assert not options.keys() & {"subscribe", "kafka.group.id", "commitGroup"}


def test_a_topic_sink_on_the_same_brokers_has_the_credentials_of_the_source() -> None:
    source = 'options = {"kafka.sasl.password" = "secret", "kafka.fetch.max.bytes" = 5}'
    options = sink_options(spec_of(source, 'type = "topic"\ntopic = "out"'))
    assert options == {
        "kafka.bootstrap.servers": "b:1",
        "guarantee": "exactly_once",
        "kafka.sasl.password": "secret",
    }
    elsewhere = sink_options(spec_of(source, 'type = "topic"\ntopic = "out"\nbrokers = "c:1"'))
    assert "kafka.sasl.password" not in elsewhere


def test_a_delta_sink_is_told_its_keys_upkeep_and_dead_letters() -> None:
    sink = """type = "delta"
path = "/lake"
mode = "update"
keys = ["a", "b"]
partition_by = ["day"]
compact_every = 5
options = {mergeSchema = true}"""
    options = sink_options(
        spec_of('value = {format = "json", schema = "a int"}', sink, '[dead_letter]\ntopic = "dlq"')
    )
    assert options == {
        "path": "/lake",
        "keys": "a,b",
        "partitionBy": "day",
        "compactEvery": "5",
        "vacuumHours": "168",
        "deadLetterTopic": "dlq",
        "deadLetter.kafka.bootstrap.servers": "b:1",
        "mergeSchema": "true",
    }


def test_the_session_has_what_exactly_once_needs_whatever_the_master() -> None:
    for master in ("local[2]", "spark://m:7077"):
        settings = session_settings(spec_of(), master, Path("/log"), 4)
        assert settings["spark.speculation"] == "false"
        assert settings["spark.sql.adaptive.streaming.stateless.enabled"] == "false"
        assert settings["spark.sql.session.timeZone"] == "UTC"
        assert ("spark.ui.enabled" in settings) == master.startswith("local")


def test_settings_of_the_file_win_and_java_options_are_added() -> None:
    rest = '[spark]\n"spark.ui.enabled" = true\n"spark.driver.extraJavaOptions" = "-Xss4m"'
    settings = session_settings(spec_of(rest=rest), "local[2]", Path("/log"), 4)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"] == "-Dlog4j2.configurationFile=file:///log -Xss4m"


def test_a_schema_that_changed_is_told_with_both_and_what_to_do() -> None:
    spec = spec_of('value = {format = "json", schema = "a int, b  string"}')
    assert schema_change(spec, None) is None
    assert schema_change(spec, StoredSchema("A int,b STRING", "{}")) is None
    words = schema_change(spec, StoredSchema("a int", "{}"))
    assert words is not None
    assert "'a int, b  string' now and was 'a int'" in words
    assert "odradek pipeline reset" in words


def test_a_pin_is_read_as_it_was_written() -> None:
    assert read_pin(None) is None
    assert read_pin(json.loads(pin_text("sample", '{"fields": []}'))) == StoredSchema(
        "sample", '{"fields": []}'
    )


def test_fields_that_cannot_be_columns_are_named() -> None:
    assert column_problem(["id", "at"], file_name="o.toml") is None
    assert "named record" in (column_problem(["id", "Record"], file_name="o.toml") or "")
    assert "differ in case only: id" in (column_problem(["id", "ID"], file_name="o.toml") or "")


def test_a_sample_is_the_newest_records_dealt_evenly() -> None:
    one, two = TopicPartition("o", 0), TopicPartition("o", 1)
    assert sample_starts({one: 0, two: 95}, {one: 100, two: 100}, 20) == {one: 90, two: 95}
    assert sample_starts({}, {one: 5}, 20) == {one: 0}


def test_dead_letters_are_too_many_by_their_share_of_the_last_rows() -> None:
    share = DeadLetterShare(0.01)
    share.add(10, 1)
    with pytest.raises(TooManyDeadLetters, match=r"2 of the last 20 rows .* max_ratio = 0.01"):
        share.add(10, 1)
    share = DeadLetterShare(0.01)
    share.add(100_000, 1000)
    share.add(100_000, 1000)
    with pytest.raises(TooManyDeadLetters, match=r"1,001 of the last 100,000"):
        share.add(100_000, 1001)


def test_progress_without_counts_says_nothing_of_dead_letters() -> None:
    share = DeadLetterShare(0.0)
    share.hear({"observedMetrics": {}})
    share.hear({})
    with pytest.raises(TooManyDeadLetters):
        share.hear({"observedMetrics": {"odradek": {"rows": 5, "dead_letters": 1}}})
