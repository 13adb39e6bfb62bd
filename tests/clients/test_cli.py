"""The real commands against a real broker: what they print, what they do, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import IS_FOREIGN, free_port
from tests.support.fixtures import StartBroker

PROGRAM = str(Path(sys.executable).with_name("odradek"))
SECONDS_MAX = 60
BROKEN_PIPE = 141

Run = Callable[..., "Done"]


class Done:
    """A command that has ended."""

    def __init__(self, ended: subprocess.CompletedProcess[bytes]) -> None:
        self.status = ended.returncode
        self.out = ended.stdout.decode()
        self.err = ended.stderr.decode()
        self.lines = self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line on stderr of a command that failed."""
        (line,) = self.err.splitlines()
        assert line.startswith("odradek: ")
        return line


def execute(bootstrap: str, *arguments: str, stdin: bytes = b"") -> Done:
    return Done(
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
    """Run a command that must succeed, or end with another status that is named."""

    def call(*arguments: str, stdin: bytes = b"", status: int = 0) -> Done:
        done = execute(bootstrap, *arguments, stdin=stdin)
        assert done.status == status, done.out + done.err
        return done

    return call


def test_topics_are_created_listed_described_altered_and_deleted(run: Run, topic: str) -> None:
    made = run("topics", "create", topic, "-p", "2", "-c", "retention.ms=86400000", "--json").json
    assert (made[0]["topic"], made[0]["partitions"]) == (topic, 2)
    assert topic in run("topics", "list").lines
    assert topic in [one["topic"] for one in run("topics", "list", "--json").json]
    run("topics", "alter", topic, "--partitions", "3", "--unset", "retention.ms")
    (described,) = run("topics", "describe", topic, "--json").json
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
    table = run("topics", "describe", topic).lines
    assert table[0].startswith("TOPIC")
    assert table[0].split()[1:7] == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "OFFLINE"]
    assert len(table) == 4
    run("topics", "delete", topic)
    assert topic not in run("topics", "list").lines


def test_internal_topics_are_listed_when_asked_for(run: Run, topic: str) -> None:
    hidden = f"__{topic}"
    run("topics", "create", topic, hidden)
    assert topic in run("topics", "list").lines
    assert hidden not in run("topics", "list").lines
    assert hidden not in [one["topic"] for one in run("topics", "list", "--json").json]
    assert hidden not in run("topics", "describe").out
    assert {topic, hidden} <= set(run("topics", "list", "--internal").lines)
    assert hidden in run("topics", "describe", "--internal").out
    assert hidden in run("topics", "describe", hidden).out
    told = {one["topic"]: one["internal"] for one in run("topics", "list", "--internal", "--json").json}
    assert (told[topic], told[hidden]) == (False, True)
    run("topics", "delete", hidden)


def test_a_topic_that_exists_is_a_failure_unless_that_is_fine(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--dry-run")
    run("topics", "create", topic)
    assert "TOPIC_ALREADY_EXISTS" in run("topics", "create", topic, status=1).complaint
    run("topics", "create", topic, "--if-not-exists")


def test_an_unknown_topic_is_told_with_what_to_do(run: Run, topic: str) -> None:
    for arguments in (
        ["topics", "describe", topic],
        ["topics", "delete", topic],
        ["topics", "alter", topic, "-p", "3"],
        ["consume", topic, "-n", "1"],
        ["configs", "describe", "--topic", topic],
        ["perf", "produce", topic],
        ["groups", "reset-offsets", "nobody", "--topic", topic, "--to-latest"],
    ):
        told = run(*arguments, status=1).complaint
        assert topic in told
        assert "odradek topics list" in told
    run("topics", "delete", topic, "--if-exists")


def test_lines_are_produced_and_consumed_in_order(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree")
    assert run("consume", topic, "--from-beginning", "-n", "3").lines == ["one", "two", "three"]
    assert run("consume", topic, "-o", "-1", "-e").lines == ["three"]
    assert run("consume", topic, "-o", "1", "-p", "0", "--until-end").lines == ["two", "three"]
    assert run("consume", topic, "--offset", "earliest", "--timeout", "2").lines == ["one", "two", "three"]
    assert run("consume", topic, "-e").lines == []


def test_keys_headers_nulls_and_options_reach_the_topic(run: Run, topic: str) -> None:
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


def test_json_lines_go_around_from_topic_to_topic(run: Run, topic: str) -> None:
    run("topics", "create", topic, f"{topic}-copy", "-p", "1")
    given = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "timestamp": 1700000000000}\n'
    run("produce", topic, "--json", stdin=given)
    first = run("consume", topic, "-e", "--from-beginning", "--format", "json").out
    run("produce", f"{topic}-copy", "--json", stdin=first.encode())
    second = json.loads(run("consume", f"{topic}-copy", "-e", "--from-beginning", "-f", "json").out)
    assert second == {**json.loads(first), "topic": f"{topic}-copy"}
    assert (second["value"], second["timestamp"]) == ('{"a":1}', 1700000000000)
    assert run("consume", topic, "-e", "--from-beginning", "-f", "raw").out == '{"a":1}'


def test_a_line_that_cannot_be_read_ends_the_command(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    assert "line 2" in run("produce", topic, "-K", ":", stdin=b"a:b\nc\n", status=1).complaint
    assert "line 1: no JSON" in run("produce", topic, "--json", stdin=b"a\n", status=1).complaint
    assert run("consume", topic, "-e", "--from-beginning").lines == ["b"], "what was read before is sent"


def test_a_record_that_is_refused_is_a_failure(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-c", "max.message.bytes=1000")
    told = run("produce", topic, stdin=b"x" * 5000, status=1).complaint
    assert "1 of 1 records were not written" in told


def test_a_group_goes_on_where_it_was(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree\n")
    assert run("consume", topic, "-g", group, "--from-beginning", "-n", "2").lines == ["one", "two"]
    assert run("consume", topic, "-g", group, "-n", "1").lines == ["three"]
    assert group in [one["group"] for one in run("groups", "list", "--json").json]
    (row,) = run("groups", "describe", group, "--json").json
    assert (row["current_offset"], row["end_offset"], row["lag"]) == (3, 3, 0)
    (state,) = run("groups", "describe", group, "--state", "--json").json
    assert (state["state"], state["members"]) == ("Empty", 0)
    assert run("groups", "describe", group, "--members", "--json").json == []


def test_offsets_are_shown_first_and_moved_when_told_to(
    run: Run, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\ntwo\nthree\n")

    def reset(*how: str, topics: tuple[str, ...] = ("--topic", topic)) -> int:
        done = run("groups", "reset-offsets", group, *topics, *how, "--json")
        if "--execute" not in how:
            assert "nothing was changed" in done.complaint
        offset: int = done.json[0]["new_offset"]
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
    # A group that nothing is left of may be gone with it.
    assert topic not in execute(bootstrap, "groups", "describe", group, "--json").out


def test_groups_are_deleted_and_unknown_ones_told(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    run("groups", "delete", group)
    assert "GROUP_ID_NOT_FOUND" in run("groups", "delete", group, status=1).complaint
    assert "does not exist" in run("groups", "describe", group, status=1).complaint


def test_settings_are_set_described_and_unset(run: Run, topic: str) -> None:
    run("topics", "create", topic)
    run("configs", "set", "--topic", topic, "retention.ms=1234", "segment.bytes=2000000")
    shown = run("configs", "describe", "-t", topic, "--json").json
    found = {one["name"]: one["value"] for one in shown if one["source"] == "topic_config"}
    assert found == {"retention.ms": "1234", "segment.bytes": "2000000"}
    run("configs", "unset", "--topic", topic, "segment.bytes")
    (one,) = run("configs", "describe", "-t", topic, "segment.bytes", "--json").json
    assert one["source"] == "default_config"
    assert len(run("configs", "describe", "-t", topic, "--all").lines) > 20
    assert "INVALID_CONFIG" in run("configs", "set", "-t", topic, "retention.ms=soon", status=1).complaint
    (broker,) = {one["leader"] for one in run("topics", "describe", topic, "--json").json[0]["partitions"]}
    assert run("configs", "describe", "--broker", str(broker)).lines
    assert "no broker 77" in run("configs", "describe", "--broker", "77", status=1).complaint


def test_measurements_give_rates_and_latencies(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    sent = run("perf", "produce", topic, "-n", "2000", "--size", "50", "--json").json
    assert (sent["records"], set(sent["latency_ms"])) == (2000, {"p50", "p95", "p99", "p99.9", "max"})
    paced = run("perf", "produce", topic, "-n", "100", "--rate", "200", "--json").json
    assert 0.4 < paced["seconds"] < 5
    read = run("perf", "consume", topic, "-n", "2100", "--json").json
    assert (read["records"], read["mb_per_s"] > 0) == (2100, True)
    passed = run("perf", "e2e", topic, "-n", "50", "--rate", "100", "-X", "linger.ms=0", "--json").json
    assert (passed["records"], passed["latency_ms"]["p50"] > 0) == (50, True)
    done = run("perf", "consume", topic, "-n", "9999", "--timeout", "1", status=1)
    assert "only 2150 of 9999" in done.err


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
def test_wrong_use_is_told_and_ends_with_2(run: Run, arguments: list[str]) -> None:
    done = run(*arguments, status=2)
    assert done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [["topics", "list"], ["produce", "a"], ["consume", "a"], ["perf", "consume", "a"]],
    ids=" ".join,
)
def test_no_broker_is_told_clearly_within_a_few_seconds(arguments: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    done = execute("ignored:1", *arguments, "-b", address)
    assert time.monotonic() - begun < 20
    assert done.status == 1
    first, last = done.err.splitlines()
    assert first == f"odradek: {address}: Connection refused; trying again for 4 s"
    assert last.startswith(f"odradek: no broker answers at {address}: Connection refused.")
    assert "odradek serve" in last


def test_the_address_may_stand_before_the_command(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic)
    done = execute("127.0.0.1:1", "-b", bootstrap, "-X", "client.id=castle", "topics", "list")
    assert topic in done.lines


def start(bootstrap: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "ODRADEK_BOOTSTRAP": bootstrap},
    )


def test_ctrl_c_ends_a_consumer_at_once_and_without_a_word(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\n")
    with start(bootstrap, "consume", topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("stays_open", [True, False], ids=["in-mid-input", "with-the-end-of-input"])
def test_ctrl_c_sends_what_a_producer_has_read(
    run: Run, bootstrap: str, topic: str, stays_open: bool
) -> None:
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


def test_a_reader_that_has_seen_enough_is_no_trouble(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(50_000)))
    with start(bootstrap, "consume", topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_a_broker_that_stops_ends_what_waits_for_it(start_broker: StartBroker, topic: str) -> None:
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
    assert b"1 of 2 records were not written" in err


def test_a_consumer_ends_when_its_reader_has_seen_enough_also_while_it_waits(
    run: Run, bootstrap: str, topic: str
) -> None:
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
def test_output_that_nobody_reads_is_no_traceback(
    run: Run, bootstrap: str, topic: str, arguments: list[str]
) -> None:
    run("topics", "create", topic)
    with start(bootstrap, *arguments) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_description_of_a_topic_has_offsets_and_sizes(run: Run, topic: str) -> None:
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


def test_a_description_without_settings_says_so(run: Run) -> None:
    done = run("configs", "describe", "--all-brokers")
    assert done.out == ""
    assert done.complaint == "odradek: the cluster has no settings of its own; --all shows the defaults"
    assert run("configs", "describe", "--all-brokers", "--json").json == []


def test_a_group_without_members_says_so(run: Run, topic: str) -> None:
    group = f"group-of-{topic}"
    run("topics", "create", topic, "-p", "1")
    run("groups", "reset-offsets", group, "-t", topic, "--to-latest", "--execute")
    assert run("groups", "describe", group).complaint == f"odradek: group {group} has no active members"
    assert run("groups", "describe", group, "--members").out == ""


def test_the_status_of_a_cluster_is_told(run: Run, bootstrap: str, topic: str) -> None:
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
    assert [line.split()[0] for line in shown[:3]] == ["bootstrap", "cluster", "speaks"]


def test_brokers_are_listed_with_what_they_hold(run: Run, bootstrap: str, topic: str) -> None:
    run("topics", "create", topic, "-p", "3")
    (broker,) = run("brokers", "--json").json
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert broker["leaders"] >= 3
    assert broker["replicas"] >= broker["leaders"]
    assert broker["size_bytes"] >= 0
    assert len(run("brokers").lines) == 2


def test_commands_that_change_something_tell_programs_what(run: Run, topic: str) -> None:
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


def test_records_are_printed_as_json(run: Run, topic: str) -> None:
    run("topics", "create", topic, "-p", "1")
    run("produce", topic, stdin=b"one\n")
    assert run("consume", topic, "-e", "--from-beginning", "--json").json["value"] == "one"
    run("consume", topic, "-e", "--json", "--format", "raw", status=2)


def test_shells_complete_commands(bootstrap: str) -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", f"{PROGRAM} --show-completion; true"],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert "complete" in done.stdout, done.stderr
    asked = {"_ODRADEK_COMPLETE": "complete_bash", "COMP_WORDS": "odradek top", "COMP_CWORD": "1"}
    done = subprocess.run(
        [PROGRAM], env=os.environ | asked, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.stdout.split() == ["topics"]
