"""``odradek serve`` as a person meets it: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.broker import IS_FOREIGN, free_port
from tests.support.raw_connection import broker_answers

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the words and the status are ours")

PROGRAM = str(Path(sys.executable).with_name("odradek"))
SECONDS_MAX = 30


@contextmanager
def serving(*options: str, cwd: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A broker and the lines it printed by the time it listened; ended by SIGTERM unless the test did it."""
    process = subprocess.Popen(
        [PROGRAM, "serve", *options],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(cwd), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if "Ctrl-C" in line:
                break
        yield process, lines
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)


def refused(*options: str, cwd: Path) -> list[str]:
    """Stderr of a broker that does not start."""
    done = subprocess.run(
        [PROGRAM, "serve", *options],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()


def address_in(lines: list[str]) -> str:
    found = re.search(r"listening on (\S+)", "\n".join(lines))
    assert found is not None, lines
    return found[1]


def test_an_ephemeral_broker_takes_a_free_port_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving("--ephemeral", cwd=tmp_path) as (process, lines):
        address = address_in(lines)
        assert broker_answers(address)
        assert not address.endswith(":9092")
        (data,) = tmp_path.iterdir()
        assert f"data in {data}, removed when the broker stops" in lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    assert list(tmp_path.iterdir()) == []


def test_closing_the_terminal_stops_cleanly_too(tmp_path: Path) -> None:
    with serving("--ephemeral", cwd=tmp_path) as (process, _):
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS_MAX) == 0
    assert list(tmp_path.iterdir()) == []


def test_port_host_and_data_directory_have_options_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    options = ("--host", "localhost", "--port", str(port), "--data-dir", "kept")
    with serving(*options, cwd=tmp_path) as (_, lines):
        assert address_in(lines) == f"localhost:{port}"
        assert f"data in {tmp_path}/kept" in lines
        assert broker_answers(f"127.0.0.1:{port}")
    assert (tmp_path / "kept" / "meta.properties").exists()


def test_the_commands_of_the_hint_work_as_printed(tmp_path: Path) -> None:
    with serving("--ephemeral", cwd=tmp_path) as (_, lines):
        hint = "\n".join(lines).partition("try:")[2].splitlines()
        commands = [line.strip() for line in hint if "odradek " in line]
        assert len(commands) == 2
        environment = {**os.environ, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"}
        produced = subprocess.run(commands[0], shell=True, env=environment, timeout=SECONDS_MAX, check=False)
        assert produced.returncode == 0
        with subprocess.Popen(
            commands[1].split(), env=environment, stdout=subprocess.PIPE, text=True
        ) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "hello\n"
            consumer.send_signal(signal.SIGINT)


def test_variables_of_the_command_line_are_no_unknown_settings(tmp_path: Path) -> None:
    known = {"ODRADEK_BOOTSTRAP": "127.0.0.1:1", "ODRADEK_LOG_LEVEL": "info"}
    with serving("--ephemeral", cwd=tmp_path, **known) as (process, lines):
        assert not [line for line in lines if "warning" in line]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
        assert " INFO " in err, "the variable sets the level"


@pytest.mark.parametrize("how", ["reader-gone", "never-open"])
def test_a_closed_stdout_does_not_spoil_a_clean_stop(tmp_path: Path, how: str) -> None:
    port = free_port()
    closing = " >&-" if how == "never-open" else ""
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$0" serve --ephemeral --port {port}{closing}', PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    while not broker_answers(f"127.0.0.1:{port}"):
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGTERM)
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(SECONDS_MAX), err) == (0, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_cannot_be_used_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    (told,) = refused("--port", "0", "--data-dir", "taken", cwd=tmp_path)
    assert told.startswith(f"odradek: {tmp_path}/taken cannot be used as a data directory: File exists")


def test_one_unusable_directory_of_two_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    with serving("--port", "0", "--set", "log.dirs=good,taken", cwd=tmp_path) as (process, lines):
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
    told = [line for line in (*lines, *err.splitlines()) if "cannot be used" in line]
    assert told == [
        f"warning: {tmp_path}/taken cannot be used as a data directory: File exists; serving without it"
    ]


def test_a_configuration_is_checked_without_a_trace(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "serve", "--check-config", "--set", "num.partition=3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "warning: num.partition: unknown setting; did you mean num.partitions?",
        "listeners PLAINTEXT://127.0.0.1:9092",
        f"data in {tmp_path}/odradek-data",
        "the configuration is valid",
    ]
    (tmp_path / "file").write_text("")
    told = refused("--check-config", "--host", "0.0.0.0", "--data-dir", "file/data", cwd=tmp_path)
    assert [line for line in told if "odradek.allow.anonymous=true" in line]
    assert [line for line in told if "advertised.listeners=PLAINTEXT://HOST:9092" in line]
    told = refused("--check-config", "--data-dir", "file/data", cwd=tmp_path)
    assert told == [
        f"odradek: log.dirs: {tmp_path}/file/data cannot be made: {tmp_path}/file is not a directory"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_log_of_a_day_is_short_and_has_a_line_for_all_that_matters(tmp_path: Path) -> None:
    options = ("--ephemeral", "--log-level", "info", "--log-format", "json")
    with serving(*options, cwd=tmp_path) as (process, lines):
        environment = {**os.environ, "ODRADEK_BOOTSTRAP": address_in(lines)}

        def run(*words: str) -> None:
            subprocess.run(
                [PROGRAM, *words],
                input=b"hello\n",
                env=environment,
                check=True,
                capture_output=True,
                timeout=SECONDS_MAX,
            )

        run("topics", "create", "letters", "-p", "3")
        run("produce", "letters")
        run("consume", "letters", "-g", "readers", "--from-beginning", "-n", "1")
        run("topics", "delete", "letters")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
    logged = [json.loads(line) for line in err.splitlines()]
    names = [one["event"] for one in logged]
    expected = {
        "broker.logs_loaded",
        "broker.started",
        "topics.topic_created",
        "controller_channel.leadership_changed",
        "coordinators.rebalance_started",
        "coordinators.rebalance_completed",
        "controller.topic_deleted",
        "broker.stopping",
        "broker.stopped",
    }
    assert expected - set(names) == set()
    assert len(names) < 25, names
    changed = [one["leading"] for one in logged if one["event"] == "controller_channel.leadership_changed"]
    assert changed == [3, 50], "a line for a topic, however many partitions it has"
    started = [one for one in logged if one["event"] == "coordinators.rebalance_started"]
    assert [one["group"] for one in started] == ["readers"] * len(started)
    assert "joined" in started[0]["reason"]
    assert "left" in started[-1]["reason"]
    assert all(one["time"].endswith("Z") for one in logged)
