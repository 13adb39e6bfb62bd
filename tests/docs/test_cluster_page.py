"""The commands of docs/cluster.md run in their order and print what is shown.

Numbers, ids, the controller and the order of members that stop together differ from run to run: they are left
out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.local_cluster import free_ports

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
COMMANDS = [
    (command, shown)
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    for command, shown in COMMAND.findall(block)
]
SECONDS_MAX = 120
BROKERS = 4


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    yield free_ports(BROKERS)
    if (tmp_path / "odradek-cluster").exists():
        execute("odradek cluster down", tmp_path, "")


def execute(command: str, directory: Path, bootstrap: str) -> str:
    program, *rest = command.split()
    if program == "odradek":
        program, rest = sys.executable, ["-m", "odradek", *rest]
    done = subprocess.run(
        [program, *rest],
        cwd=directory,
        env={**os.environ, "ODRADEK_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def shape(text: str) -> list[str]:
    """Return the lines without what differs from run to run, in order."""
    text = re.sub(r" -b 127\.0\.0\.1:\d+", "", text)
    text = re.sub(r"^cluster .*|(?<=data in ).*|[\w-]{22}$", "", text, flags=re.MULTILINE)
    text = re.sub(r"[0-9,.]+", "N", text.replace("*", ""))
    return sorted(" ".join(line.split()).replace("N N", "N") for line in text.splitlines())


def test_commands_print_what_is_shown(tmp_path: Path, port: int) -> None:
    assert len(COMMANDS) > 10
    for number, (command, shown) in enumerate(COMMANDS):
        option = f" --port {port}" if number == 0 else ""
        printed = execute(command + option, tmp_path, f"127.0.0.1:{port},127.0.0.1:{port + 1}")
        assert shape(printed) == shape(shown), command
