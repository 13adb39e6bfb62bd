"""``odradek serve``: output, rejected options, exit."""

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

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="output and exit status are specific to odradek")

PROGRAM = str(Path(sys.executable).with_name("odradek"))
SECONDS_MAX = 30


@contextmanager
def serving(*options: str, cwd: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a broker; yield it with the lines printed until it listens. Stopped by SIGTERM."""
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


def startup_errors(*options: str, cwd: Path) -> list[str]:
    """Return the stderr of a broker that fails to start."""
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
    match = re.search(r"listening on (\S+)", "\n".join(lines))
    assert match is not None, lines
    return match[1]


def test_ephemeral_broker_uses_a_free_port_and_removes_its_data(tmp_path: Path) -> None:
    with serving("--ephemeral", cwd=tmp_path) as (process, lines):
        address = address_in(lines)
        assert broker_answers(address)
        assert not address.endswith(":9092")
        (data,) = tmp_path.iterdir()
        assert f"data in {data}, removed when the broker stops" in lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    assert list(tmp_path.iterdir()) == []


def test_sighup_stops_cleanly(tmp_path: Path) -> None:
    with serving("--ephemeral", cwd=tmp_path) as (process, _):
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS_MAX) == 0
    assert list(tmp_path.iterdir()) == []


def test_host_port_and_data_dir_options(tmp_path: Path) -> None:
    port = free_port()
    options = ("--host", "localhost", "--port", str(port), "--data-dir", "kept")
    with serving(*options, cwd=tmp_path) as (_, lines):
        assert address_in(lines) == f"localhost:{port}"
        assert f"data in {tmp_path}/kept" in lines
        assert broker_answers(f"127.0.0.1:{port}")
    assert (tmp_path / "kept" / "meta.properties").exists()


def test_commands_of_the_startup_hint_work(tmp_path: Path) -> None:
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


def test_cli_environment_variables_are_not_unknown_settings(tmp_path: Path) -> None:
    variables = {"ODRADEK_BOOTSTRAP": "127.0.0.1:1", "ODRADEK_LOG_LEVEL": "info"}
    with serving("--ephemeral", cwd=tmp_path, **variables) as (process, lines):
        assert not [line for line in lines if "warning" in line]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
        assert " INFO " in err, "the variable sets the log level"


@pytest.mark.parametrize("mode", ["reader-gone", "never-open"])
def test_closed_stdout_does_not_prevent_a_clean_shutdown(tmp_path: Path, mode: str) -> None:
    port = free_port()
    closing = " >&-" if mode == "never-open" else ""
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


def test_unusable_data_directory_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    (line,) = startup_errors("--port", "0", "--data-dir", "taken", cwd=tmp_path)
    assert line.startswith(f"odradek: {tmp_path}/taken cannot be used as a data directory: File exists")


def test_unusable_directory_of_two_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    with serving("--port", "0", "--set", "log.dirs=good,taken", cwd=tmp_path) as (process, lines):
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS_MAX)
    reported = [line for line in (*lines, *err.splitlines()) if "cannot be used" in line]
    assert reported == [
        f"warning: {tmp_path}/taken cannot be used as a data directory: File exists; serving without it"
    ]


def test_check_config_writes_nothing(tmp_path: Path) -> None:
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
    errors = startup_errors("--check-config", "--host", "0.0.0.0", "--data-dir", "file/data", cwd=tmp_path)
    assert [line for line in errors if "odradek.allow.anonymous=true" in line]
    assert [line for line in errors if "advertised.listeners=PLAINTEXT://HOST:9092" in line]
    errors = startup_errors("--check-config", "--data-dir", "file/data", cwd=tmp_path)
    assert errors == [
        f"odradek: log.dirs: {tmp_path}/file/data cannot be created: {tmp_path}/file is not a directory"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("inter.broker.protocol.version=2.7", "inter.broker.protocol.version: must be between 2.8-IV0 and "),
        ("zookeeper.set.acl=true", "zookeeper.set.acl: requires an authenticated session"),
        ("replica.selector.class=com.example.Nearest", "replica.selector.class must be "),
    ],
)
def test_check_config_rejects_what_a_start_would_reject(tmp_path: Path, setting: str, problem: str) -> None:
    zookeeper = ("--set", "zookeeper.connect=127.0.0.1:2181/kafka")
    (error,) = startup_errors("--check-config", *zookeeper, "--set", setting, cwd=tmp_path)
    assert error.startswith(f"odradek: {problem}")
    assert list(tmp_path.iterdir()) == []


def test_info_log_has_all_important_events_and_is_short(tmp_path: Path) -> None:
    options = ("--ephemeral", "--log-level", "info", "--log-format", "json")
    with serving(*options, cwd=tmp_path) as (process, lines):
        environment = {**os.environ, "ODRADEK_BOOTSTRAP": address_in(lines)}

        def run(*arguments: str) -> None:
            subprocess.run(
                [PROGRAM, *arguments],
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
    names = [event["event"] for event in logged]
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
    changed = [
        event["leading"] for event in logged if event["event"] == "controller_channel.leadership_changed"
    ]
    assert changed == [3, 50], "one line per topic, for any number of partitions"
    started = [event for event in logged if event["event"] == "coordinators.rebalance_started"]
    assert [event["group"] for event in started] == ["readers"] * len(started)
    assert "joined" in started[0]["reason"]
    assert "left" in started[-1]["reason"]
    assert all(event["time"].endswith("Z") for event in logged)
