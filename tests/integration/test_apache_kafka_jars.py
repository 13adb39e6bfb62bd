"""Concurrent test workers that fetch Apache Kafka's jars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JARS = 60
WORKER = """
import os
from pathlib import Path
from tests.support.apache_kafka import fetched_jars

with Path(os.environ["WORKERS_LOG"]).open("a") as log:
    log.write("started\\n")
print(fetched_jars("9.9.9"))
"""
MAVEN = f"""#!/bin/sh
for argument; do case "$argument" in -DoutputDirectory=*) into="${{argument#-DoutputDirectory=}}";; esac; done
echo fetched >> "$MAVEN_LOG"
while [ "$(wc -l < "$WORKERS_LOG")" -lt "$WORKERS" ]; do sleep 0.02; done
sleep 0.5
mkdir "$into" || exit 1
for number in $(seq {JARS}); do : > "$into/$number.jar"; done
"""


@pytest.fixture
def maven_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake Maven that is slow enough for all workers to run concurrently; return its log."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mvn").write_text(MAVEN)
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("MAVEN_LOG", str(tmp_path / "maven.log"))
    monkeypatch.setenv("WORKERS_LOG", str(tmp_path / "workers.log"))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "maven.log"


def fetch_together(count: int, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Start workers concurrently; return the directories they got."""
    monkeypatch.setenv("WORKERS", str(count))
    command = [sys.executable, "-c", WORKER]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * count
    return [Path(each.strip()) for each in outputs]


def test_concurrent_workers_fetch_once(maven_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = fetch_together(2, monkeypatch)
    assert maven_log.read_text() == "fetched\n"
    assert [len(list(directory.glob("*.jar"))) for directory in directories] == [JARS, JARS]


def test_interrupted_fetch_is_repeated(
    maven_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = tmp_path / "cache" / "kafka-node-9.9.9" / "jars"
    leftover.mkdir(parents=True)
    (leftover / "1.jar").touch()
    (directory,) = fetch_together(1, monkeypatch)
    assert len(list(directory.glob("*.jar"))) == JARS
    assert maven_log.read_text() == "fetched\n"
