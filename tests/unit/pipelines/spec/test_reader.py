"""A pipeline's file: what it says, and what is wrong with it, with line and fix."""

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

SMALL = """
[pipeline]
name = "orders"
[source]
brokers = "127.0.0.1:9092"
topics = ["orders"]
[sink]
type = "noop"
"""
WHOLE = """
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
    return SMALL.partition("[sink]")[0] + "[sink]\n" + "\n".join(lines)


def with_source(*lines: str) -> str:
    return "\n".join(["[pipeline]", 'name = "orders"', "[sink]", 'type = "noop"', "[source]", *lines])


def test_the_smallest_file_gets_every_default() -> None:
    spec = parsed(SMALL)
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


def test_every_key_arrives() -> None:
    spec = parsed(WHOLE)
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


def test_available_now_makes_a_run_end_by_itself() -> None:
    spec = parsed(SMALL.replace('"orders"\n[source]', '"orders"\ntrigger = "available-now"\n[source]'))
    assert spec.once_by_default


def test_offsets_to_start_from_are_numbers_or_ends() -> None:
    spec = parsed(
        with_source(
            'brokers = "b:1"', 'topics = ["o"]', 'start = {o = {0 = 12, 1 = "latest", 2 = "earliest"}}'
        )
    )
    assert spec.source.start == "offsets"
    assert spec.source.start_offsets == {"o": {0: 12, 1: -1, 2: -2}}


def test_a_path_may_be_a_uri_or_absolute() -> None:
    assert parsed(with_sink('type = "delta"', 'path = "s3a://lake/o"')).sink.path == "s3a://lake/o"
    assert parsed(with_sink('type = "delta"', 'path = "/lake/o"')).sink.path == "/lake/o"
    assert parsed(with_sink('type = "delta"', 'path = "lake/o"')).sink.path == "/pipelines/lake/o"


def test_all_problems_are_told_at_once_in_the_order_of_lines() -> None:
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
        "orders.toml:2: [pipeline] name is 'Orders!'; use lower-case letters, digits, dots, _ and - only",
        "orders.toml:3: [pipeline] trigger is 'soon'; it must be a span of time such as \"30 seconds\"",
        'orders.toml:4: [source] has no brokers; name some, as brokers = "127.0.0.1:9092"',
        "orders.toml:5: [source] broker is unknown; did you mean brokers?",
        "orders.toml:7: [source] max_per_trigger is a text; it must be a whole number",
        "orders.toml:8: [sink] has no brokers, and no topic is read that has",
        "orders.toml:11: [sink] gurantee is unknown; did you mean guarantee?",
        "orders.toml:12: [observ] is unknown; sections are pipeline, source, transform, sink, dead_letter, "
        "observe, restart, spark",
    ]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ['topics = ["a"]', 'pattern = "a.*"'],
            "8: [source] pattern and topics exclude each other; keep one",
        ),
        ([], "names no topics"),
        (['pattern = "a("'], "no regular expression"),
        (['topics = ["a"]', 'start = "yesterday"'], "8: [source] start is 'yesterday'; it must be earliest"),
        (['topics = ["a"]', "start = {a = 12}"], "start gives offsets by partition"),
        (['topics = ["a"]', "start = {a = {0 = -4}}"], "start gives offsets by partition"),
        (["assign = {a = []}"], "assign names partitions"),
        (['topics = ["a"]', 'value = {format = "json"}'], "8: [source.value] has no schema"),
        (['topics = ["a"]', 'value = {schema = "id int"}'], 'schema is for format = "json"'),
        (['topics = ["a"]', 'value = {format = "jsn"}'], "did you mean json?"),
        (['topics = ["a"]', 'watermark = {column = "at"}'], "8: [source.watermark] has no delay"),
        (['topics = ["a"]', 'path = "lake"'], "is for tables"),
        (['topics = ["a"]', "headers = 1"], "headers is a whole number; it must be true or false"),
    ],
)
def test_a_topic_source_says_what_is_wrong(lines: list[str], words: str) -> None:
    found = problems(with_source('brokers = "b:1"', *lines))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "[source] has no path"),
        (['path = "lake"', 'format = "parquet"'], "has no schema"),
        (['path = "lake"', 'schema = "id int"'], "schema is for Parquet only"),
        (['path = "lake"', 'topics = ["a"]'], "8: [source] topics is for topics; remove it"),
    ],
)
def test_a_table_source_says_what_is_wrong(lines: list[str], words: str) -> None:
    found = problems(with_source('type = "table"', *lines))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['type = "delt"', 'path = "lake"'], "did you mean delta?"),
        (['type = "delta"'], "has no path"),
        (['type = "delta"', 'path = "lake"', 'mode = "update"'], 'name them, as keys = ["id"]'),
        (
            ['type = "delta"', 'path = "lake"', 'keys = ["id"]', 'mode = "complete"'],
            "keys replace single rows",
        ),
        (['type = "topic"', 'topic = "o"', 'mode = "update"'], "use append, complete, or a Delta table"),
        (['type = "delta"', 'path = "lake"', 'topic = "o"'], "is for a topic sink"),
        (['type = "delta"', 'path = "lake"', 'brokers = "o"'], "is for a topic sink or dead letters"),
        (['type = "parquet"', 'path = "lake"', 'mode = "complete"'], "is nothing for files"),
        (
            ['type = "parquet"', 'path = "lake"', 'guarantee = "exactly_once"'],
            "readers of Spark's _spark_metadata",
        ),
        (['type = "console"', 'guarantee = "exactly_once"'], "keeps nothing exactly once"),
        (['type = "topic"'], "has no topic"),
        (['type = "topic"', 'topic = "orders"'], "would feed itself"),
        (['type = "topic"', 'topic = "o"', "compact_every = 5"], "is for a Delta table"),
    ],
)
def test_a_sink_says_what_is_wrong(lines: list[str], words: str) -> None:
    assert any(words in one for one in problems(with_sink(*lines)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('format = "json", schema = "id bigint", ', 'format = "text", ', "rows whose value is no JSON"),
        ('key = "id"', 'mode = "complete"', "mode complete"),
        ('type = "topic"\ntopic = "orders.clean"\nkey = "id"', 'type = "console"', "topic or delta"),
        ("orders.dlq", "orders.clean", "topic is the sink's own"),
        ("max_ratio = 0.01", "max_ratio = 2", "a share of all rows, from 0 to 1"),
    ],
)
def test_dead_letters_that_cannot_be_are_refused(old: str, new: str, words: str) -> None:
    assert old in WHOLE
    found = problems(WHOLE.replace(old, new))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("setting", ["spark.speculation", "spark.sql.adaptive.streaming.stateless.enabled"])
def test_settings_that_break_exactly_once_are_refused(setting: str) -> None:
    text = with_sink('type = "delta"', 'path = "lake"', "[spark]", f'"{setting}" = true')
    [found] = problems(text)
    assert found.startswith("orders.toml:11: [spark] " + setting)


def test_the_environment_is_put_into_values_and_must_have_them() -> None:
    text = SMALL.replace("127.0.0.1:9092", "${HOST}:9092").replace('["orders"]', '["$${HOST}"]')
    spec = parsed(text, HOST="castle")
    assert spec.source.brokers == "castle:9092"
    assert spec.source.topics == ("${HOST}",)
    assert problems(text) == [
        "orders.toml:5: the environment has no variable HOST; set it, or write $${HOST}"
    ]


def test_files_beside_the_pipeline_must_be_there(tmp_path: Path) -> None:
    for line, words in (
        ('sql = "clean.sql"', "there is no file"),
        ('module = "clean:clean"', "no module clean is installed"),
        ('module = "clean"', 'must be like "orders_pipeline:clean"'),
        ('module = "clean:go"\nsql = "clean.sql"', "exclude each other"),
    ):
        assert any(words in one for one in problems(f"{SMALL}[transform]\n{line}", tmp_path))
    (tmp_path / "clean.sql").write_text("select * from source")
    (tmp_path / "clean.py").write_text("def clean(df):\n    return df\n")
    assert parsed(f'{SMALL}[transform]\nsql = "clean.sql"', tmp_path).transform.sql == tmp_path / "clean.sql"
    transform = parsed(f'{SMALL}[transform]\nmodule = "clean:clean"', tmp_path).transform
    assert (transform.module, transform.function) == ("clean", "clean")
    [found] = problems(f'{SMALL}[transform]\nmodule = "clean:clear"', tmp_path)
    assert "has no clear; did you mean clean?" in found
    (tmp_path / "clean.py").write_text("x = 1\ndef clean(df)\n")
    [found] = problems(f'{SMALL}[transform]\nmodule = "clean:clean"', tmp_path)
    assert f"{tmp_path / 'clean.py'}:2: " in found


def test_a_mistake_of_syntax_is_one_line_with_its_place() -> None:
    [found] = problems("[pipeline]\nname = orders\n")
    assert found.startswith("orders.toml:2: ")


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such file"):
        read_spec(tmp_path / "none.toml")
