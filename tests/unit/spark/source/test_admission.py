"""How far a batch reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek import TopicPartition
from odradek.spark.options.admission import Pace, bounded, lag, next_offsets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 3))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1)


@given(start=OFFSETS, grown=OFFSETS, most=st.none() | st.integers(1, 50))
def test_batches_go_forward_until_all_is_read_and_keep_the_limit(start, grown, most) -> None:
    ends = {one: start.get(one, 0) + by for one, by in grown.items()}
    ends |= {one: ends.get(one, start[one]) for one in start}
    log_starts = {one: ends[one] // 2 for one in ends if one not in start} | dict.fromkeys(start, 0)
    stands, batches = dict(start), 0
    while (reached := next_offsets(stands, ends, log_starts, {}, most)) != stands:
        read = sum(reached[one] - stands[one] for one in stands)
        waiting = sum(ends[one] > stands[one] for one in stands)
        # A partition with a share below one still gets one offset, as in Spark.
        assert most is None or read <= max(most, most + waiting)
        assert all(stands[one] <= reached[one] <= ends[one] for one in stands)
        stands, batches = reached, batches + 1
        assert batches <= 20_000
    assert stands == ends


def test_the_limit_is_shared_by_lag() -> None:
    start, ends = {A0: 0, A1: 100, B0: 7}, {A0: 900, A1: 200, B0: 7}
    assert next_offsets(start, ends, start, {}, 100) == {A0: 90, A1: 110, B0: 7}


def test_a_short_partition_is_not_starved() -> None:
    start, ends = {A0: 0, A1: 0}, {A0: 1_000_000, A1: 2}
    assert next_offsets(start, ends, start, {}, 10)[A1] == 1


def test_a_new_partition_first_appears_at_the_start_of_its_log() -> None:
    assert next_offsets({A0: 1}, {A0: 5, A1: 50}, {A0: 0, A1: 20}, {}, None) == {A0: 5, A1: 20}


def test_lost_partitions_go_on_where_they_can_and_gone_ones_disappear() -> None:
    start, ends = {A0: 9, A1: 100, B0: 4}, {A0: 12, A1: 20}
    assert next_offsets(start, ends, {}, {A1: 3, B0: None}, None) == {A0: 12, A1: 3}


def test_a_run_that_ends_does_not_read_beyond_its_target() -> None:
    assert bounded({A0: 10, A1: 3, B0: 5}, {A0: 7, A1: 9}) == {A0: 7, A1: 3}
    assert bounded({A0: 10}, None) == {A0: 10}


def test_a_query_that_began_beyond_the_target_stays_where_it_is() -> None:
    assert next_offsets({A0: 12}, {A0: 7}, {A0: 0}, {}, None) == {A0: 12}


def test_lag_counts_what_is_there_and_known() -> None:
    assert lag({A0: 5, A1: 9, B0: 1}, {A0: 8, A1: 7}) == 3


def test_a_small_batch_waits_but_not_for_ever() -> None:
    pace = Pace(offsets_min=100, delay_max_ms=1000)
    assert not pace.shall_wait(1, None)
    assert pace.shall_wait(99, 999)
    assert not pace.shall_wait(100, 0)
    assert not pace.shall_wait(1, 1000)
    assert not Pace().shall_wait(0, 0)
