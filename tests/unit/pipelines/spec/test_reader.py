"""Parsing of pipeline files, and errors with lines and fixes."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipelines.spec.reader import (
    Spec,
    SpecError,
    Transform,
    ValueFormat,
    Watermark,
    parse_spec,
    read_spec,
)

MINIMAL = """
[pipeline]
name = "orders"
[source]
brokers = "127.0.0.1:9092"
topics = ["orders"]
[sink]
type = "noop"
"""
FULL = """
[pipeline]
name = "orders-to-lake"
checkpoint = "checkpoints/orders"
trigger = "30 seconds"
[source]
brokers = "127.0.0.1:9092"
pattern = "orders-.*"
start = 2026-01-31T12:00:00Z
max_per_trigger = 2_000_000
isolation = "read_uncommitted"
headers = true
value = { format = "json", schema = "id bigint", sample_rows = 10 }
watermark = { column = "at", delay = "10 minutes" }
options = { "kafka.fetch.max.bytes" = 1000, minPartitions = 4 }
[sink]
type = "topic"
topic = "orders.clean"
key = "id"
guarantee = "at_least_once"
[dead_letter]
topic = "orders.dlq"
max_ratio = 0.01
[observe]
group = "watchers"
metrics_port = 9404
[restart]
attempts = 2
backoff = "2 seconds"
[spark]
"spark.driver.memory" = "2g"
spark.ui.enabled = true
"""


def parsed(text: str, directory: Path = Path("/pipelines"), **environment: str) -> Spec:
    return parse_spec(text, directory / "orders.toml", environment)


def problems(text: str, directory: Path = Path("/pipelines"), **environment: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parsed(text, directory, **environment)
    return list(caught.value.problems)


def with_sink(*lines: str) -> str:
    return MINIMAL.partition("[sink]")[0] + "[sink]\n" + "\n".join(lines)


def with_source(*lines: str) -> str:
    return "\n".join(["[pipeline]", 'name = "orders"', "[sink]", 'type = "noop"', "[source]", *lines])


def test_minimal_file_gets_defaults() -> None:
    spec = parsed(MINIMAL)
    assert spec.checkpoint == "/pipelines/odradek-pipelines/orders"
    assert (spec.trigger, spec.once_by_default) == ("5 seconds", False)
    assert spec.source.value == ValueFormat("bytes", None, 1000)
    assert (spec.source.start, spec.source.max_per_trigger) == ("earliest", 1_000_000)
    assert spec.source.isolation == "read_committed"
    assert spec.transform == Transform()
    assert spec.sink.guarantee == "at_least_once"
    assert spec.dead_letter is None
    assert (spec.observe.group, spec.observe.metrics_port) == ("orders", None)
    assert (spec.restart.attempts, spec.restart.backoff_ms) == (5, 1000)
    assert spec.lease_brokers == "127.0.0.1:9092"


def test_every_key_is_parsed() -> None:
    spec = parsed(FULL)
    assert spec.checkpoint == "/pipelines/checkpoints/orders"
    assert spec.trigger == "30 seconds"
    assert spec.source.pattern == "orders-.*"
    assert spec.source.start == "2026-01-31T12:00:00+00:00"
    assert spec.source.value == ValueFormat("json", "id bigint", 10)
    assert spec.source.watermark == Watermark("at", "10 minutes")
    assert spec.source.options == {"kafka.fetch.max.bytes": "1000", "minPartitions": "4"}
    assert (spec.sink.topic, spec.sink.key, spec.sink.brokers) == ("orders.clean", "id", "127.0.0.1:9092")
    assert spec.sink.guarantee == "at_least_once"
    assert spec.dead_letter is not None
    assert (spec.dead_letter.topic, spec.dead_letter.max_ratio) == ("orders.dlq", 0.01)
    assert (spec.observe.group, spec.observe.metrics_port) == ("watchers", 9404)
    assert (spec.restart.attempts, spec.restart.backoff_ms) == (2, 2000)
    assert spec.spark == {"spark.driver.memory": "2g", "spark.ui.enabled": "true"}


def test_available_now_trigger_means_once() -> None:
    spec = parsed(MINIMAL.replace('"orders"\n[source]', '"orders"\ntrigger = "available-now"\n[source]'))
    assert spec.once_by_default


def test_start_offsets_are_numbers_earliest_or_latest() -> None:
    spec = parsed(
        with_source(
            'brokers = "b:1"', 'topics = ["o"]', 'start = {o = {0 = 12, 1 = "latest", 2 = "earliest"}}'
        )
    )
    assert spec.source.start == "offsets"
    assert spec.source.start_offsets == {"o": {0: 12, 1: -1, 2: -2}}


def test_paths_may_be_relative_absolute_or_uris() -> None:
    assert parsed(with_sink('type = "delta"', 'path = "s3a://lake/o"')).sink.path == "s3a://lake/o"
    assert parsed(with_sink('type = "delta"', 'path = "/lake/o"')).sink.path == "/lake/o"
    assert parsed(with_sink('type = "delta"', 'path = "lake/o"')).sink.path == "/pipelines/lake/o"


def test_all_problems_are_reported_in_line_order() -> None:
    text = """[pipeline]
name = "Orders!"
trigger = "soon"
[source]
broker = "127.0.0.1:9092"
topics = "orders"
max_per_trigger = "many"
[sink]
type = "topic"
topic = "out"
gurantee = "exactly_once"
[observ]
"""
    assert problems(text) == [
        "orders.toml:2: [pipeline] name must consist of a-z, 0-9, dots, _ and -, got 'Orders!'",
        "orders.toml:3: [pipeline] trigger must be a duration such as \"30 seconds\", got 'soon'",
        'orders.toml:4: [source] brokers are required, as in brokers = "127.0.0.1:9092"',
        "orders.toml:5: [source] unknown key broker; did you mean brokers?",
        "orders.toml:7: [source] max_per_trigger must be an integer, got a string",
        "orders.toml:8: [sink] brokers are required, as the source has none",
        "orders.toml:11: [sink] unknown key gurantee; did you mean guarantee?",
        "orders.toml:12: unknown section [observ]; sections are pipeline, source, transform, sink, "
        "dead_letter, observe, restart, spark",
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ['topics = ["a"]', 'pattern = "a.*"'],
            "8: [source] pattern and topics exclude each other; keep one",
        ),
        ([], "one of topics, pattern and assign is required"),
        (['pattern = "a("'], "pattern must be a regular expression, got 'a('"),
        (['topics = ["a"]', 'start = "yesterday"'], "8: [source] start must be earliest"),
        (['topics = ["a"]', "start = {a = 12}"], "start must have offsets by partition"),
        (['topics = ["a"]', "start = {a = {0 = -4}}"], "start must have offsets by partition"),
        (["assign = {a = []}"], "assign must list partitions"),
        (['topics = ["a"]', 'value = {format = "json"}'], "8: [source.value] schema is required"),
        (['topics = ["a"]', 'value = {schema = "id int"}'], 'schema requires format = "json"'),
        (['topics = ["a"]', 'value = {format = "jsn"}'], "did you mean json?"),
        (['topics = ["a"]', 'watermark = {column = "at"}'], "8: [source.watermark] delay is required"),
        (['topics = ["a"]', 'path = "lake"'], "is for tables"),
        (['topics = ["a"]', "headers = 1"], "headers must be true or false, got an integer"),
    ],
)
def test_invalid_topic_source_is_rejected(lines: list[str], message: str) -> None:
    problem = problems(with_source('brokers = "b:1"', *lines))
    assert len(problem) == 1
    assert message in problem[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "[source] path is required"),
        (['path = "lake"', 'format = "parquet"'], "schema is required"),
        (['path = "lake"', 'schema = "id int"'], "schema is for Parquet only"),
        (['path = "lake"', 'topics = ["a"]'], "8: [source] topics is for topics only; remove it"),
    ],
)
def test_invalid_table_source_is_rejected(lines: list[str], message: str) -> None:
    problem = problems(with_source('type = "table"', *lines))
    assert len(problem) == 1
    assert message in problem[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['type = "delt"', 'path = "lake"'], "did you mean delta?"),
        (['type = "delta"'], "path is required"),
        (['type = "delta"', 'path = "lake"', 'mode = "update"'], 'requires keys, as in keys = ["id"]'),
        (
            ['type = "delta"', 'path = "lake"', 'keys = ["id"]', 'mode = "complete"'],
            "keys cannot be used with mode complete",
        ),
        (['type = "topic"', 'topic = "o"', 'mode = "update"'], "use append, complete, or a Delta table"),
        (['type = "delta"', 'path = "lake"', 'topic = "o"'], "requires a topic sink"),
        (['type = "delta"', 'path = "lake"', 'brokers = "o"'], "requires a topic sink or dead letters"),
        (['type = "parquet"', 'path = "lake"', 'mode = "complete"'], "must be append for Parquet files"),
        (
            ['type = "parquet"', 'path = "lake"', 'guarantee = "exactly_once"'],
            "readers of Spark's _spark_metadata",
        ),
        (['type = "console"', 'guarantee = "exactly_once"'], "does not support exactly_once"),
        (['type = "topic"'], "topic is required"),
        (['type = "topic"', 'topic = "orders"'], "must not be a source topic, got orders"),
        (['type = "topic"', 'topic = "o"', "compact_every = 5"], "requires a Delta table"),
    ],
)
def test_invalid_sink_is_rejected(lines: list[str], message: str) -> None:
    assert any(message in problem for problem in problems(with_sink(*lines)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('format = "json", schema = "id bigint", ', 'format = "text", ', "requires JSON values"),
        ('key = "id"', 'mode = "complete"', "mode complete"),
        ('type = "topic"\ntopic = "orders.clean"\nkey = "id"', 'type = "console"', "topic or delta"),
        ("orders.dlq", "orders.clean", "topic must not be the sink's topic"),
        ("max_ratio = 0.01", "max_ratio = 2", "max_ratio must be between 0 and 1, got 2"),
    ],
)
def test_invalid_dead_letters_are_rejected(old: str, new: str, message: str) -> None:
    assert old in FULL
    problem = problems(FULL.replace(old, new))
    assert len(problem) == 1
    assert message in problem[0]


@pytest.mark.parametrize("setting", ["spark.speculation", "spark.sql.adaptive.streaming.stateless.enabled"])
def test_spark_settings_that_break_exactly_once_are_rejected(setting: str) -> None:
    text = with_sink('type = "delta"', 'path = "lake"', "[spark]", f'"{setting}" = true')
    [problem] = problems(text)
    assert problem.startswith("orders.toml:11: [spark] " + setting)


def test_environment_variables_are_substituted_and_required() -> None:
    text = MINIMAL.replace("127.0.0.1:9092", "${HOST}:9092").replace('["orders"]', '["$${HOST}"]')
    spec = parsed(text, HOST="castle")
    assert spec.source.brokers == "castle:9092"
    assert spec.source.topics == ("${HOST}",)
    assert problems(text) == [
        "orders.toml:5: environment variable HOST is not set; set it, or write $${HOST}"
    ]


def test_transform_files_must_exist(tmp_path: Path) -> None:
    for line, message in (
        ('sql = "clean.sql"', "clean.sql not found"),
        ('module = "clean:clean"', "no module clean is installed"),
        ('module = "clean"', 'must be like "orders_pipeline:clean"'),
        ('module = "clean:go"\nsql = "clean.sql"', "exclude each other"),
    ):
        assert any(message in problem for problem in problems(f"{MINIMAL}[transform]\n{line}", tmp_path))
    (tmp_path / "clean.sql").write_text("select * from source")
    (tmp_path / "clean.py").write_text("def clean(df):\n    return df\n")
    assert (
        parsed(f'{MINIMAL}[transform]\nsql = "clean.sql"', tmp_path).transform.sql == tmp_path / "clean.sql"
    )
    transform = parsed(f'{MINIMAL}[transform]\nmodule = "clean:clean"', tmp_path).transform
    assert (transform.module, transform.function) == ("clean", "clean")
    [problem] = problems(f'{MINIMAL}[transform]\nmodule = "clean:clear"', tmp_path)
    assert "has no function clear; did you mean clean?" in problem
    (tmp_path / "clean.py").write_text("x = 1\ndef clean(df)\n")
    [problem] = problems(f'{MINIMAL}[transform]\nmodule = "clean:clean"', tmp_path)
    assert f"{tmp_path / 'clean.py'}:2: " in problem


def test_syntax_error_is_reported_with_its_line() -> None:
    [problem] = problems("[pipeline]\nname = orders\n")
    assert problem.startswith("orders.toml:2: ")


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="file not found"):
        read_spec(tmp_path / "none.toml")
