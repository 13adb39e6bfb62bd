"""The local ZooKeeper server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from odradek.system.local_zookeeper import (
    LOG_NAME,
    LocalZooKeeper,
    ServerFailed,
    free_port,
    registered_brokers,
)

SECONDS_MAX = 60

# Starts a server, says its process id and port, and waits to be killed.
PARENT = """
import os, sys, time
from pathlib import Path
from odradek.system.local_zookeeper import LocalZooKeeper
server = LocalZooKeeper(Path(sys.argv[1]), os.environ)
print(server.process_id, server.port, flush=True)
time.sleep(600)
"""


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_server_keeps_its_data_and_stops_by_its_process_id(tmp_path: Path) -> None:
    for expected in (None, b"kept"):
        with LocalZooKeeper(tmp_path, os.environ) as server:
            client = KazooClient(server.connect_string)
            client.start()
            if expected is None:
                client.create("/a", b"kept")
            assert client.get("/a")[0] == b"kept"
            client.stop()
            client.close()
        assert not is_running(server.process_id)
        server.stop()
    assert (tmp_path / LOG_NAME).exists()


def test_registered_brokers_are_those_with_a_session(tmp_path: Path) -> None:
    with LocalZooKeeper(tmp_path, os.environ) as server:
        assert registered_brokers(server.port) == frozenset()
        client = KazooClient(server.connect_string)
        client.start()
        for number in (7, 12):
            client.create(f"/brokers/ids/{number}", ephemeral=True, makepath=True)
        assert registered_brokers(server.port) == {7, 12}
        client.stop()
        client.close()
        assert registered_brokers(server.port) == frozenset()
    assert registered_brokers(server.port) == frozenset()


def test_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        process_id, _ = map(int, parent.stdout.readline().split())
        assert is_running(process_id)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + SECONDS_MAX
    while is_running(process_id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(process_id)


def test_server_that_cannot_start_is_reported_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=rf"ended at its start; see .*{LOG_NAME}: .*Invalid config"):
        LocalZooKeeper(tmp_path, os.environ, properties={"tickTime": "none"})


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    port = free_port()
    with (
        LocalZooKeeper(tmp_path / "first", os.environ, port=port),
        pytest.raises(ServerFailed, match=f"127.0.0.1:{port} ended at its start.*BindException"),
    ):
        LocalZooKeeper(tmp_path / "second", os.environ, port=port)
