"""Lag by partition, decided from what brokers tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.pipelines.monitoring.lag import PartitionLag, as_rows, lags, total

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10**9))


def test_lag_is_the_end_minus_what_is_committed() -> None:
    assert lags({A: 4}, {A: 10}, {A: 2_000}, 5_000) == [PartitionLag("t", 0, 4, 10, 6, 3.0)]


def test_what_is_done_has_waited_for_nothing() -> None:
    assert lags({A: 10}, {A: 10}, {}, 5_000) == [PartitionLag("t", 0, 10, 10, 0, 0.0)]


def test_a_partition_without_a_commit_has_no_lag() -> None:
    assert lags({}, {A: 10}, {}, 5_000) == [PartitionLag("t", 0, None, 10, None, None)]


def test_a_record_that_could_not_be_read_has_no_age() -> None:
    assert lags({A: 4}, {A: 10}, {}, 5_000)[0].lag_s is None


def test_marks_of_transactions_alone_wait_for_nobody() -> None:
    assert lags({A: 9}, {A: 10}, {A: None}, 5_000)[0].lag_s == 0.0


def test_a_record_from_the_future_waits_for_no_time() -> None:
    assert lags({A: 4}, {A: 10}, {A: 9_000}, 5_000)[0].lag_s == 0.0


def test_a_log_that_was_cut_below_the_commit_is_not_behind() -> None:
    assert lags({A: 12}, {A: 10}, {}, 5_000)[0].lag_rows == 0


def test_the_total_is_the_sum_of_rows_and_the_longest_wait() -> None:
    rows = lags({A: 4, B: 10}, {A: 10, B: 12, C: 5}, {A: 1_000, B: 4_000}, 5_000)
    assert total(rows) == (8, 4.0)


def test_without_any_commit_the_total_is_not_known() -> None:
    assert total(lags({}, {A: 10}, {}, 5_000)) == (None, None)


def test_rows_name_the_group() -> None:
    (row,) = as_rows("g", [PartitionLag("t", 0, 4, 10, 6, 1.23456)])
    assert row == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "committed": 4,
        "end": 10,
        "lag_rows": 6,
        "lag_s": 1.235,
    }


@given(OFFSETS, OFFSETS)
def test_every_partition_that_anybody_knows_is_shown_once(
    committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> None:
    rows = lags(committed, ends, {}, 0)
    assert [TopicPartition(one.topic, one.partition) for one in rows] == sorted(
        committed.keys() | ends.keys()
    )
    assert all(one.lag_rows is None or one.lag_rows >= 0 for one in rows)
