"""Storage faults, short forms with fixed seeds."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.faults.fault_report import FaultReport
from tests.faults.storage import (
    bit_flips,
    bit_flips_process,
    full_disk,
    io_errors,
    kill_points,
    kills,
    torn_tails,
)
from tests.faults.storage.specimen import SETTINGS, TOPIC, make_specimen

from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually

SEED = 1912


def check(report: FaultReport) -> None:
    """Print the report, and fail on a violation."""
    print(report.text())
    assert report.faults
    assert report.violations == []


def test_torn_batch_is_truncated_and_earlier_batches_are_kept(tmp_path: Path) -> None:
    check(torn_tails.play(tmp_path))


@pytest.mark.parametrize("clean", [True, False])
def test_flipped_bits_are_neither_served_nor_crash_the_broker(clean: bool) -> None:
    check(bit_flips.play(250, SEED, clean=clean))


def test_broker_process_with_damaged_file(tmp_path: Path) -> None:
    check(bit_flips_process.play(tmp_path, 4, SEED))


def test_acknowledged_records_survive_kills_under_load(tmp_path: Path) -> None:
    check(kills.play(tmp_path, 3, SEED))


def test_acknowledged_records_survive_kills_at_each_file_operation(
    tmp_path: Path,
) -> None:
    report = kill_points.play(tmp_path, list(kill_points.SHORT_FORM), SEED)
    check(report)
    assert report.faults == len(kill_points.SHORT_FORM)


@pytest.mark.skipif(full_disk.why_no_disk() is not None, reason=str(full_disk.why_no_disk()))
def test_full_disk_loses_nothing_and_recovers(tmp_path: Path) -> None:
    check(full_disk.play(tmp_path, 1))


def test_failing_disk_loses_nothing() -> None:
    check(io_errors.play(100, SEED))


def test_startup_logs_truncations_and_unreadable_checkpoints(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        cluster = MemoryCluster(SEED)
        specimen = await make_specimen(cluster, 4, clean=False)
        path = f"/data/{TOPIC}-0/{0:020d}.log"
        points = "/data/recovery-point-offset-checkpoint"
        specimen.on_files({path: specimen.files[path][:-1], points: b"7\n0\n"})
        await (await cluster.start(SETTINGS)).stop()
        await cluster.close()

    logging.getLogger("odradek").propagate = True
    with caplog.at_level(logging.WARNING, "odradek"):
        run_virtually(main)
    messages = [record.getMessage() for record in caplog.records if "producer_ids" not in record.getMessage()]
    summary = messages.pop(0)
    assert "unclean_stop_recovered" in summary
    assert "repaired=1" in summary
    assert len(messages) == 2
    assert "checkpoint_not_read" in messages[0]
    assert "recovery-point-offset-checkpoint: version must be 0, got" in messages[0]
    assert "log_truncated_on_recovery" in messages[1]
    assert "truncated_bytes=" in messages[1]
    assert "00000000000000000000.log at position" in messages[1]


def test_fault_report_counts_violations() -> None:
    report = FaultReport("nothing", SEED)
    report.check(True, "holds")
    report.check(False, "does not hold")
    assert report.violations == ["does not hold"]
    assert "1 violations" in report.text()
    assert "VIOLATION does not hold" in report.text()
