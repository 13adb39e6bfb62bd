"""Options of source and sink, session settings, and stored schemas, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.model.ids import TopicPartition
from odradek.pipelines.query.dead_letters import DeadLetterRatio, TooManyDeadLetters
from odradek.pipelines.query.json_values import (
    StoredSchema,
    column_problem,
    parse_stored_schema,
    schema_change,
    stored_schema_json,
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


def test_default_topic_options() -> None:
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
def test_start_option(start: str, options: dict[str, str]) -> None:
    assert options.items() <= topic_options(spec_of(f"start = {start}")).items()


def test_reset_offsets_override_the_start_of_the_file() -> None:
    assert topic_options(spec_of(), '{"orders":{"0":3}}')["startingOffsets"] == '{"orders":{"0":3}}'


def test_file_options_override_case_insensitively() -> None:
    options = topic_options(spec_of('options = {maxoffsetspertrigger = "5", commitGroup = false}'))
    assert options["maxoffsetspertrigger"] == "5"
    assert options["commitGroup"] == "false"
    assert "maxOffsetsPerTrigger" not in options


def test_window_options_assign_partitions_without_group() -> None:
    options = window_options(spec_of(), ({"orders": {"1": 5, "0": 2}}, {"orders": {"0": 9, "1": 9}}))
    assert json.loads(options["assign"]) == {"orders": [0, 1]}
    assert json.loads(options["startingOffsets"]) == {"orders": {"1": 5, "0": 2}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": 9, "1": 9}}
    assert not options.keys() & {"subscribe", "kafka.group.id", "commitGroup"}


def test_topic_sink_on_the_same_brokers_shares_security_options() -> None:
    source = 'options = {"kafka.sasl.password" = "secret", "kafka.fetch.max.bytes" = 5}'
    options = sink_options(spec_of(source, 'type = "topic"\ntopic = "out"'))
    assert options == {
        "kafka.bootstrap.servers": "b:1",
        "guarantee": "exactly_once",
        "kafka.sasl.password": "secret",
    }
    elsewhere = sink_options(spec_of(source, 'type = "topic"\ntopic = "out"\nbrokers = "c:1"'))
    assert "kafka.sasl.password" not in elsewhere


def test_delta_sink_options() -> None:
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


def test_session_settings_for_exactly_once() -> None:
    for master in ("local[2]", "spark://m:7077"):
        settings = session_settings(spec_of(), master, Path("/log"), 4)
        assert settings["spark.speculation"] == "false"
        assert settings["spark.sql.adaptive.streaming.stateless.enabled"] == "false"
        assert settings["spark.sql.session.timeZone"] == "UTC"
        assert ("spark.ui.enabled" in settings) == master.startswith("local")


def test_file_settings_override_and_java_options_are_appended() -> None:
    rest = '[spark]\n"spark.ui.enabled" = true\n"spark.driver.extraJavaOptions" = "-Xss4m"'
    settings = session_settings(spec_of(rest=rest), "local[2]", Path("/log"), 4)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"] == "-Dlog4j2.configurationFile=file:///log -Xss4m"


def test_schema_change_is_rejected_with_advice() -> None:
    spec = spec_of('value = {format = "json", schema = "a int, b  string"}')
    assert schema_change(spec, None) is None
    assert schema_change(spec, StoredSchema("A int,b STRING", "{}")) is None
    error = schema_change(spec, StoredSchema("a int", "{}"))
    assert error is not None
    assert "it is 'a int, b  string' and was 'a int'" in error
    assert "odradek pipeline reset" in error


def test_stored_schema_round_trips() -> None:
    assert parse_stored_schema(None) is None
    assert parse_stored_schema(json.loads(stored_schema_json("sample", '{"fields": []}'))) == StoredSchema(
        "sample", '{"fields": []}'
    )


def test_reserved_and_ambiguous_fields_are_rejected() -> None:
    assert column_problem(["id", "at"], file_name="o.toml") is None
    assert "named record" in (column_problem(["id", "Record"], file_name="o.toml") or "")
    assert "differ in case only: id" in (column_problem(["id", "ID"], file_name="o.toml") or "")


def test_sample_is_spread_evenly_over_partitions() -> None:
    first, second = TopicPartition("o", 0), TopicPartition("o", 1)
    assert sample_starts({first: 0, second: 95}, {first: 100, second: 100}, 20) == {first: 90, second: 95}
    assert sample_starts({}, {first: 5}, 20) == {first: 0}


def test_dead_letter_ratio_over_the_last_rows() -> None:
    ratio = DeadLetterRatio(0.01)
    ratio.add(10, 1)
    with pytest.raises(TooManyDeadLetters, match=r"2 of the last 20 rows .* max_ratio = 0.01"):
        ratio.add(10, 1)
    ratio = DeadLetterRatio(0.01)
    ratio.add(100_000, 1000)
    ratio.add(100_000, 1000)
    with pytest.raises(TooManyDeadLetters, match=r"1,001 of the last 100,000"):
        ratio.add(100_000, 1001)


def test_progress_without_counts_is_ignored() -> None:
    ratio = DeadLetterRatio(0.0)
    ratio.add_progress({"observedMetrics": {}})
    ratio.add_progress({})
    with pytest.raises(TooManyDeadLetters):
        ratio.add_progress({"observedMetrics": {"odradek": {"rows": 5, "dead_letters": 1}}})
