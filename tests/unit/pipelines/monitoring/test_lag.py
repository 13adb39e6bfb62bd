"""Lag by partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.pipelines.monitoring.lag import PartitionLag, as_rows, lags, total

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10**9))


def test_lag_is_end_minus_committed() -> None:
    assert lags({A: 4}, {A: 10}, {A: 2_000}, 5_000) == [PartitionLag("t", 0, 4, 10, 6, 3.0)]


def test_caught_up_partition_has_no_lag() -> None:
    assert lags({A: 10}, {A: 10}, {}, 5_000) == [PartitionLag("t", 0, 10, 10, 0, 0.0)]


def test_partition_without_commit_has_unknown_lag() -> None:
    assert lags({}, {A: 10}, {}, 5_000) == [PartitionLag("t", 0, None, 10, None, None)]


def test_unread_timestamp_gives_unknown_lag_seconds() -> None:
    assert lags({A: 4}, {A: 10}, {}, 5_000)[0].lag_s is None


def test_transaction_markers_alone_have_no_lag_seconds() -> None:
    assert lags({A: 9}, {A: 10}, {A: None}, 5_000)[0].lag_s == 0.0


def test_future_timestamp_has_no_lag_seconds() -> None:
    assert lags({A: 4}, {A: 10}, {A: 9_000}, 5_000)[0].lag_s == 0.0


def test_log_truncated_below_the_commit_has_no_lag() -> None:
    assert lags({A: 12}, {A: 10}, {}, 5_000)[0].lag_rows == 0


def test_total_is_sum_of_rows_and_maximum_of_seconds() -> None:
    rows = lags({A: 4, B: 10}, {A: 10, B: 12, C: 5}, {A: 1_000, B: 4_000}, 5_000)
    assert total(rows) == (8, 4.0)


def test_total_without_commits_is_unknown() -> None:
    assert total(lags({}, {A: 10}, {}, 5_000)) == (None, None)


def test_lag_rows_contain_the_group() -> None:
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
def test_every_known_partition_is_shown_once(
    committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> None:
    rows = lags(committed, ends, {}, 0)
    assert [TopicPartition(row.topic, row.partition) for row in rows] == sorted(
        committed.keys() | ends.keys()
    )
    assert all(row.lag_rows is None or row.lag_rows >= 0 for row in rows)
