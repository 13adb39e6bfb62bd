"""The commands in processes of their own, against a real broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker

PROGRAM = str(Path(sys.executable).with_name("odradek"))
SECONDS_MAX = 60
BROKEN_PIPE = 141

Run = Callable[..., "CommandResult"]


class CommandResult:
    """Exit status and output of a command."""

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.status = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()
        self.lines = self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error_line(self) -> str:
        """The only line on stderr."""
        (line,) = self.err.splitlines()
        assert line.startswith("odradek: ")
        return line


def execute(bootstrap: str, *arguments: str, stdin: bytes = b"") -> CommandResult:
    return CommandResult(
        subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
            env={**os.environ, "ODRADEK_BOOTSTRAP": bootstrap},
        )
    )


@pytest.fixture
def run(bootstrap: str) -> Run:
    """Run a command that must exit with ``status`` (default: 0)."""

    def call(*arguments: str, stdin: bytes = b"", status: int = 0) -> CommandResult:
        result = execute(bootstrap, *arguments, stdin=stdin)
        assert result.status == status, result.out + result.err
        return result

    return call


def test_topic_commands(run: Run, topic: str) -> None:
    created = run("topics", "create", topic, "-p", "2", "-c", "retention.ms=86400000", "--json").json
    assert (created[0]["topic"], created[0]["partitions"]) == (topic, 2)
    assert topic in run("topics", "list").lines
    assert topic in [row["topic"] for row in run("topics", "list", "--json").json]
    run("topics", "alter", topic, "--partitions", "3", "--unset", "retention.ms")
    (described,) = run("topics", "describe", topic, "--json").json
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    table = run("topics", "describe", topic).lines
    assert table[0].startswith("TOPIC")
    assert table[0].split()[1:7] == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "OFFLINE"]
    assert len(table) == 4
    run("topics", "delete", topic)
    assert topic not in run("topics", "list").lines


def test_internal_option(run: Run, topic: str) -> None:
    internal = f"__{topic}"
    run("topics", "create", topic, internal)
    assert topic in run("topics", "list").lines
    assert internal not in run("topics", "list").lines
    assert internal not in [row["topic"] for row in run("topics", "list", "--json").json]
    assert internal not in run("topics", "describe").out
    assert {topic, internal} <= set(run("topics", "list", "--internal").lines)
    assert internal in run("topics", "describe", "--internal").out
    assert internal in run("topics", "describe", internal).out
    flags = {row["topic"]: row["internal"] for row in run("topics", "list", "--internal", "--json").json}
    assert (flags[topic], flags[internal]) == (False, True)
    run("topics", "delete", internal)


def test_quota_commands(run: Run, topic: str) -> None:
    user = ("--user", f"user of {topic}")
    run("quotas", "set", *user, "producer_byte_rate=1000000", "request_percentage=50")
    run("quotas", "set", *user, "--client-id", "app", "consumer_byte_rate=5", "--dry-run")
    rows = [(row["quota"], row["value"]) for row in run("quotas", "list", *user, "--json").json]
    assert rows == [("producer_byte_rate", 1_000_000), ("request_percentage", 50)]
    assert run("quotas", "list", *user).lines[0].split() == ["USER", "CLIENT", "ID", "IP", "QUOTA", "VALUE"]
    error = run("quotas", "set", *user, "consumer_byte_rate=0.5", status=1).error_line
    assert "consumer_byte_rate" in error
    run("quotas", "remove", *user, "producer_byte_rate", "request_percentage")
    assert run("quotas", "list", *user, "--json").json == []


def test_user_commands(run: Run, topic: str) -> None:
    user = f"user of {topic}"
    added = run("users", "add", user, stdin=b"hunter2\n")
    assert "hunter2" not in added.out + added.err
    run("users", "add", user, "--mechanism", "scram-sha-512", "--iterations", "8192", stdin=b"other")
    listed = [row for row in run("users", "list", "--json").json if row["user"] == user]
    assert {row["mechanism"]: row["iterations"] for row in listed} == {
        "SCRAM-SHA-256": 4096,
        "SCRAM-SHA-512": 8192,
    }
    run("users", "remove", user, "--mechanism", "SCRAM-SHA-256")
    run("users", "remove", user)
    assert user not in run("users", "list").out
    assert user in run("users", "remove", user, status=1).error_line


def test_create_existing_topic(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--dry-run")
    run("topics", "create", topic)
    assert "TOPIC_ALREADY_EXISTS" in run("topics", "create", topic, status=1).error_line
    run("topics", "create", topic, "--if-not-exists")


def test_unknown_topic_error_has_hint(run: Run, topic: str) -> None:
    for arguments in (
        ["topics", "describe", topic],
        ["topics", "delete", topic],
        ["topics", "alter", topic, "-p", "3"],
        ["consume", topic, "-n", "1"],
        ["configs", "describe", "--topic", topic],
        ["perf", "produce", topic],
        ["groups", "reset-offsets", "no-members", "--topic", topic, "--to-latest"],
    ):
        error_line = run(*arguments, status=1).error_line
        assert topic in error_line
        assert "odradek topics list" in error_line
    run("topics", "delete", topic, "--if-exists")


def test_produce_and_consume_lines(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree")
    assert run("consume", topic, "--from-beginning", "-n", "3").lines == ["one", "two", "three"]
    assert run("consume", topic, "-o", "-1", "-e").lines == ["three"]
    assert run("consume", topic, "-o", "1", "-p", "0", "--until-end").lines == ["two", "three"]
    assert run("consume", topic, "--offset", "earliest", "--timeout", "2").lines == ["one", "two", "three"]
    assert run("consume", topic, "-e").lines == []


def test_produce_options(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run(
        *("produce", topic, "-K", ":", "-H", "from=castle", "--null", "NULL", "--acks", "1", "-z", "lz4"),
        *("-X", "linger.ms=1", "-p", "0"),
        stdin=b"k1:v1\nk2:NULL\n",
    )
    shown = run("consume", topic, "-e", "--from-beginning", "--print-key", "--headers").lines
    assert shown == ["from=castle\tk1\tv1", "from=castle\tk2\tnull"]
    shown = run("consume", topic, "-e", "--from-beginning", "-f", r"%t/%p/%o %k=%s (%S)\n").lines
    assert shown == [f"{topic}/0/0 k1=v1 (2)", f"{topic}/0/1 k2= (-1)"]


def test_json_lines_round_trip(run: Run, topic: str) -> None:
    run("topics", "create", topic, f"{topic}-copy", "-p", "1")
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "timestamp": 1700000000000}\n'
    run("produce", topic, "--json", stdin=line)
    first = run("consume", topic, "-e", "--from-beginning", "--format", "json").out
    run("produce", f"{topic}-copy", "--json", stdin=first.encode())
    second = json.loads(run("consume", f"{topic}-copy", "-e", "--from-beginning", "-f", "json").out)
    assert second == {**json.loads(first), "topic": f"{topic}-copy"}
    assert (second["value"], second["timestamp"]) == ('{"a":1}', 1700000000000)
    assert run("consume", topic, "-e", "--from-beginning", "-f", "raw").out == '{"a":1}'


def test_invalid_input_line_fails_after_sending_previous_ones(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    assert "line 2" in run("produce", topic, "-K", ":", stdin=b"a:b\nc\n", status=1).error_line
    assert "line 1: invalid JSON" in run("produce", topic, "--json", stdin=b"a\n", status=1).error_line
    assert run("consume", topic, "-e", "--from-beginning").lines == ["b"], "lines before it are sent"


def test_rejected_record_fails_command(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-c", "max.message.bytes=1000")
    assert "1 of 1 records not delivered" in run("produce", topic, stdin=b"x" * 5000, status=1).error_line


def test_consume_in_group(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree\n")
    assert run("consume", topic, "-g", group, "--from-beginning", "-n", "2").lines == ["one", "two"]
    assert run("consume", topic, "-g", group, "-n", "1").lines == ["three"]
    assert group in [row["group"] for row in run("groups", "list", "--json").json]
    (row,) = run("groups", "describe", group, "--json").json
    assert (row["current_offset"], row["end_offset"], row["lag"]) == (3, 3, 0)
    (state,) = run("groups", "describe", group, "--state", "--json").json
    assert (state["state"], state["members"]) == ("Empty", 0)
    assert run("groups", "describe", group, "--members", "--json").json == []


def test_reset_offsets(run: Run, bootstrap: str, topic: str, tmp_path: Path) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree\n")

    def reset(*options: str, topics: tuple[str, ...] = ("--topic", topic)) -> int:
        result = run("groups", "reset-offsets", group, *topics, *options, "--json")
        if "--execute" not in options:
            assert "no changes made" in result.error_line
        offset: int = result.json[0]["new_offset"]
        return offset

    assert reset("--to-offset", "2", "--execute") == 2
    assert reset("--to-earliest") == 0
    assert reset("--to-latest") == 3
    assert reset("--to-current") == 2
    assert reset("--to-offset", "99") == 3
    assert reset("--shift-by", "-1", topics=("--all-topics",)) == 1
    assert reset("--to-datetime", "2020-01-01T00:00:00") == 0
    assert reset("--by-duration", "PT0S") == 3
    (tmp_path / "offsets.csv").write_text(f"{topic},0,1\n", encoding="utf-8")
    assert reset("--from-file", str(tmp_path / "offsets.csv"), topics=()) == 1
    (row,) = run("groups", "describe", group, "--json").json
    assert (row["current_offset"], row["lag"]) == (2, 1), "only --execute changes anything"
    run("groups", "delete-offsets", group, "--topic", f"{topic}:0")
    # A group without offsets may be deleted.
    assert topic not in execute(bootstrap, "groups", "describe", group, "--json").out


def test_delete_groups(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    run("groups", "delete", group)
    assert "GROUP_ID_NOT_FOUND" in run("groups", "delete", group, status=1).error_line
    assert "does not exist" in run("groups", "describe", group, status=1).error_line


def test_config_commands(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    run("configs", "set", "--topic", topic, "retention.ms=1234", "segment.bytes=2000000")
    shown = run("configs", "describe", "-t", topic, "--json").json
    values = {row["name"]: row["value"] for row in shown if row["source"] == "topic_config"}
    assert values == {"retention.ms": "1234", "segment.bytes": "2000000"}
    run("configs", "unset", "--topic", topic, "segment.bytes")
    (row,) = run("configs", "describe", "-t", topic, "segment.bytes", "--json").json
    assert row["source"] == "default_config"
    assert len(run("configs", "describe", "-t", topic, "--all").lines) > 20
    assert "INVALID_CONFIG" in run("configs", "set", "-t", topic, "retention.ms=soon", status=1).error_line
    (broker,) = {row["leader"] for row in run("topics", "describe", topic, "--json").json[0]["partitions"]}
    assert run("configs", "describe", "--broker", str(broker)).lines
    assert "the cluster has no broker 77" in run("configs", "describe", "--broker", "77", status=1).error_line


def test_perf_commands(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    sent = run("perf", "produce", topic, "-n", "2000", "--size", "50", "--json").json
    assert (sent["records"], set(sent["latency_ms"])) == (2000, {"p50", "p95", "p99", "p99.9", "max"})
    paced = run("perf", "produce", topic, "-n", "100", "--rate", "200", "--json").json
    assert 0.4 < paced["seconds"] < 5
    read = run("perf", "consume", topic, "-n", "2100", "--json").json
    assert (read["records"], read["mb_per_s"] > 0) == (2100, True)
    received = run("perf", "e2e", topic, "-n", "50", "--rate", "100", "-X", "linger.ms=0", "--json").json
    assert (received["records"], received["latency_ms"]["p50"] > 0) == (50, True)
    result = run("perf", "consume", topic, "-n", "9999", "--timeout", "1", status=1)
    assert "received 2150 of 9999" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list", "--bogus"],
        ["topics", "create"],
        ["topics", "dance"],
        ["topics", "alter", "a"],
        ["topics", "create", "a", "-c", "retention.ms"],
        ["topics", "list", "-X", "lingr.ms=5"],
        ["produce", "a", "-X", "lingr.ms=5"],
        ["produce", "a", "--acks", "some"],
        ["consume", "a", "-o", "soon"],
        ["consume", "a", "--format", "pretty"],
        ["consume", "a", "--format", "%x"],
        ["consume", "a", "-g", "g", "-p", "0"],
        ["consume", "a", "--from-beginning", "-o", "1"],
        ["configs", "describe"],
        ["configs", "describe", "--topic", "a", "--broker", "0"],
        ["groups", "describe", "g", "--members", "--state"],
        ["groups", "reset-offsets", "g", "--to-latest"],
        ["groups", "reset-offsets", "g", "--topic", "a"],
        ["groups", "reset-offsets", "g", "--topic", "a", "--to-latest", "--to-earliest"],
        ["groups", "reset-offsets", "g", "--topic", "a", "--to-latest", "--execute", "--dry-run"],
        ["groups", "reset-offsets", "g", "--topic", "a", "--to-datetime", "yesterday"],
        ["groups", "reset-offsets", "g", "--from-file", "not-there.csv"],
        ["perf", "produce", "a", "-n", "0"],
    ],
    ids=" ".join,
)
def test_usage_error_exits_with_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments, status=2)
    assert result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "arguments",
    [["topics", "list"], ["produce", "a"], ["consume", "a"], ["perf", "consume", "a"]],
    ids=" ".join,
)
def test_unreachable_broker_fails_within_seconds(arguments: list[str]) -> None:
    with socket.socket() as unused:
        # Bound, but not listening: no test that runs beside this one can start a broker on the port.
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        started = time.monotonic()
        result = execute("ignored:1", *arguments, "-b", address)
    assert time.monotonic() - started < 20
    assert result.status == 1
    first, last = result.err.splitlines()
    assert first == f"odradek: {address}: Connection refused; retrying for 4 s"
    assert last.startswith(f"odradek: no response from {address}: Connection refused.")
    assert "odradek serve" in last


def test_global_options_before_command(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic)
    result = execute("127.0.0.1:1", "-b", bootstrap, "-X", "client.id=castle", "topics", "list")
    assert topic in result.lines


def start(bootstrap: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "ODRADEK_BOOTSTRAP": bootstrap},
    )


def test_ctrl_c_stops_consume_silently(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\n")
    with start(bootstrap, "consume", topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("stays_open", [True, False], ids=["stdin-open", "stdin-closed"])
def test_ctrl_c_sends_lines_read_so_far(run: Run, bootstrap: str, topic: str, stays_open: bool) -> None:
    run("topics", "create", topic, "-p", "1")
    with start(bootstrap, "produce", topic, "-X", "linger.ms=60000", "-X", "batch.size=1000000") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        if stays_open:
            process.wait(SECONDS_MAX)
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (130, b"")
    assert run("consume", topic, "-e", "--from-beginning").lines == ["one", "two"]


def test_consume_exits_when_stdout_is_closed(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(50_000)))
    with start(bootstrap, "consume", topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_produce_fails_when_broker_stops(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    execute(broker.bootstrap, "topics", "create", topic)
    with start(
        broker.bootstrap, "produce", topic, "-X", "delivery.timeout.ms=3000", "-X", "request.timeout.ms=1000"
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        time.sleep(3)
        broker.stop()
        _, err = process.communicate(b"two\n", timeout=SECONDS_MAX)
    assert process.returncode == 1
    assert b"1 of 2 records not delivered" in err


def test_idle_consume_exits_when_stdout_is_closed(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\n")
    with start(bootstrap, "consume", topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("arguments", [["topics", "list"], ["version"]], ids=" ".join)
def test_closed_stdout_prints_no_traceback(
    run: Run, bootstrap: str, topic: str, arguments: list[str]
) -> None:
    run("topics", "create", topic)
    with start(bootstrap, *arguments) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_describe_topic_shows_offsets_and_sizes(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "2")
    run("produce", topic, "-p", "1", stdin=b"one\ntwo\n")
    (described,) = run("topics", "describe", topic, "--json").json
    empty, filled = described["partitions"]
    assert (empty["start_offset"], empty["end_offset"], empty["size_bytes"]) == (0, 0, 0)
    assert (filled["start_offset"], filled["end_offset"]) == (0, 2)
    assert filled["size_bytes"] > 6
    table = run("topics", "describe", topic).lines
    assert table[0].split()[-5:] == ["START", "OFFSET", "END", "OFFSET", "SIZE"]
    assert table[2].split()[-4:] == ["0", "2", str(filled["size_bytes"]), "B"]


def test_describe_default_configs(run: Run) -> None:
    result = run("configs", "describe", "--all-brokers")
    assert result.out == ""
    assert result.error_line == "odradek: the cluster has only default settings; show them with --all"
    assert run("configs", "describe", "--all-brokers", "--json").json == []


def test_describe_group_without_members(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    assert run("groups", "describe", group).error_line == f"odradek: group {group} has no active members"
    assert run("groups", "describe", group, "--members").out == ""


def test_status(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "3")
    status = run("status", "--json").json
    assert status["bootstrap"] == bootstrap
    assert status["brokers"] == 1
    assert status["controller"] is not None or IS_FOREIGN
    assert status["topics"] >= 1
    assert status["partitions"] >= 3
    assert (status["under_replicated_partitions"], status["leaderless_partitions"]) == (0, 0)
    assert status["kafka_version"] == "3.9" or IS_FOREIGN
    shown = run("status").lines
    assert [line.split()[0] for line in shown[:3]] == ["bootstrap", "cluster", "version"]


def test_brokers(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "3")
    (broker,) = run("brokers", "--json").json
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert broker["leaders"] >= 3
    assert broker["replicas"] >= broker["leaders"]
    assert broker["size_bytes"] >= 0
    assert len(run("brokers").lines) == 2


def test_controller(run: Run) -> None:
    (row,) = run("controller", "--json").json
    (broker,) = [row for row in run("brokers", "--json").json if row["controller"]]
    assert row == {name: broker[name] for name in ("broker", "host", "port", "rack")}
    assert run("controller").lines[0].split() == ["BROKER", "HOST", "PORT", "RACK"]


def test_elect_leaders(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic, "-p", "2")
    elect = ("elect-leaders", "--election-type", "preferred")
    result = run(*elect, "--topic", topic, "--partition", "1", "--json").json
    assert result == [{"topic": topic, "partition": 1, "result": "not needed"}]
    assert "no partition needs an election" in run(*elect, "--all-topic-partitions").error_line
    file = tmp_path / "partitions.json"
    names = [{"topic": topic, "partition": number} for number in (0, 7)]
    file.write_text(json.dumps({"partitions": names}))
    failed = run(*elect, "--path-to-json-file", str(file), status=1)
    assert [line.split()[1:] for line in failed.lines[1:]] == [["0", "not", "needed"], ["7", "failed"]]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in failed.error_line


def test_json_output_of_changes(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    assert run("topics", "alter", topic, "-p", "2", "-c", "retention.ms=5", "--json").json == [
        {"topic": topic, "partitions": 2, "settings": {"retention.ms": "5"}, "dry_run": False}
    ]
    assert run("configs", "set", "-t", topic, "retention.ms=7", "--json").json == [
        {"name": "retention.ms", "value": "7", "dry_run": False}
    ]
    assert run("configs", "unset", "-t", topic, "retention.ms", "--json").json == [
        {"name": "retention.ms", "value": None, "dry_run": False}
    ]
    run("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    assert run("groups", "delete-offsets", group, "-t", f"{topic}:1", "--json").json == [
        {"group": group, "topic": topic, "partition": 1}
    ]
    assert run("groups", "delete", group, "--json").json == [{"group": group}]
    assert run("topics", "delete", topic, "--json").json == [{"topic": topic}]
    assert run("topics", "delete", topic, "--if-exists", "--json").json == []


def test_consume_json(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\n")
    assert run("consume", topic, "-e", "--from-beginning", "--json").json["value"] == "one"
    run("consume", topic, "-e", "--json", "--format", "raw", status=2)


def test_shell_completion(bootstrap: str) -> None:
    result = subprocess.run(
        ["/bin/bash", "-c", f"{PROGRAM} --show-completion; true"],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert "complete" in result.stdout, result.stderr
    environment = {"_ODRADEK_COMPLETE": "complete_bash", "COMP_WORDS": "odradek top", "COMP_CWORD": "1"}
    result = subprocess.run(
        [PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.stdout.split() == ["topics"]
