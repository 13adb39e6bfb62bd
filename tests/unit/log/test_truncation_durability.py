"""Truncation of a log: durable as one step, and safe with an old recovery point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.faults.storage.watched_files import WatchedFiles

from odradek.log.checkpoints import LEADER_EPOCH_CHECKPOINT
from odradek.log.leader_epoch_cache import parse_epochs

Batch = Callable[..., bytearray]
SEEDS = range(30)


class ProcessEnded(BaseException):
    """Raised to simulate a crash."""


def epochs_match_batches(log: Any) -> bool:
    headers = [header for segment in log.segments for header in segment.headers()]
    return all(log.epochs.epoch_of(header.base_offset) == header.leader_epoch for header in headers)


def checkpointed_epochs(harness: Any) -> Any:
    path = harness.path(LEADER_EPOCH_CHECKPOINT)
    return parse_epochs(harness.files.read_whole(path).decode(), path).entries


def diverged_log(harness: Any, **config: Any) -> Any:
    """Return a flushed log with epochs 0 and 1; epoch 1 starts at offset 40."""
    log = harness.create(**config)
    for number in range(15):
        harness.append(log, 4, leader_epoch=number // 10)
    harness.run(log.flush())
    return log


def test_epoch_checkpoint_is_written_before_the_truncation_returns(harness: Any) -> None:
    log = diverged_log(harness)
    assert checkpointed_epochs(harness) == ((0, 0), (1, 40))
    log.truncate_to(36, 0)
    assert checkpointed_epochs(harness) == ((0, 0),)
    log.assign_leader_epoch(2)
    harness.run(log.flush())
    log.truncate_to(36, 0)
    assert checkpointed_epochs(harness) == ((0, 0),)
    log.truncate_fully_and_start_at(50, 0)
    assert checkpointed_epochs(harness) == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_truncated_batches_do_not_return_after_a_power_loss(
    harness: Any, new_entropy: Callable[[int], Any], seed: int
) -> None:
    log = diverged_log(harness, segment_bytes=700)
    log.truncate_to(36, 0)
    harness.files.crash(new_entropy(seed))
    again = harness.open({"segment_bytes": 700}, had_clean_shutdown=False, recovery_point=60)
    assert again.log_end_offset == 36
    assert again.epochs.entries == ((0, 0),)


@pytest.mark.parametrize("power_is_lost", [False, True])
@pytest.mark.parametrize("segment_bytes", [250, 700, 1 << 20])
@pytest.mark.parametrize("seed", range(10))
def test_old_recovery_point_hides_nothing_that_was_appended_after_a_truncation(
    harness: Any, new_entropy: Callable[[int], Any], seed: int, segment_bytes: int, power_is_lost: bool
) -> None:
    """Recovery starts at the segment of the old recovery point, though the batches before are new."""
    config = {"segment_bytes": segment_bytes}
    log = diverged_log(harness, **config)
    log.truncate_to(36, 0)
    for number in range(12):
        harness.append(log, 1, leader_epoch=3 + number // 5, value=b"new")
    expected = harness.records(log)
    if power_is_lost:
        harness.files.crash(new_entropy(seed))
    again = harness.open(config, had_clean_shutdown=False, recovery_point=60)
    records = harness.records(again)
    assert records == expected[: len(records)]
    assert power_is_lost or len(records) == len(expected)
    assert again.log_end_offset == records[-1][0] + 1
    assert epochs_match_batches(again)


@pytest.mark.parametrize("operations", range(40))
@pytest.mark.parametrize("power_is_lost", [False, True])
def test_truncation_may_end_before_any_file_operation(
    harness: Any, new_entropy: Callable[[int], Any], operations: int, power_is_lost: bool
) -> None:
    memory, left = harness.files, [-1]

    def count(operation: str, path: str) -> None:
        del operation, path
        left[0] -= 1
        if left[0] == 0:
            left[0] = 1  # the process has ended: nothing more is done
            raise ProcessEnded

    harness.files = WatchedFiles(memory, count)
    config = {"segment_bytes": 400}
    log = diverged_log(harness, **config)
    old = harness.records(log)
    left[0] = operations + 1
    try:
        log.truncate_to(30, 0)
        for number in range(8):
            harness.append(log, 2, leader_epoch=4 + number // 3, value=b"new")
    except ProcessEnded:
        pass
    left[0] = -1
    if power_is_lost:
        memory.crash(new_entropy(operations))
    again = harness.open(config, had_clean_shutdown=False, recovery_point=60)
    records = harness.records(again)
    kept = [record for record in records if record[2] != b"new"]
    assert kept == old[: len(kept)]
    assert len(kept) == 28 or len(kept) == len(records)
    assert epochs_match_batches(again)


def test_flush_during_a_truncation_does_not_leave_removed_epochs(harness: Any) -> None:
    log = harness.create()
    for number in range(4):
        harness.append(log, 1, leader_epoch=number)
    original = harness.files.offload
    truncated: list[bool] = []

    def offload(work: Callable[[], Any]) -> Any:
        if not truncated:
            truncated.append(log.truncate_to(2, 0))
        return original(work)

    harness.files.offload = offload
    harness.run(log.flush())
    assert checkpointed_epochs(harness) == ((0, 0), (1, 1))


def test_failed_log_is_not_truncated(harness: Any) -> None:
    log = diverged_log(harness)
    harness.files.fail_next_sync(5, name_end=".log")
    with pytest.raises(Exception, match="cannot truncate"):
        log.truncate_to(36, 0)
    for truncate in (log.truncate_to, log.truncate_fully_and_start_at):
        with pytest.raises(Exception, match="cannot truncate"):
            truncate(20, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_epochs_of_new_batches_do_not_cover_truncated_ones(
    harness: Any, new_entropy: Callable[[int], Any], seed: int
) -> None:
    """A flush wrote the new epochs before the truncation was durable."""
    log = diverged_log(harness)
    log.truncate_to(36, 0)
    harness.append(log, 1, leader_epoch=5)
    harness.run(log.flush())
    log.truncate_to(36, 0)
    harness.append(log, 1, leader_epoch=7)
    harness.files.crash(new_entropy(seed))
    again = harness.open(had_clean_shutdown=False, recovery_point=60)
    assert epochs_match_batches(again)
    assert again.log_end_offset in (36, 37)
