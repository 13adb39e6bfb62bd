"""Dry runs of pipelines: plan checks, previews and demos."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.topic_content import committed_values
from tests.support.fixtures import StartBroker
from typer.testing import CliRunner

from odradek import Admin, NewTopic, Producer
from odradek.cli.errors import CommandFailed
from odradek.commands import app
from odradek.pipelines.run.plan_check import planned
from odradek.pipelines.run.preview import make_preview
from odradek.pipelines.spec.reader import Spec, read_spec

SCHEMA = "id bigint, amount double"
Write = Callable[..., Spec]


@pytest.fixture
def write(tmp_path: Path, bootstrap: str, topic: str) -> Write:
    def spec(sql: str = "SELECT id, amount FROM source", schema: str = SCHEMA) -> Spec:
        (tmp_path / "q.sql").write_text(sql, encoding="utf-8")
        (tmp_path / "p.toml").write_text(
            f"""
[pipeline]
name = "p"
checkpoint = "checkpoint"
[source]
brokers = "{bootstrap}"
topics = ["{topic}"]
value = {{ format = "json", schema = "{schema}" }}
[transform]
sql = "q.sql"
[sink]
type = "noop"
""",
            encoding="utf-8",
        )
        return read_spec(tmp_path / "p.toml", {})

    return spec


def test_schema_and_sql_errors_are_reported_together(spark: SparkSession, write: Write) -> None:
    schema, sql = planned(spark, write("SELEC id FROM source", "id bigin"))
    assert (schema.what, schema.ok, sql.what, sql.ok) == ("schema", False, "SQL", False)
    assert schema.found.endswith('Unsupported data type "BIGIN". (line 1, pos 3)')
    assert "q.sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'" in sql.found


def test_unknown_column_is_found_without_topic_and_records(spark: SparkSession, write: Write) -> None:
    (plan,) = planned(spark, write("SELECT idd FROM source"))
    assert not plan.ok
    assert "idd" in plan.found
    (plan,) = planned(spark, write())
    assert (plan.ok, plan.found) == (True, "id bigint, amount double")


def test_preview_shows_the_newest_records_and_writes_nothing(
    spark: SparkSession, write: Write, bootstrap: str, topic: str
) -> None:
    spec = write("SELECT id, amount * 2 AS twice, record FROM source WHERE id >= 1100")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    with pytest.raises(CommandFailed, match=f"no records to preview in {topic}"):
        make_preview(spark, spec, 10)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(1200):
            producer.send(topic, json.dumps({"id": number, "amount": 0.5}).encode(), key=b"k")
    preview = make_preview(spark, spec, 10)
    assert (preview.records_count, preview.shown_columns) == (1000, ["id", "twice"])
    assert [(row["id"], row["twice"]) for row in preview.rows] == [(1100 + n, 1.0) for n in range(10)]
    assert preview.rows[0]["record"]["key"] == "k"
    assert json.loads(json.dumps(preview.rows)) == preview.rows


def test_demo_creates_topics_and_orders_once(tmp_path: Path, start_broker: StartBroker) -> None:
    bootstrap = start_broker().bootstrap  # its own: the demo's topics have fixed names

    def new(kind: str, directory: str) -> str:
        arguments = ["pipeline", "new", kind, str(tmp_path / directory), "--demo", "-b", bootstrap]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stderr

    first = new("topic-to-topic", "first")
    assert (
        f"created topic orders and topic orders.large on {bootstrap}\nsent 100 orders to topic orders"
        in first
    )
    assert "topic orders already has records; none were sent" in new("topic-to-table", "second")
    assert len(committed_values(bootstrap, "orders")) == 100
    assert "wrote 100 orders to the Delta table" in new("table-to-topic", "third")
    for stem in ("first/topic_to_topic", "second/topic_to_table", "third/table_to_topic"):
        checked = CliRunner().invoke(app, ["pipeline", "check", str(tmp_path / f"{stem}.toml"), "--no-plan"])
        assert checked.exit_code == 0, checked.output


def test_demo_without_a_broker_writes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["pipeline", "new", "windows", str(tmp_path), "--demo", "-b", "127.0.0.1:1"]
    )
    assert result.exit_code == 1
    assert "no response from 127.0.0.1:1" in result.stderr
    assert not list(tmp_path.iterdir())
