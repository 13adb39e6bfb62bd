"""Leader epochs are written with the next flush: a crash before it changes no point of divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.leader_epoch_cache import LeaderEpochCache

NEXT_EPOCH = 9


def epochs_of_batches(log: Any) -> LeaderEpochCache:
    epochs = LeaderEpochCache()
    for segment in log.segments:
        for header in segment.headers():
            epochs.assign(header.leader_epoch, header.base_offset)
    return epochs


@pytest.mark.parametrize("power_is_lost", [False, True])
@pytest.mark.parametrize("flushes", [0, 1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_unwritten_epochs_are_those_of_the_batches_that_survive(
    harness: Any, new_entropy: Callable[[int], Any], seed: int, flushes: int, power_is_lost: bool
) -> None:
    """Kafka writes the file when a leadership begins. Then a crash keeps its epoch, but nothing needs it:
    an epoch without batches is replaced by the next one, which starts at the same offset."""
    config = {"segment_bytes": 400}
    log = harness.create(**config)
    harness.run(log.flush())
    for leadership in range(3):
        log.assign_leader_epoch(2 * leadership)
        for _ in range(4):
            harness.append(log, 2, leader_epoch=2 * leadership)
        if leadership < flushes:
            harness.run(log.flush())
    point = log.recovery_point
    log.assign_leader_epoch(7)  # a leadership without a record
    if power_is_lost:
        harness.files.crash(new_entropy(seed))
    again = harness.open(config, had_clean_shutdown=False, recovery_point=point)
    assert again.epochs.entries == epochs_of_batches(again).entries
    assert again.log_end_offset >= point
    expected = epochs_of_batches(again)
    expected.assign(NEXT_EPOCH, again.log_end_offset)
    again.assign_leader_epoch(NEXT_EPOCH)
    assert again.epochs.entries == expected.entries


@pytest.mark.parametrize("written", [False, True])
def test_epoch_without_batches_makes_no_difference_to_followers(harness: Any, written: bool) -> None:
    """The next leadership gives the same responses, whether the epoch was written before the crash or not."""
    log = harness.create()
    harness.append(log, 10, leader_epoch=3)
    harness.run(log.flush())
    log.assign_leader_epoch(5)
    if written:
        log._flusher.write_epochs(log.epochs.entries)
    again = harness.open(had_clean_shutdown=False, recovery_point=10)
    again.assign_leader_epoch(NEXT_EPOCH)
    ends = [tuple(again.end_offset_for_epoch(epoch)) for epoch in (3, 4, 5, 6, NEXT_EPOCH)]
    assert ends == [(3, 10)] * 4 + [(NEXT_EPOCH, 10)]
