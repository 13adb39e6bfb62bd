"""Commands about pipelines against a real broker, with checkpoints written by hand as Spark writes them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.pipelines.pipeline_stage import HOUR_MS, Pipeline, confluent_lag, moment
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
    """The pipeline as if this process ran it."""
    with local_lock(read_spec(pipeline.file)):
        yield f"{os.uname().nodename}:{os.getpid()}"


# lag


def test_lag_is_what_groups_describe_and_confluent_compute(pipeline: Pipeline, now_ms: int) -> None:
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
    assert [(one["partition"], one["committed"], one["end"], one["lag_rows"]) for one in rows] == [
        tuple(one[name] for name in names) for one in described
    ]
    assert {one["partition"]: one["lag_rows"] for one in rows} == confluent_lag(pipeline) == {0: 3, 1: 0}


def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_done(
    pipeline: Pipeline, now_ms: int
) -> None:
    pipeline.send(0, now_ms - HOUR_MS, now_ms - 60_000, now_ms)
    pipeline.send(1, now_ms)
    pipeline.commit(p0=1, p1=1)
    first, second = pipeline.json("lag")
    assert 60 <= first["lag_s"] < 90
    assert second["lag_s"] == 0.0


def test_the_age_of_what_waits_can_be_read_again_and_again(pipeline: Pipeline, now_ms: int) -> None:
    """As the runner does, with one consumer for the whole run."""
    pipeline.send(0, now_ms - 3000, now_ms - 2000, now_ms - 1000)
    one = TopicPartition(pipeline.topic, 0)
    with OldestRecordReader(read_spec(pipeline.file), system_environment().clock) as waiting:
        for offset, age_ms in ((0, 3000), (2, 1000), (1, 2000)):
            assert waiting.since_ms({one: offset}, {one: 3}) == {one: now_ms - age_ms}


def test_marks_of_transactions_are_rows_of_lag_and_no_seconds(pipeline: Pipeline, now_ms: int) -> None:
    """Every tool counts the mark as one offset; but no record waits."""
    pipeline.send(0, now_ms - HOUR_MS, transactional_id=f"t-{pipeline.topic}"[:200])
    pipeline.commit(p0=1)
    first = pipeline.json("lag")[0]
    assert (first["lag_rows"], first["lag_s"]) == (1, 0.0)


def test_a_partition_without_a_commit_has_no_lag_yet(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, now_ms)
    assert [(one["committed"], one["lag_rows"]) for one in pipeline.json("lag")] == [(None, None)] * 2


# reset


def test_a_reset_is_shown_first_and_changes_nothing(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, *[now_ms] * 5)
    pipeline.commit(p0=4, p1=0)
    done = pipeline.call("reset", "--to", "earliest")
    assert "nothing was changed: --execute does it" in done.stderr
    assert pipeline.committed == {0: 4, 1: 0}
    assert not (pipeline.checkpoint / "odradek" / "start.json").exists()


def test_a_reset_moves_the_checkpoint_aside_and_the_group_with_it(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, *[now_ms] * 5)
    pipeline.write_batch(7, {"0": 4, "1": 0})
    pipeline.commit(p0=3, p1=0)
    moves = pipeline.json("reset", "--to", "earliest", "--execute")
    # The checkpoint knows of a batch more than the group.
    assert [(one["current_offset"], one["new_offset"]) for one in moves] == [(4, 0), (0, 0)]
    (aside,) = pipeline.directory.glob("checkpoint.before-*")
    assert (aside / "offsets" / "7").is_file()
    assert not (pipeline.checkpoint / "offsets").exists()
    start = json.loads((pipeline.checkpoint / "odradek" / "start.json").read_text())
    assert start == {pipeline.topic: {"0": 0, "1": 0}}
    assert pipeline.committed == {0: 0, 1: 0}


def test_a_reset_goes_to_a_time_or_to_offsets_within_the_log(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.send(0, now_ms - 2 * HOUR_MS, now_ms - HOUR_MS, now_ms)
    pipeline.commit(p0=3, p1=0)

    def to(where: str) -> list[int]:
        return [one["new_offset"] for one in pipeline.json("reset", "--to", where)]

    assert to(moment(now_ms - 2 * HOUR_MS + 60_000)) == [1, 0]
    assert to("2100-01-01") == [3, 0]
    assert to("latest") == [3, 0]
    assert to(json.dumps({pipeline.topic: {"0": 2}})) == [2, 0]
    assert to(json.dumps({pipeline.topic: {"0": 99, "1": -1}})) == [3, 0]


def test_going_back_is_told_to_write_rows_again(pipeline: Pipeline, now_ms: int) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    pipeline.send(0, *[now_ms] * 5)
    pipeline.commit(p0=5, p1=0)
    assert "will get up to 5 rows again" in pipeline.call("reset", "--to", "earliest").stderr


def test_a_running_pipeline_is_not_reset(pipeline: Pipeline, running: str) -> None:
    pipeline.write_batch(7, {"0": 0, "1": 0})
    assert running in pipeline.call("reset", "--to", "earliest").stderr
    refused = pipeline.call("reset", "--to", "earliest", "--execute", status=1)
    assert running in refused.stderr
    assert (pipeline.checkpoint / "offsets" / "7").is_file()


# replay


def test_a_replay_counts_the_rows_of_its_window(pipeline: Pipeline, now_ms: int) -> None:
    begin = now_ms - HOUR_MS
    pipeline.send(0, begin, begin + 1000, begin + 2000, begin + 3000)
    pipeline.send(1, begin + 1500)
    window = ("--from", moment(begin + 1000), "--to", moment(begin + 3000))
    found = pipeline.json("replay", *window)
    assert found["row_count"] == 3
    ranges = [(one["partition"], one["from_offset"], one["to_offset"]) for one in found["ranges"]]
    assert ranges == [(0, 1, 3), (1, 0, 1)]
    shown = pipeline.call("replay", *window)
    assert "3 rows in all" in shown.stdout
    assert "nothing was written: --execute does it" in shown.stderr
    assert not pipeline.checkpoint.exists()


def test_an_empty_window_starts_no_spark(pipeline: Pipeline) -> None:
    done = pipeline.call("replay", "--from", "1970-01-01", "--to", "1970-01-02", "--execute")
    assert "there are no rows in this window" in done.stderr


# status


def test_a_pipeline_that_never_ran_says_so(pipeline: Pipeline) -> None:
    told = pipeline.json("status")
    assert (told["state"], told["running"], told["last_batch"]) == ("never run", False, None)


def test_status_is_told_from_checkpoint_group_and_lease(
    pipeline: Pipeline, running: str, now_ms: int
) -> None:
    pipeline.send(0, now_ms, now_ms)
    pipeline.write_batch(7, {"0": 1, "1": 0})
    pipeline.commit(p0=1, p1=0)
    told = pipeline.json("status")
    assert (told["state"], told["run_by"], told["last_batch"]) == ("running", running, 7)
    assert told["lag_rows"] == 1
    assert "last batch  7" in pipeline.call("status").stdout


def test_a_status_without_brokers_still_tells_the_rest(pipeline: Pipeline) -> None:
    pipeline.write_batch(7, {"0": 1, "1": 0}, is_done=False)
    pipeline.write(brokers=f"127.0.0.1:{free_port()}")
    told = pipeline.json("status")
    assert (told["state"], told["unfinished_batch"]) == ("not known: no broker answers", 7)
    assert "no broker answers" in told["lag_unknown_because"]


# check


def failed_checks(pipeline: Pipeline) -> dict[str, str]:
    """What is wrong, and the fix, by the name of the check."""
    checks = pipeline.json("check", "--no-plan", status=1)
    return {one["what"]: one["fix"] for one in checks if not one["ok"]}


def test_a_pipeline_that_could_run_passes_every_check(pipeline: Pipeline) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    done = pipeline.call("check", "--no-plan")
    assert "✗" not in done.stdout
    assert f"✓ source topic {pipeline.topic}" in done.stdout
    assert not pipeline.checkpoint.exists()


def test_checks_name_every_fault_with_its_fix(pipeline: Pipeline) -> None:
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


def test_a_checkpoint_that_is_spoilt_is_told(pipeline: Pipeline) -> None:
    pipeline.write_batch(7, {"0": 1})
    (pipeline.checkpoint / "offsets" / "7").write_text("v1\nwhat?")
    assert "odradek pipeline reset" in failed_checks(pipeline)["checkpoint content"]


def test_planning_options_that_changed_under_a_batch_are_told(pipeline: Pipeline) -> None:
    pipeline.write('type = "delta"\npath = "lake"')
    pipeline.write_batch(7, {"0": 1}, is_done=False)
    (pipeline.checkpoint / "odradek").mkdir()
    (pipeline.checkpoint / "odradek" / "plan.json").write_text('{"[source] topics": "another"}')
    assert "planning options" in failed_checks(pipeline)


# no broker


def test_no_broker_is_one_clear_line(pipeline: Pipeline) -> None:
    port = free_port()
    pipeline.write(brokers=f"127.0.0.1:{port}")
    done = pipeline.call("lag", status=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"odradek: no broker answers at 127.0.0.1:{port}")
