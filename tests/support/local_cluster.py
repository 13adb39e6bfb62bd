"""A local cluster, by the commands of ``odradek cluster``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from odradek.system.local_zookeeper import free_port
from odradek.system.loopback_ports import is_port_free

BROKERS_MAX = 5
SECONDS_MAX = 120


def free_ports(count: int) -> int:
    """Return the first of consecutive ports that were free a moment ago."""
    for _ in range(100):
        first = free_port()
        if all(is_port_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} consecutive free ports")


class LocalCluster:
    """The cluster of a directory; each method runs a command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_ports(BROKERS_MAX)

    def arguments(self, name: str, *arguments: str) -> list[str]:
        port = ["--port", str(self.port)] if name == "up" else []
        return ["cluster", name, *arguments, *port, "--directory", str(self.directory)]

    def run(
        self,
        name: str,
        *arguments: str,
        status: int | None = 0,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command of ``odradek cluster``; return its output, or what it prints as an error."""
        return execute(self.arguments(name, *arguments), status=status, variables=variables)

    def tool(self, *arguments: str, stdin: str = "", status: int = 0) -> str:
        """Run another command against the cluster."""
        variables = {"ODRADEK_BOOTSTRAP": f"127.0.0.1:{self.port},127.0.0.1:{self.port + 1}"}
        return execute(list(arguments), stdin=stdin, status=status, variables=variables)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.run("status", "--json"))
        return status

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until something holds of the status; return the status."""
        deadline = time.monotonic() + SECONDS_MAX
        while not holds(status := self.status()):
            assert time.monotonic() < deadline, status
        return status


def execute(
    arguments: list[str],
    *,
    stdin: str = "",
    status: int | None = 0,
    variables: Mapping[str, str] | None = None,
) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "odradek", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, **(variables or {})},
    )
    assert status is None or done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout if done.returncode == 0 else done.stderr
