"""Pipelines run from their files, each in a Spark of its own: what a user sees, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.run.driver_process import session_members

pytestmark = pytest.mark.timeout(600)
WAIT_S = 300
"""Far more than anything takes on a machine that is not shared."""

StartPipeline = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_pipeline() -> Iterator[StartPipeline]:
    """Starts runners; those that still live when the test ends are stopped, and leave nothing."""
    started: list[subprocess.Popen[str]] = []

    def start(file: Path, *words: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "odradek",
            "pipeline",
            "run",
            str(file),
            "--master",
            "local[2]",
            *words,
        ]
        one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(one)
        return one

    yield start
    for one in started:
        if one.poll() is None:
            one.terminate()
            one.wait(60)
        if one.stdout is not None:
            one.stdout.close()


def written(directory: Path, name: str, text: str) -> Path:
    file = directory / name
    file.write_text(text)
    return file


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)


def values_of(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes | None]]]:
    """All committed records of a topic's partitions: key, value, headers."""
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        partitions = [TopicPartition(topic, one.partition) for one in reader.partitions_for(topic)]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        found = []
        while any(reader.position(one) < end for one, end in ends.items()):
            found += [(one.key, one.value, dict(one.headers)) for one in reader.poll(timeout_s=1)]
        return found


def driver_pid(checkpoint: Path) -> int | None:
    status = checkpoint / "odradek" / "status.json"
    return json.loads(status.read_text())["driver_pid"] if status.exists() else None


def read_count(checkpoint: Path, topic: str) -> int:
    """How many records the finished batches have read."""
    last = Checkpoint(str(checkpoint)).state().last_committed
    return 0 if last is None or last.ends[0] is None else sum(last.ends[0][topic].values())


def java_of(driver: int) -> int | None:
    """The Java process among those a driver started."""
    for pid in session_members(driver):
        if "java" in os.readlink(f"/proc/{pid}/exe"):
            return pid
    return None


def test_a_topic_becomes_a_table_by_sql_and_a_second_run_adds_only_what_is_new(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(100):
            producer.send(topic, json.dumps({"id": number, "amount": number / 2}).encode())
    written(tmp_path, "even.sql", "select id, amount from source where id % 2 = 0;")
    file = written(
        tmp_path,
        "orders.toml",
        f"""
[pipeline]
name = "{topic.lower()}"
checkpoint = "checkpoint"
[source]
brokers = "{bootstrap}"
topics = ["{topic}"]
value = {{ format = "json", schema = "id bigint, amount double" }}
[transform]
sql = "even.sql"
[sink]
type = "delta"
path = "lake"
""",
    )
    first = start_pipeline(file, "--once")
    told, _ = first.communicate(timeout=WAIT_S)
    assert first.returncode == 0, told
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(0, 100, 2))
    state = Checkpoint(str(tmp_path / "checkpoint")).state()
    assert state.unfinished is None
    again = start_pipeline(file, "--once")
    told, _ = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0, told
    assert DeltaTable(tmp_path / "lake").to_pyarrow_table().num_rows == 50
    assert Checkpoint(str(tmp_path / "checkpoint")).state().query_id == state.query_id


def test_a_killed_java_is_started_again_and_each_row_is_there_once_and_each_bad_one_among_dead_letters(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    out, dead, count = f"{topic}-out", f"{topic}-dead", 1500
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2) for name in (topic, out, dead)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            value = b"no JSON" if number % 100 == 7 else json.dumps({"id": number}).encode()
            producer.send(topic, value, key=str(number).encode())
    file = written(
        tmp_path,
        "orders.toml",
        f"""
[pipeline]
name = "{topic[-60:].lower()}"
checkpoint = "checkpoint"
trigger = "100 ms"
[source]
brokers = "{bootstrap}"
topics = ["{topic}"]
max_per_trigger = 200
value = {{ format = "json", schema = "id bigint" }}
[sink]
type = "topic"
topic = "{out}"
key = "id"
[dead_letter]
topic = "{dead}"
max_ratio = 0.5
""",
    )
    checkpoint = tmp_path / "checkpoint"
    runner = start_pipeline(file, "--continuous")
    until(lambda: (Checkpoint(str(checkpoint)).state().committed_id or 0) >= 2)

    second = start_pipeline(file, "--once")
    told, _ = second.communicate(timeout=WAIT_S)
    assert second.returncode == 1
    assert f":{runner.pid} already" in told
    assert "Traceback" not in told

    first_driver = driver_pid(checkpoint)
    assert first_driver is not None
    java = java_of(first_driver)
    assert java is not None
    os.kill(java, signal.SIGKILL)
    until(lambda: driver_pid(checkpoint) not in (None, first_driver))
    assert session_members(first_driver) == []

    good = {number for number in range(count) if number % 100 != 7}
    until(lambda: read_count(checkpoint, topic) == count)
    last_driver = driver_pid(checkpoint)
    runner.send_signal(signal.SIGTERM)
    told, _ = runner.communicate(timeout=WAIT_S)
    assert runner.returncode == 0, told
    assert last_driver is not None
    assert session_members(last_driver) == []

    ids = Counter(json.loads(value or b"{}")["id"] for _, value, _ in values_of(bootstrap, out))
    assert ids == Counter(good)
    letters = values_of(bootstrap, dead)
    assert Counter(key for key, _, _ in letters) == Counter(
        str(number).encode() for number in range(7, count, 100)
    )
    _, value, headers = letters[0]
    assert value == b"no JSON"
    assert headers["dead.topic"] == topic.encode()


def test_a_row_that_cannot_be_read_stops_the_pipeline_with_one_message(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b'{"id": 1}', None, b"no JSON"):
            producer.send(topic, value, partition=0).result(timeout_s=30)
    file = written(
        tmp_path,
        "orders.toml",
        f"""
[pipeline]
name = "{topic.lower()}"
checkpoint = "checkpoint"
[source]
brokers = "{bootstrap}"
topics = ["{topic}"]
value = {{ format = "json", schema = "id bigint" }}
[sink]
type = "noop"
""",
    )
    runner = start_pipeline(file, "--once")
    told, _ = runner.communicate(timeout=WAIT_S)
    assert runner.returncode == 1, told
    assert f"topic {topic}, partition 0, offset 2: the value is not a JSON object: no JSON" in told
    assert "Traceback" not in told
    assert "\tat " not in told
    assert told.count("offset 2") == 1
