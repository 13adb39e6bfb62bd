"""Short forms with fixed seeds: the long ones are ``python -m tests.faults.run``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults import bit_flips, flipped_process, full_disk, io_errors, kills, torn_tails
from tests.faults.tally import Tally

SEED = 1912


def check(tally: Tally) -> None:
    """Show the figures, and fail on a violation."""
    print(tally.report())
    assert tally.faults
    assert tally.violations == []


def test_a_batch_cut_at_any_byte_is_gone_and_all_before_it_is_there(tmp_path: Path) -> None:
    check(torn_tails.play(tmp_path))


@pytest.mark.parametrize("clean", [True, False])
def test_no_flipped_bit_is_served_or_breaks_the_broker(clean: bool) -> None:
    check(bit_flips.play(400, SEED, clean=clean))


def test_a_damaged_file_is_served_around_or_named_by_a_process(tmp_path: Path) -> None:
    check(flipped_process.play(tmp_path, 4, SEED))


def test_what_was_acknowledged_survives_kills_under_load(tmp_path: Path) -> None:
    check(kills.play(tmp_path, 3, SEED))


@pytest.mark.skipif(full_disk.why_no_disk() is not None, reason=str(full_disk.why_no_disk()))
def test_a_full_disk_refuses_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    check(full_disk.play(tmp_path, 1))


def test_a_failing_disk_refuses_and_loses_nothing() -> None:
    check(io_errors.play(150, SEED))


def test_the_tally_counts_what_must_not_happen() -> None:
    tally = Tally("nothing", SEED)
    tally.check(True, "holds")
    tally.check(False, "does not hold")
    assert tally.violations == ["does not hold"]
    assert "1 violations" in tally.report()
    assert "VIOLATION does not hold" in tally.report()
