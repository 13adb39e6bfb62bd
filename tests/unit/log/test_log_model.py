"""Any sequence of what can happen to a log leaves what a simple model says.

The model is ``tests/faults/log_model/modelled_log.py``; ``make faults`` plays it at length. A sequence that
once failed is here under the name of what it showed.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.log_model.modelled_log import KINDS, NUMBER_MAX, Step, play

NUMBERS = st.integers(0, NUMBER_MAX)
STEPS = st.lists(st.builds(Step, st.sampled_from(KINDS), NUMBERS, NUMBERS, NUMBERS), max_size=60)
CRASHES = range(40)
"""Seeds of what a loss of power leaves. Not each of them hits, some do."""


@settings(max_examples=4 * settings.default.max_examples)
@given(STEPS)
def test_a_log_is_what_its_model_is_whatever_happens(steps: list[Step]) -> None:
    play(steps)


def test_what_is_flushed_after_a_kill_survives_a_loss_of_power() -> None:
    """The killed process had begun a segment, and nobody knew that its name was not on the disk."""
    begun = [Step("produce"), Step("flush"), Step("roll"), Step("produce", 0, 1), Step("kill"), Step("flush")]
    for seed in CRASHES:
        play([*begun, Step("power", seed)])


def test_a_segment_that_ends_where_the_log_is_flushed_can_be_searched_by_time_after_a_loss_of_power() -> None:
    """Its batches were on the disk before it ended, its indexes were not."""
    written = [Step("append", 3, 3), Step("append", 3, 3, 4), Step("flush")]
    for seed in CRASHES:
        play([*written, Step("checkpoint", 3), Step("roll"), Step("power", seed)])
        play([*written, Step("roll"), Step("stop"), Step("power", seed)])


def test_a_cut_on_a_full_disk_is_made_or_is_the_end_of_the_log() -> None:
    """It was given up halfway, after the segments behind the cut had gone."""
    written = [Step("append", 3, 3), Step("append", 3, 3, 2), Step("roll"), Step("append", 3, 3)]
    for name in range(5):
        for batches in range(3):
            play([*written, Step("full", name), Step("truncate", batches), Step("append")])


def test_a_cut_does_not_come_undone_under_the_segment_that_follows_it() -> None:
    """A loss of power gave the older segment back what was cut, and two segments had the same offsets."""
    written = [Step("append", 3, 3), Step("append", 3, 1, 2), Step("flush"), Step("truncate", 0)]
    for seed in CRASHES:
        play([*written, Step("roll"), Step("append", 1, 1, 1), Step("power", seed)])


def test_a_log_that_began_anew_is_not_found_at_offset_0() -> None:
    """A loss of power took the only segment, because its name was not on the disk."""
    for seed in CRASHES:
        play([Step("append"), Step("restart_at", 7), Step("power", seed)])


@pytest.mark.parametrize("operations", range(25))
def test_a_cut_can_be_interrupted_before_any_change_of_a_file(operations: int) -> None:
    """The recovery point that was written before a cut stood above it, and what was appended then was not
    looked at after the next crash."""
    written = [Step("append", 3, 3), Step("roll"), Step("append", 3, 1, 2), Step("flush"), Step("checkpoint")]
    cut = [Step("end", operations, 0), Step("truncate", 1), Step("epoch"), Step("append", 1, 3), Step("roll")]
    for seed in range(4):
        play([*written, *cut, Step("kill"), Step("append", 4, 2), Step("power", seed)])


def test_a_topic_that_is_no_longer_compacted_keeps_what_stands_behind_its_holes() -> None:
    """A start after a kill took a hole below the recovery point for a loss, and dropped what followed."""
    written = [Step("append", 48, 130, 125), Step("append", 56, 53, 156), Step("compact", 2)]
    written += [Step("append", 198, 43, 47), Step("append", 158, 31, 83), Step("append", 120, 7, 72)]
    compacted = [*written, Step("policy", 2), Step("compact", 2)]
    for batches in range(5):
        cut = [Step("truncate", batches), Step("roll"), Step("append", 147, 128, 168), Step("policy", 0)]
        play([*compacted, *cut, Step("kill")])
