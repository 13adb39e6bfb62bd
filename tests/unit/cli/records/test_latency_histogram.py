"""Percentiles from buckets are as good as from all values."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.latency_histogram import LatencyHistogram


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 0.999, 1.0]))
def test_a_percentile_is_within_a_percent_of_the_true_one(values: list[int], fraction: float) -> None:
    latencies = LatencyHistogram()
    for one in values:
        latencies.add(one)
    true = sorted(values)[math.ceil(fraction * len(values)) - 1]
    assert true <= latencies.at(fraction) <= true * 1.01 + 1
    assert latencies.max_us == max(values)


def test_small_values_are_exact_and_a_summary_is_in_milliseconds() -> None:
    latencies = LatencyHistogram()
    for one in range(1, 101):
        latencies.add(one)
    assert latencies.summary_ms() == {"p50": 0.05, "p95": 0.095, "p99": 0.099, "p99.9": 0.1, "max": 0.1}


def test_nothing_measured_is_nothing_late() -> None:
    assert LatencyHistogram().summary_ms()["max"] == 0


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    latencies = LatencyHistogram()
    latencies.add(-5)
    assert latencies.at(1.0) == 0
