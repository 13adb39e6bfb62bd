"""Accuracy of the latency histogram."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.perf import LatencyHistogram


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 0.999, 1.0]))
def test_percentile_error_is_below_one_percent(values: list[int], fraction: float) -> None:
    latencies = LatencyHistogram()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(fraction * len(values)) - 1]
    assert exact <= latencies.at(fraction) <= exact * 1.01 + 1
    assert latencies.max_us == max(values)


def test_summary_of_small_values_is_exact() -> None:
    latencies = LatencyHistogram()
    for value in range(1, 101):
        latencies.add(value)
    assert latencies.summary_ms() == {"p50": 0.05, "p95": 0.095, "p99": 0.099, "p99.9": 0.1, "max": 0.1}


def test_empty_histogram() -> None:
    assert LatencyHistogram().summary_ms()["max"] == 0


def test_negative_latency_counts_as_zero() -> None:
    latencies = LatencyHistogram()
    latencies.add(-5)
    assert latencies.at(1.0) == 0
