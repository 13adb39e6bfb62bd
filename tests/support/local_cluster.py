"""A local cluster, by the commands of ``odradek cluster``.

Commands run in this process: a test runs dozens, and importing the command line takes longer than most.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from odradek import commands
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

    def run(self, name: str, *arguments: str, status: int | None = 0) -> str:
        """Run a command of ``odradek cluster``; return what it prints, or its error."""
        return run_command(self.arguments(name, *arguments), status=status)

    def tool(self, *arguments: str, stdin: str = "") -> str:
        """Run another command against the cluster."""
        # A paused broker accepts connections and never responds.
        brokers = [broker for broker in self.status()["brokers"] if broker["state"] == "running"]
        bootstrap = ",".join(broker["address"] for broker in brokers)
        return run_command(["-b", bootstrap, *arguments], stdin=stdin)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.run("status", "--json"))
        return status

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until something holds of the status; return the status."""
        deadline = time.monotonic() + SECONDS_MAX
        while not holds(status := self.status()):
            assert time.monotonic() < deadline, status
        return status


def run_command(arguments: list[str], *, stdin: str = "", status: int | None = 0) -> str:
    result = CliRunner().invoke(commands.app, arguments, input=stdin)
    assert status is None or result.exit_code == status, (arguments, result.output, result.exception)
    return result.stdout if result.exit_code == 0 else result.stderr
