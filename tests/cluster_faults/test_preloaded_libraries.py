"""Libraries that let calls of a process fail and step its clock: they do what faults rely on, and no more."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster_faults.harness import clock_faults, disks
from tests.cluster_faults.harness.disks import Call, FailingCalls, compile_library, why_no_preload

HOUR = 3600
WRITES = """
import os, sys
log = os.open("broken/0.log", os.O_CREAT | os.O_RDWR)
index = os.open("broken/0.index", os.O_CREAT | os.O_RDWR)
other = os.open("other/0.log", os.O_CREAT | os.O_RDWR)
def write(file):
    return os.write(file, b"12345678")
def writev(file):
    return os.writev(file, [b"1234", b"5678"])
def writev_one(file):
    return os.writev(file, [b"12345678"])
def pwritev(file):
    return os.pwritev(file, [b"1234", b"5678"], 0)
def pwrite(file):
    return os.pwrite(file, b"12345678", 0)
def sync(file):
    return os.fsync(file)
def datasync(file):
    return os.fdatasync(file)
for call in (write, writev, writev_one, pwrite, pwritev, sync, datasync):
    for name, file in (("log", log), ("index", index), ("other", other)):
        try:
            result = call(file)
        except OSError as error:
            result = f"E{error.errno}"
        print(call.__name__, name, result)
"""
CALLS = ("write", "writev", "writev_one", "pwrite", "pwritev", "sync", "datasync")


@pytest.fixture(autouse=True)
def compiler() -> None:
    if reason := why_no_preload():
        pytest.skip(reason)


def run(directory: Path, source: Path, variable: str, file: Path, program: str) -> str:
    environment = {
        **os.environ,
        "LD_PRELOAD": str(compile_library(source, directory)),
        variable: str(file),
    }
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=True
    ).stdout


def run_writes(directory: Path, *order: object, times: int = -1) -> tuple[dict[tuple[str, str], str], int]:
    """Return the results of calls by name and file, and how many failed."""
    for name in ("broken", "other"):
        (directory / name).mkdir()
    calls = FailingCalls(directory / "calls")
    call, error, suffix = order
    with calls.failing(call, error, f"{directory}/broken/", suffix, times):  # type: ignore[arg-type]
        text = run(directory, disks.SOURCE, disks.VARIABLE, directory / "calls", WRITES)
    results = {}
    for line in text.splitlines():
        name, file, result = line.split()
        results[name, file] = result
    return results, calls.hits


def test_writes_to_some_files_fail(tmp_path: Path) -> None:
    results, hits = run_writes(tmp_path, Call.WRITE, errno.EIO, ".log")
    for name in CALLS[:5]:
        assert [results[name, file] for file in ("log", "index", "other")] == ["E5", "8", "8"]
    assert results["sync", "log"] == results["datasync", "log"] == "None"
    assert hits == 5


def test_syncs_fail(tmp_path: Path) -> None:
    results, hits = run_writes(tmp_path, Call.SYNC, errno.EIO, "")
    for name in CALLS[5:]:
        assert [results[name, file] for file in ("log", "index", "other")] == ["E5", "E5", "None"]
    assert results["write", "log"] == "8"
    assert hits == 4


def test_writes_end_early_so_many_times(tmp_path: Path) -> None:
    results, hits = run_writes(tmp_path, Call.WRITE, 0, ".log", times=4)
    assert [results[name, "log"] for name in CALLS[:5]] == ["4", "4", "4", "4", "8"]
    assert {results[name, "index"] for name in CALLS[:5]} == {"8"}
    assert hits == 4


def test_wall_clock_is_stepped_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    program = "import time; print(time.time(), time.time_ns() / 1e9, time.monotonic(), time.perf_counter())"
    times = []
    for seconds in (0, -HOUR, HOUR):
        file.write_bytes(struct.pack("=q", seconds * 1_000_000_000))
        text = run(tmp_path, clock_faults.SOURCE, clock_faults.VARIABLE, file, program)
        times.append([float(word) for word in text.split()])
    steps = [[after - before for before, after in zip(times[0], later, strict=True)] for later in times[1:]]
    for seconds, step in zip((-HOUR, HOUR), steps, strict=True):
        assert step == [
            pytest.approx(seconds, abs=60),
            pytest.approx(seconds, abs=60),
            pytest.approx(0, abs=60),
            pytest.approx(0, abs=60),
        ]
