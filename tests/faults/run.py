"""Run the long forms: ``python -m tests.faults.run [--only kills,full] [--seed 7]``.

Exits with status 1 after a violation. The full disk needs root, to mount a tmpfs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.clients import restarts
from tests.faults.fault_report import FaultReport
from tests.faults.groups import broker_kills, chaos
from tests.faults.groups.member import COOPERATIVE
from tests.faults.log_model import runs
from tests.faults.spark import kills as spark_kills
from tests.faults.storage import (
    bit_flips,
    bit_flips_process,
    full_disk,
    io_errors,
    kill_points,
    kills,
    torn_tails,
)
from tests.faults.transactions import hung, ledger, steps

Form = Callable[[Path, int], Iterator[FaultReport]]


def _torn(directory: Path, seed: int) -> Iterator[FaultReport]:
    del seed
    for records in (1, 3, 20):
        yield torn_tails.play(directory / str(records), records)


def _flips(directory: Path, seed: int) -> Iterator[FaultReport]:
    yield bit_flips.play(None, seed, clean=True)
    yield bit_flips.play(None, seed, clean=False)
    yield bit_flips_process.play(directory, 60, seed)


def _kills(directory: Path, seed: int) -> Iterator[FaultReport]:
    yield kills.play(directory, 40, seed)


def _points(directory: Path, seed: int) -> Iterator[FaultReport]:
    points = kill_points.all_points(directory / "trace", seed, 2)
    yield kill_points.play(directory / "killed", points, seed, load_seconds=5)


def _model(directory: Path, seed: int) -> Iterator[FaultReport]:
    del directory
    yield runs.play(5_000, seed)


def _transactions(directory: Path, seed: int) -> Iterator[FaultReport]:
    yield ledger.play(directory / "ledger", 100_000, 20, seed)
    yield steps.play(directory / "steps", steps.all_steps(), 30, seed)
    yield hung.play(directory / "hung", 20, seed)


def _full(directory: Path, seed: int) -> Iterator[FaultReport]:
    del seed
    reason = full_disk.why_no_disk()
    if reason is None:
        yield full_disk.play(directory, 5)
    else:
        print(f"full disk: skipped, {reason}", flush=True)


def _errors(directory: Path, seed: int) -> Iterator[FaultReport]:
    del directory
    yield io_errors.play(2_000, seed)


def _groups(directory: Path, seed: int) -> Iterator[FaultReport]:
    for number, assignor in enumerate(("range", "roundrobin", COOPERATIVE)):
        yield chaos.play(directory / assignor, 90, seed + number, assignor, kills_broker=number > 0)
    yield broker_kills.play(directory / "kills", 25, seed)


def _clients(directory: Path, seed: int) -> Iterator[FaultReport]:
    for number in range(4):
        yield restarts.play(directory / str(number), 25, seed + number)


def _spark(directory: Path, seed: int) -> Iterator[FaultReport]:
    yield spark_kills.play(directory, spark_kills.LONG_FORM, 4, seed)


FORMS: dict[str, Form] = {
    "torn": _torn,
    "flips": _flips,
    "kills": _kills,
    "points": _points,
    "groups": _groups,
    "transactions": _transactions,
    "clients": _clients,
    "full": _full,
    "errors": _errors,
    "model": _model,
    "spark": _spark,
}


def main() -> int:
    """Parse arguments, run the forms, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FORMS), help=f"of {', '.join(FORMS)}")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    violated = [name for name in chosen.only.split(",") if not _holds(name, chosen.seed)]
    return int(bool(violated))


def _holds(name: str, seed: int) -> bool:
    """Run one form; its directory is kept after a violation."""
    directory = tempfile.mkdtemp(prefix=f"odradek-faults-{name}-")
    violations = 0
    for report in FORMS[name](Path(directory), seed):
        print(report.text(), flush=True)
        violations += len(report.violations)
    if violations:
        print(f"kept: {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not violations


if __name__ == "__main__":
    sys.exit(main())
