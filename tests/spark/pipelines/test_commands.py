"""Pipeline commands with a real broker, and checkpoints written as by Spark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.pipelines.pipeline_stage import HOUR_MS, Pipeline, confluent_lag, iso_time
from tests.support.broker import free_port
from typer.testing import CliRunner

from odradek import TopicPartition
from odradek.client.environment import system_environment
from odradek.commands import app
from odradek.pipelines.checkpoint.lease import local_lock
from odradek.pipelines.monitoring.lag import OldestRecordReader
from odradek.pipelines.spec.reader import read_spec


@pytest.fixture
def pipeline(tmp_path: Path, bootstrap: str, topic: str) -> Pipeline:
    return Pipeline(tmp_path, bootstrap, topic)


@pytest.fixture
def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def running(pipeline: Pipeline) -> Iterator[str]:
    """Hold the pipeline's lock, as if this process ran it."""
    with local_lock(read_spec(pipeline.file)):
        yield f"{os.uname().nodename}:{os.getpid()}"


# lag


def test_lag_equals_groups_describe_and_confluent(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, *[now_ms] * 5)
    pipeline.send(1, *[now_ms] * 3)
    pipeline.commit(p0=2, p1=3)
    rows = pipeline.json("lag")
    described = json.loads(
        CliRunner()
        .invoke(app, ["-b", pipeline.bootstrap, "groups", "describe", pipeline.group, "--json"])
        .stdout
    )
    names = ("partition", "current_offset", "end_offset", "lag")
    assert [(row["partition"], row["committed"], row["end"], row["lag_rows"]) for row in rows] == [
        tuple(row[name] for name in names) for row in described
    ]
    assert {row["partition"]: row["lag_rows"] for row in rows} == confluent_lag(pipeline) == {0: 3, 1: 0}


def test_lag_seconds_is_the_age_of_the_first_unread_record(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, now_ms - HOUR_MS, now_ms - 60_000, now_ms)
    pipeline.send(1, now_ms)
    pipeline.commit(p0=1, p1=1)
    first, second = pipeline.json("lag")
    assert 60 <= first["lag_s"] < 90
    assert second["lag_s"] == 0.0


def test_oldest_record_reader_can_be_reused(pipeline: Pipeline, now_ms: int) -> None:
    """The supervisor uses one reader for the whole run."""
    pipeline.send(0, now_ms - 3000, now_ms - 2000, now_ms - 1000)
    partition = TopicPartition(pipeline.topic, 0)
    with OldestRecordReader(read_spec(pipeline.file), system_environment().clock) as reader:
        for offset, age_ms in ((0, 3000), (2, 1000), (1, 2000)):
            timestamps = reader.timestamps_ms({partition: offset}, {partition: 3})
            assert timestamps == {partition: now_ms - age_ms}


def test_transaction_markers_count_as_lag_rows_but_not_seconds(pipeline: Pipeline, now_ms: int) -> None:
    """Every tool counts the marker as one offset, but no record is unread."""
    pipeline.send(0, now_ms - HOUR_MS, transactional_id=f"t-{pipeline.topic}"[:200])
    pipeline.commit(p0=1)
    first = pipeline.json("lag")[0]
    assert (first["lag_rows"], first["lag_s"]) == (1, 0.0)


def test_lag_is_unknown_before_the_first_commit(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, now_ms)
    assert [(row["committed"], row["lag_rows"]) for row in pipeline.json("lag")] == [(None, None)] * 2


# reset


def test_reset_without_execute_changes_nothing(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, *[now_ms] * 5)
    pipeline.commit(p0=4, p1=0)
    result = pipeline.call("reset", "--to", "earliest")
    assert "nothing was changed: use --execute to apply" in result.stderr
    assert pipeline.committed == {0: 4, 1: 0}
    assert not (pipeline.checkpoint / "odradek" / "start.json").exists()


def test_reset_moves_the_checkpoint_and_group_offsets(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, *[now_ms] * 5)
    pipeline.write_batch(7, {"0": 4, "1": 0})
    pipeline.commit(p0=3, p1=0)
    changes = pipeline.json("reset", "--to", "earliest", "--execute")
    # The checkpoint is one batch ahead of the group.
    assert [(change["current_offset"], change["new_offset"]) for change in changes] == [(4, 0), (0, 0)]
    (aside,) = pipeline.directory.glob("checkpoint.before-*")
    assert (aside / "offsets" / "7").is_file()
    assert not (pipeline.checkpoint / "offsets").exists()
    start = json.loads((pipeline.checkpoint / "odradek" / "start.json").read_text())
    assert start == {pipeline.topic: {"0": 0, "1": 0}}
    assert pipeline.committed == {0: 0, 1: 0}


def test_reset_to_a_time_or_offsets(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, now_ms - 2 * HOUR_MS, now_ms - HOUR_MS, now_ms)
    pipeline.commit(p0=3, p1=0)

    def to(where: str) -> list[int]:
        return [change["new_offset"] for change in pipeline.json("reset", "--to", where)]

    assert to(iso_time(now_ms - 2 * HOUR_MS + 60_000)) == [1, 0]
    assert to("2100-01-01") == [3, 0]
    assert to("latest") == [3, 0]
    assert to(json.dumps({pipeline.topic: {"0": 2}})) == [2, 0]
    assert to(json.dumps({pipeline.topic: {"0": 99, "1": -1}})) == [3, 0]


def test_reset_backwards_warns_about_rows_written_again(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    pipeline.send(0, *[now_ms] * 5)
    pipeline.commit(p0=5, p1=0)
    assert "up to 5 rows will be written to" in pipeline.call("reset", "--to", "earliest").stderr


def test_running_pipeline_cannot_be_reset(pipeline: Pipeline, running: str) -> None:
    pipeline.write_batch(7, {"0": 0, "1": 0})
    assert running in pipeline.call("reset", "--to", "earliest").stderr
    refused = pipeline.call("reset", "--to", "earliest", "--execute", status=1)
    assert running in refused.stderr
    assert (pipeline.checkpoint / "offsets" / "7").is_file()


# replay


def test_replay_counts_the_rows_of_its_window(pipeline: Pipeline, now_ms: int) -> None:
    begin = now_ms - HOUR_MS
    pipeline.send(0, begin, begin + 1000, begin + 2000, begin + 3000)
    pipeline.send(1, begin + 1500)
    window = ("--from", iso_time(begin + 1000), "--to", iso_time(begin + 3000))
    replay = pipeline.json("replay", *window)
    assert replay["row_count"] == 3
    ranges = [(row["partition"], row["from_offset"], row["to_offset"]) for row in replay["ranges"]]
    assert ranges == [(0, 1, 3), (1, 0, 1)]
    shown = pipeline.call("replay", *window)
    assert "3 rows in total" in shown.stdout
    assert "nothing was written: use --execute to write" in shown.stderr
    assert not pipeline.checkpoint.exists()


def test_replay_of_an_empty_window_starts_no_spark(pipeline: Pipeline) -> None:
    result = pipeline.call("replay", "--from", "1970-01-01", "--to", "1970-01-02", "--execute")
    assert "the window has no rows" in result.stderr


# status


def test_status_of_a_pipeline_that_never_ran(pipeline: Pipeline) -> None:
    status = pipeline.json("status")
    assert (status["state"], status["running"], status["last_batch"]) == ("never run", False, None)


def test_status_from_checkpoint_group_and_lease(pipeline: Pipeline, running: str, now_ms: int) -> None:
    pipeline.send(0, now_ms, now_ms)
    pipeline.write_batch(7, {"0": 1, "1": 0})
    pipeline.commit(p0=1, p1=0)
    status = pipeline.json("status")
    assert (status["state"], status["run_by"], status["last_batch"]) == ("running", running, 7)
    assert status["lag_rows"] == 1
    assert "last batch  7" in pipeline.call("status").stdout


def test_status_without_brokers(pipeline: Pipeline) -> None:
    pipeline.write_batch(7, {"0": 1, "1": 0}, is_done=False)
    pipeline.write(brokers=f"127.0.0.1:{free_port()}")
    status = pipeline.json("status")
    assert (status["state"], status["unfinished_batch"]) == ("unknown: no broker reachable", 7)
    assert "no broker reachable" in status["lag_unknown_because"]


# check


def failed_checks(pipeline: Pipeline) -> dict[str, str]:
    """Return the fixes of failed checks by name."""
    checks = pipeline.json("check", "--no-plan", status=1)
    return {check["what"]: check["fix"] for check in checks if not check["ok"]}


def test_valid_pipeline_passes_every_check(pipeline: Pipeline) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    result = pipeline.call("check", "--no-plan")
    assert "✗" not in result.stdout
    assert f"✓ source topic {pipeline.topic}" in result.stdout
    assert not pipeline.checkpoint.exists()


def test_failed_checks_have_fixes(pipeline: Pipeline) -> None:
    more = '[dead_letter]\ntopic = "no-such-dead"\n[transform]\nmodule = "no_such_module:clean"'
    missing = 'type = "topic"\ntopic = "no-such-sink"'
    pipeline.write(missing, more=more)
    pipeline.file.write_text(
        pipeline.file.read_text().replace(
            f'topics = ["{pipeline.topic}"]',
            'topics = ["no-such"]\nvalue = { format = "json", schema = "id bigint" }',
        )
    )
    (pipeline.directory / "no_such_module.py").write_text(
        "import nothing_of_this_name\n\n\ndef clean(df): ...\n"
    )
    wrong = failed_checks(pipeline)
    assert wrong.keys() == {
        "source topic no-such",
        "transform",
    }
    assert "odradek topics create no-such" in wrong["source topic no-such"]


def test_damaged_checkpoint_fails_the_check(pipeline: Pipeline) -> None:
    pipeline.write_batch(7, {"0": 1})
    (pipeline.checkpoint / "offsets" / "7").write_text("v1\nwhat?")
    assert "odradek pipeline reset" in failed_checks(pipeline)["checkpoint content"]


def test_changed_planning_options_fail_the_check(pipeline: Pipeline) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    pipeline.write_batch(7, {"0": 1}, is_done=False)
    (pipeline.checkpoint / "odradek").mkdir()
    (pipeline.checkpoint / "odradek" / "plan.json").write_text('{"[source] topics": "another"}')
    assert "planning options" in failed_checks(pipeline)


# no broker


def test_unreachable_broker_is_one_line(pipeline: Pipeline) -> None:
    port = free_port()
    pipeline.write(brokers=f"127.0.0.1:{port}")
    result = pipeline.call("lag", status=1)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"odradek: no broker reachable at 127.0.0.1:{port}")
