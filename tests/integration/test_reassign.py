"""``odradek reassign`` on a local cluster of three brokers.

The tests share the cluster, in any order. They leave three brokers and no reassignments or throttles.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartBroker
from tests.support.local_cluster import SECONDS_MAX, LocalCluster, run_command
from typer.testing import CliRunner

from odradek import Admin, ConfigResource, commands
from odradek.cli.reassign.throttled_replicas import BROKER_THROTTLES, TOPIC_THROTTLES

TOPIC = "letters"
LARGE = "parcels"
FETCHES = 5
FETCH_BYTES = 1024 * 1024
"""``replica.fetch.max.bytes``: a throttled replica gets this much before it has to wait for seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("reassign") / "cluster")
    try:
        cluster.run("up", "--brokers", "3", "--detach")
        cluster.tool("topics", "create", TOPIC, "-p", "3", "-r", "2", "-c", "min.insync.replicas=1")
        yield cluster
    finally:
        cluster.run("down", status=None)


def bootstrap_of(cluster: LocalCluster) -> str:
    return ",".join(broker["address"] for broker in cluster.status()["brokers"])


def reassign(cluster: LocalCluster, *arguments: str, status: int = 0, stdin: str = "") -> Any:
    """Run a command with ``--json``; return its output, or its error if it printed none."""
    command = ["-b", bootstrap_of(cluster), "reassign", *arguments, "--json"]
    result = CliRunner().invoke(commands.app, command, input=stdin)
    assert result.exit_code == status, (arguments, result.output, result.exception)
    # The runner prints answers to questions, too.
    _, brace, rest = result.stdout.partition("{")
    return json.loads(brace + rest) if brace else result.stderr


def replicas_of(cluster: LocalCluster, topic: str) -> list[list[int]]:
    (described,) = json.loads(cluster.tool("topics", "describe", topic, "--json"))
    return [row["replicas"] for row in described["partitions"]]


def await_replicas(cluster: LocalCluster, topic: str, *expected: list[int]) -> None:
    """Wait until the first partitions have these replicas on the broker that responds."""
    deadline = time.monotonic() + SECONDS_MAX
    while (replicas := replicas_of(cluster, topic))[: len(expected)] != list(expected):
        assert time.monotonic() < deadline, replicas


def write_file(path: Path, topic: str, *replicas: list[int]) -> Path:
    partitions = [
        {"topic": topic, "partition": number, "replicas": ids} for number, ids in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def states(report: dict[str, Any]) -> set[str]:
    return {row["state"] for row in report["partitions"]}


def throttles(cluster: LocalCluster, *topics: str) -> set[str]:
    """Return the names of throttles that are set."""
    with Admin(bootstrap_servers=bootstrap_of(cluster)) as admin:
        brokers = [ConfigResource.broker(node.id) for node in admin.describe_cluster().nodes]
        resources = [*brokers, *map(ConfigResource.topic, topics)]
        described = admin.describe_configs(resources)
    return {
        entry.name
        for entries in described.values()
        for entry in entries.values()
        if entry.name in {*BROKER_THROTTLES, *TOPIC_THROTTLES} and not entry.is_default
    }


def test_generated_proposal_is_executed_verified_and_rolled_back(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    write_file(start := tmp_path / "start.json", TOPIC, [1, 2], [1, 2], [2, 1])
    reassign(cluster, "execute", "--reassignment-json-file", str(start), "--wait", "--yes")
    file = tmp_path / "move.json"
    generate = ("generate", "--topics", TOPIC, "--broker-list", "2,3", "--output", str(file))
    proposal = reassign(cluster, *generate)
    assert [entry["replicas"] for entry in proposal["current"]["partitions"]] == [[1, 2], [1, 2], [2, 1]]
    targets = [entry["replicas"] for entry in proposal["proposed"]["partitions"]]
    assert all(sorted(replicas) == [2, 3] for replicas in targets)
    assert json.loads(file.read_text()) == proposal["proposed"]
    await_replicas(cluster, TOPIC, [1, 2], [1, 2], [2, 1])

    execute = ("execute", "--reassignment-json-file", str(file))
    assert "not confirmed: nothing was changed" in reassign(cluster, *execute, stdin="n\n", status=1)
    report = reassign(cluster, *execute, "--wait", "--throttle", "10000000", stdin="y\n")
    assert states(report) == {"completed"}
    assert throttles(cluster, TOPIC) == set()
    await_replicas(cluster, TOPIC, *targets)
    assert states(reassign(cluster, "verify", "--reassignment-json-file", str(file))) == {"completed"}
    rollback = report["rollback_file"]
    assert states(reassign(cluster, "verify", "--reassignment-json-file", rollback, status=1)) == {"differs"}

    reassign(cluster, "execute", "--reassignment-json-file", rollback, "--wait", "--yes")
    await_replicas(cluster, TOPIC, [1, 2], [1, 2], [2, 1])


def test_generate_prints_tables_and_the_json_of_kafkas_tool(cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
    generate = ("reassign", "generate", "--broker-list", "1,2,3", "--topics-to-move-json-file", str(file))
    lines = cluster.tool(*generate).splitlines()
    assert lines[0].split() == ["PARTITION", "FROM", "TO"]
    current = json.loads(lines[lines.index("Current partition replica assignment") + 1])
    assert [entry["replicas"] for entry in current["partitions"]] == replicas_of(cluster, TOPIC)
    proposal = json.loads(lines[lines.index("Proposed partition reassignment configuration") + 1])
    assert proposal["partitions"][0]["log_dirs"] == ["any", "any"]


def test_interrupted_reassignment_goes_on_until_it_is_cancelled(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.tool("topics", "create", LARGE, "-p", "1", "-r", "1", "-c", "min.insync.replicas=1")
    values = [f"{number} {'x' * 100_000}" for number in range(FETCHES * FETCH_BYTES // 100_000)]
    cluster.tool("produce", LARGE, stdin="\n".join(values) + "\n")
    before = replicas_of(cluster, LARGE)
    (leader,) = before[0]
    file = str(write_file(tmp_path / "move.json", LARGE, [leader % 3 + 1]))

    interrupt_execution(cluster, file)
    assert throttles(cluster, LARGE) == {*BROKER_THROTTLES[:2], *TOPIC_THROTTLES}
    assert states(reassign(cluster, "verify", "--reassignment-json-file", file, status=1)) == {"in progress"}
    assert throttles(cluster, LARGE)
    other = str(write_file(tmp_path / "other.json", TOPIC, [3, 1]))
    refused = reassign(cluster, "execute", "--reassignment-json-file", other, "--yes", status=1)
    assert f"a reassignment is in progress ({LARGE}-0)" in refused
    reassign(cluster, "execute", "--reassignment-json-file", other, "--yes", "--wait", "--additional")
    await_replicas(cluster, TOPIC, [3, 1])

    report = reassign(cluster, "cancel", "--reassignment-json-file", file)
    assert report["partitions"] == [{"partition": f"{LARGE}-0", "result": "cancelled", "replicas": before[0]}]
    assert throttles(cluster, LARGE) == set()
    assert states(reassign(cluster, "verify", "--reassignment-json-file", file, status=1)) == {"differs"}
    await_replicas(cluster, LARGE, *before)
    again = reassign(cluster, "cancel", "--reassignment-json-file", file)
    assert again["partitions"][0]["result"] == "not in progress"


def interrupt_execution(cluster: LocalCluster, file: str) -> None:
    """Execute a file with a low throttle, and press Ctrl-C when it shows its progress."""
    command = [sys.executable, "-m", "odradek", "-b", bootstrap_of(cluster), "reassign", "execute"]
    options = ["--reassignment-json-file", file, "--throttle", "1000", "--wait", "--yes"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert "0 of 1 partitions done, 1 replica to add" in line
        os.kill(process.pid, signal.SIGINT)
        output, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: the reassignment goes on" in error.decode()
    assert "throttle between brokers: 1.0 kB/s" in output.decode()


def test_errors_take_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    execute = ("execute", "--yes", "--reassignment-json-file")
    unknown = reassign(cluster, *execute, str(write_file(tmp_path / "a", "nope", [1])), status=1)
    assert "topic nope: UNKNOWN_TOPIC_OR_PARTITION" in unknown
    assert "topic nope" in reassign(cluster, "generate", "--topics", "nope", "--broker-list", "1", status=1)
    dead = reassign(cluster, *execute, str(write_file(tmp_path / "b", TOPIC, [1, 9])), status=1)
    assert f"new replicas of {TOPIC}-0 must be live brokers (1,2,3), got 9" in dead
    missing = write_file(tmp_path / "c", TOPIC, [1], [1], [1], [1])
    assert f"partition {TOPIC}-3 must exist" in reassign(cluster, *execute, str(missing), status=1)
    few = reassign(cluster, "generate", "--topics", TOPIC, "--broker-list", "1", status=1)
    assert "at most the number of brokers (1), got 2" in few
    for error in (unknown, dead, few):
        assert len(error.splitlines()) == 1


def test_cluster_shrinks_after_replicas_have_moved(cluster: LocalCluster, tmp_path: Path) -> None:
    start = str(write_file(tmp_path / "start.json", TOPIC, [3, 1], [2, 3]))
    reassign(cluster, "execute", "--reassignment-json-file", start, "--wait", "--yes")
    cluster.tool("produce", TOPIC, stdin="first\nsecond\n")
    file = str(tmp_path / "shrink.json")
    assert "broker 3 has" in cluster.run("up", "--detach", "--brokers", "2", status=1)
    reassign(cluster, "generate", "--all-topics", "--broker-list", "1,2", "--output", file)
    reassign(cluster, "execute", "--reassignment-json-file", file, "--wait", "--yes")
    assert "broker 3 stopped" in cluster.run("up", "--detach", "--brokers", "2")
    assert [broker["state"] for broker in cluster.status()["brokers"]] == ["running"] * 2
    read = cluster.tool("consume", TOPIC, "--from-beginning", "--until-end").splitlines()
    assert {"first", "second"} <= set(read)
    cluster.run("up", "--detach", "--brokers", "3")


def test_replicas_move_between_log_directories(start_broker: StartBroker, topic: str, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    broker = start_broker({"log.dirs": ",".join(map(str, paths))})
    target = ["-b", broker.bootstrap]
    run_command([*target, "topics", "create", topic])
    (current,) = [path for path in paths if list(path.glob(f"{topic}-0"))]
    (other,) = set(paths) - {current}
    (node,) = json.loads(run_command([*target, "brokers", "--json"]))
    entry = {"topic": topic, "partition": 0, "replicas": [node["broker"]], "log_dirs": [str(other)]}
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    command = [*target, "reassign", "execute", "--reassignment-json-file", str(file), "--wait", "--yes"]
    report = json.loads(run_command([*command, "--json"]))
    assert [row["state"] for row in report["partitions"]] == ["completed", "completed"]
    assert list(other.glob(f"{topic}-0"))
