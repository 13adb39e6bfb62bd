"""Model test: a log matches a simple model after any sequence of operations.

The model is ``tests/faults/log_model/modelled_log.py``; ``make broker-faults`` runs it at length. Sequences
that once failed are regression tests here.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.log_model.modelled_log import KINDS, NUMBER_MAX, Step, play

NUMBERS = st.integers(0, NUMBER_MAX)
STEP = st.builds(Step, st.sampled_from(KINDS), NUMBERS, NUMBERS, NUMBERS)
STEPS = st.one_of(st.lists(STEP, max_size=60), st.lists(STEP, min_size=10, max_size=60))
"""Short runs and long ones: without a minimum size, a list has six steps on average."""
CRASHES = range(40)
"""Seeds of power losses; only some of them hit the bug."""


@settings(max_examples=2 * settings().max_examples)
@given(STEPS)
def test_log_matches_its_model(steps: list[Step]) -> None:
    play(steps)


def test_records_flushed_after_a_kill_survive_a_power_loss() -> None:
    """The killed process had created a segment whose name was not synced."""
    steps_before = [
        Step("produce"),
        Step("flush"),
        Step("roll"),
        Step("produce", 0, 1),
        Step("kill"),
        Step("flush"),
    ]
    for seed in CRASHES:
        play([*steps_before, Step("power", seed)])


def test_indexes_of_a_segment_that_ends_at_the_recovery_point_survive_a_power_loss() -> None:
    """Its batches were synced before the roll, its indexes were not."""
    written = [Step("append", 3, 3), Step("append", 3, 3, 4), Step("flush")]
    for seed in CRASHES:
        play([*written, Step("checkpoint", 3), Step("roll"), Step("power", seed)])
        play([*written, Step("roll"), Step("stop"), Step("power", seed)])


def test_indexes_of_a_segment_that_ends_before_a_hole_survive_a_power_loss() -> None:
    """The recovery point was the log end offset, in the hole, and the next segment started before it."""
    written = [Step("append", 3, 3, 4), Step("append", 3, 3), Step("append", 3, 3, 6)]
    cut = [Step("truncate", 0, 1, 2), Step("flush"), Step("roll"), Step("checkpoint")]
    for seed in CRASHES:
        play([*written, *cut, Step("power", seed)])


def test_log_start_offset_in_a_hole_stays() -> None:
    """The batch that filled the hole was taken for the first one of an empty log."""
    play([Step("append", 3, 3), Step("truncate", 0, 1, 2), Step("advance", 2), Step("append", 4, 3)])


def test_truncation_on_a_full_disk_succeeds_or_fails_the_log() -> None:
    """It was aborted halfway, after later segments had been deleted."""
    written = [Step("append", 3, 3), Step("append", 3, 3, 2), Step("roll"), Step("append", 3, 3)]
    for name in range(5):
        for batches in range(3):
            play([*written, Step("full", name), Step("truncate", batches), Step("append")])


def test_truncation_is_durable_before_the_next_segment() -> None:
    """A power loss undid the truncation, and two segments contained the same offsets."""
    written = [Step("append", 3, 3), Step("append", 3, 1, 2), Step("flush"), Step("truncate", 0)]
    for seed in CRASHES:
        play([*written, Step("roll"), Step("append", 1, 1, 1), Step("power", seed)])


def test_full_truncation_is_durable() -> None:
    """A power loss removed the only segment, because its name was not synced."""
    for seed in CRASHES:
        play([Step("append"), Step("restart_at", 7), Step("power", seed)])


@pytest.mark.parametrize("operations", range(25))
def test_truncation_can_be_interrupted_before_any_file_operation(operations: int) -> None:
    """The recovery point written before was above the truncation; later appends were not scanned."""
    written = [Step("append", 3, 3), Step("roll"), Step("append", 3, 1, 2), Step("flush"), Step("checkpoint")]
    truncation = [
        Step("end", operations, 0),
        Step("truncate", 1),
        Step("epoch"),
        Step("append", 1, 3),
        Step("roll"),
    ]
    for seed in range(4):
        play([*written, *truncation, Step("kill"), Step("append", 4, 2), Step("power", seed)])


def test_topic_that_is_no_longer_compacted_keeps_records_after_gaps() -> None:
    """Recovery took a gap below the recovery point for data loss and removed the records after it."""
    written = [Step("append", 48, 130, 125), Step("append", 56, 53, 156), Step("compact", 2)]
    written += [Step("append", 198, 43, 47), Step("append", 158, 31, 83), Step("append", 120, 7, 72)]
    compacted = [*written, Step("policy", 2), Step("compact", 2)]
    for batches in range(5):
        truncation = [
            Step("truncate", batches),
            Step("roll"),
            Step("append", 147, 128, 168),
            Step("policy", 0),
        ]
        play([*compacted, *truncation, Step("kill")])


def test_start_fails_the_directory_if_a_recovery_point_cannot_be_lowered() -> None:
    """The OSError was no StorageError, and ended the start of the broker."""
    play([Step("append", 0, 1), Step("flush"), Step("truncate", 0, 0, 1), Step("broken", 4), Step("full", 3)])
