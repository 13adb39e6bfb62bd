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


def test_a_batch_cut_at_any_byte_is_gone_and_all_before_it_is_there(tmp_path: Path) -> None:
    check(torn_tails.play(tmp_path))


@pytest.mark.parametrize("clean", [True, False])
def test_no_flipped_bit_is_served_or_breaks_the_broker(clean: bool) -> None:
    check(bit_flips.play(250, SEED, clean=clean))


def test_a_damaged_file_is_served_around_or_named_by_a_process(tmp_path: Path) -> None:
    check(bit_flips_process.play(tmp_path, 4, SEED))


def test_what_was_acknowledged_survives_kills_under_load(tmp_path: Path) -> None:
    check(kills.play(tmp_path, 3, SEED))


def test_what_was_acknowledged_survives_a_kill_at_each_step_of_rolls_deletion_compaction_and_moves(
    tmp_path: Path,
) -> None:
    report = kill_points.play(tmp_path, list(kill_points.SHORT_FORM), SEED)
    check(report)
    assert report.faults == len(kill_points.SHORT_FORM)


@pytest.mark.skipif(full_disk.why_no_disk() is not None, reason=str(full_disk.why_no_disk()))
def test_a_full_disk_refuses_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    check(full_disk.play(tmp_path, 1))


def test_a_failing_disk_refuses_and_loses_nothing() -> None:
    check(io_errors.play(100, SEED))


def test_a_start_tells_what_it_cut_and_what_it_could_not_read(
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
    told = [record.getMessage() for record in caplog.records if "producer_ids" not in record.getMessage()]
    summary = told.pop(0)
    assert "unclean_stop_recovered" in summary
    assert "repaired=1" in summary
    assert len(told) == 2
    assert "checkpoint_not_read" in told[0]
    assert "recovery-point-offset-checkpoint has version" in told[0]
    assert "log_truncated_on_recovery" in told[1]
    assert "truncated_bytes=" in told[1]
    assert "00000000000000000000.log at position" in told[1]


def test_the_tally_counts_what_must_not_happen() -> None:
    report = FaultReport("nothing", SEED)
    report.check(True, "holds")
    report.check(False, "does not hold")
    assert report.violations == ["does not hold"]
    assert "1 violations" in report.text()
    assert "VIOLATION does not hold" in report.text()
