"""Admission control: the end offsets of micro-batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek import TopicPartition
from odradek.spark.options.source_options import TriggerLimits
from odradek.spark.source.admission import bounded, lag, next_offsets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 3))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1)


@given(start=OFFSETS, grown=OFFSETS, offsets_max=st.none() | st.integers(1, 50))
def test_batches_advance_to_the_ends_within_the_limit(start, grown, offsets_max) -> None:
    ends = {partition: start.get(partition, 0) + count for partition, count in grown.items()}
    ends |= {partition: ends.get(partition, start[partition]) for partition in start}
    log_starts = {
        partition: ends[partition] // 2 for partition in ends if partition not in start
    } | dict.fromkeys(start, 0)
    position, batches = dict(start), 0
    while (batch_ends := next_offsets(position, ends, log_starts, {}, offsets_max)) != position:
        read = sum(batch_ends[partition] - position[partition] for partition in position)
        waiting = sum(ends[partition] > position[partition] for partition in position)
        # A share is at least one offset, as in Spark.
        assert offsets_max is None or read <= max(offsets_max, offsets_max + waiting)
        assert all(position[partition] <= batch_ends[partition] <= ends[partition] for partition in position)
        position, batches = batch_ends, batches + 1
        assert batches <= 20_000
    assert position == ends


def test_limit_is_shared_in_proportion_to_lag() -> None:
    start, ends = {A0: 0, A1: 100, B0: 7}, {A0: 900, A1: 200, B0: 7}
    assert next_offsets(start, ends, start, {}, 100) == {A0: 90, A1: 110, B0: 7}


def test_partition_with_small_lag_is_not_starved() -> None:
    start, ends = {A0: 0, A1: 0}, {A0: 1_000_000, A1: 2}
    assert next_offsets(start, ends, start, {}, 10)[A1] == 1


def test_new_partition_is_added_at_its_log_start() -> None:
    assert next_offsets({A0: 1}, {A0: 5, A1: 50}, {A0: 0, A1: 20}, {}, None) == {A0: 5, A1: 20}


def test_lost_partitions_are_reset_and_deleted_ones_removed() -> None:
    start, ends = {A0: 9, A1: 100, B0: 4}, {A0: 12, A1: 20}
    assert next_offsets(start, ends, {}, {A1: 3, B0: None}, None) == {A0: 12, A1: 3}


def test_available_now_run_does_not_read_beyond_its_target() -> None:
    assert bounded({A0: 10, A1: 3, B0: 5}, {A0: 7, A1: 9}) == {A0: 7, A1: 3}
    assert bounded({A0: 10}, None) == {A0: 10}


def test_query_started_beyond_the_target_does_not_move() -> None:
    assert next_offsets({A0: 12}, {A0: 7}, {A0: 0}, {}, None) == {A0: 12}


def test_lag_counts_known_existing_partitions() -> None:
    assert lag({A0: 5, A1: 9, B0: 1}, {A0: 8, A1: 7}) == 3


def test_small_batch_waits_up_to_max_trigger_delay() -> None:
    limits = TriggerLimits(offsets_min=100, delay_max_ms=1000)
    assert not limits.should_wait(1, None)
    assert limits.should_wait(99, 999)
    assert not limits.should_wait(100, 0)
    assert not limits.should_wait(1, 1000)
    assert not TriggerLimits().should_wait(0, 0)
