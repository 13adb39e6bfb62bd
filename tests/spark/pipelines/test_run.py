"""Pipelines run by the command line, each with its own Spark: output, results and leftover processes."""

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
"""Generous, for a busy machine."""

StartPipeline = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_pipeline() -> Iterator[StartPipeline]:
    """Return a function that starts runners, which are stopped at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(file: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "odradek",
            "pipeline",
            "run",
            str(file),
            "--master",
            "local[2]",
            *arguments,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def write_file(directory: Path, name: str, text: str) -> Path:
    file = directory / name
    file.write_text(text)
    return file


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.2)


def values_of(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes | None]]]:
    """Return all committed records of a topic: key, value, headers."""
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        partitions = [TopicPartition(topic, info.partition) for info in reader.partitions_for(topic)]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        records = []
        while any(reader.position(partition) < end for partition, end in ends.items()):
            records += [
                (record.key, record.value, dict(record.headers)) for record in reader.poll(timeout_s=1)
            ]
        return records


def driver_pid(checkpoint: Path) -> int | None:
    status = checkpoint / "odradek" / "status.json"
    return json.loads(status.read_text())["driver_pid"] if status.exists() else None


def read_count(checkpoint: Path, topic: str) -> int:
    """Return the number of records that committed batches have read."""
    last = Checkpoint(str(checkpoint)).state().last_committed
    return 0 if last is None or last.ends[0] is None else sum(last.ends[0][topic].values())


def java_of(driver: int) -> int | None:
    """Return the Java process of a driver."""
    for pid in session_members(driver):
        if "java" in os.readlink(f"/proc/{pid}/exe"):
            return pid
    return None


def test_topic_to_table_by_sql_and_incremental_second_run(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(100):
            producer.send(topic, json.dumps({"id": number, "amount": number / 2}).encode())
    write_file(tmp_path, "even.sql", "select id, amount from source where id % 2 = 0;")
    file = write_file(
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
    output, _ = first.communicate(timeout=WAIT_S)
    assert first.returncode == 0, output
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(0, 100, 2))
    state = Checkpoint(str(tmp_path / "checkpoint")).state()
    assert state.unfinished is None
    again = start_pipeline(file, "--once")
    output, _ = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0, output
    assert DeltaTable(tmp_path / "lake").to_pyarrow_table().num_rows == 50
    assert Checkpoint(str(tmp_path / "checkpoint")).state().query_id == state.query_id


def test_killed_java_is_restarted_without_lost_or_duplicate_rows(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    out, dead, count = f"{topic}-out", f"{topic}-dead", 1500
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2) for name in (topic, out, dead)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            value = b"no JSON" if number % 100 == 7 else json.dumps({"id": number}).encode()
            producer.send(topic, value, key=str(number).encode())
    file = write_file(
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
    wait_until(lambda: (Checkpoint(str(checkpoint)).state().committed_id or 0) >= 2)

    second = start_pipeline(file, "--once")
    output, _ = second.communicate(timeout=WAIT_S)
    assert second.returncode == 1
    assert f"is already running: {os.uname().nodename}:{runner.pid} " in output
    assert "Traceback" not in output

    first_driver = driver_pid(checkpoint)
    assert first_driver is not None
    java = java_of(first_driver)
    assert java is not None
    os.kill(java, signal.SIGKILL)
    wait_until(lambda: driver_pid(checkpoint) not in (None, first_driver))
    assert session_members(first_driver) == []

    good = {number for number in range(count) if number % 100 != 7}
    wait_until(lambda: read_count(checkpoint, topic) == count)
    last_driver = driver_pid(checkpoint)
    runner.send_signal(signal.SIGTERM)
    output, _ = runner.communicate(timeout=WAIT_S)
    assert runner.returncode == 0, output
    assert last_driver is not None
    assert session_members(last_driver) == []

    ids = Counter(json.loads(value or b"{}")["id"] for _, value, _ in values_of(bootstrap, out))
    assert ids == Counter(good)
    letters = values_of(bootstrap, dead)
    assert Counter(key for key, _, _ in letters) == Counter(
        str(number).encode() for number in range(7, count, 100)
    )
    _, letter, headers = letters[0]
    assert letter == b"no JSON"
    assert headers["dead.topic"] == topic.encode()


def test_unparsable_row_stops_the_pipeline_with_one_message(
    bootstrap: str, topic: str, tmp_path: Path, start_pipeline: StartPipeline
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b'{"id": 1}', None, b"no JSON"):
            producer.send(topic, value, partition=0).result(timeout_s=30)
    file = write_file(
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
    output, _ = runner.communicate(timeout=WAIT_S)
    assert runner.returncode == 1, output
    assert f"topic {topic}, partition 0, offset 2: the value is not a JSON object: no JSON" in output
    assert "Traceback" not in output
    assert "\tat " not in output
    assert output.count("offset 2") == 1
