"""Metrics of fetches and polls, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.metrics import ClientMetrics


class FetchMetrics:
    def __init__(self, metrics: ClientMetrics) -> None:
        self._count = metrics.counter("fetch-total", "Fetch responses received.")
        self._latency = metrics.average("fetch-latency-avg", "Average fetch latency in milliseconds.")
        self._latency_max = metrics.maximum("fetch-latency-max", "Maximum fetch latency in milliseconds.")
        self._size = metrics.average("fetch-size-avg", "Average bytes of records per response.")
        self._size_max = metrics.maximum("fetch-size-max", "Maximum bytes of records in a response.")
        self._throttle = metrics.average("fetch-throttle-time-avg", "Average throttle time in milliseconds.")
        self._throttle_max = metrics.maximum(
            "fetch-throttle-time-max", "Maximum throttle time in milliseconds."
        )

    def record_response(self, latency_ms: int, throttle_ms: int, size_bytes: int) -> None:
        self._count.add()
        self._latency.record(latency_ms)
        self._latency_max.record(latency_ms)
        self._size.record(size_bytes)
        self._size_max.record(size_bytes)
        self._throttle.record(throttle_ms)
        self._throttle_max.record(throttle_ms)


class PollMetrics:
    """Time between polls; ``now_ms`` is called when the gauge is read."""

    def __init__(self, metrics: ClientMetrics, now_ms: Callable[[], int]) -> None:
        self._last_ms: int | None = None
        self._between = metrics.average("time-between-poll-avg", "Average milliseconds between polls.")
        self._between_max = metrics.maximum("time-between-poll-max", "Maximum milliseconds between polls.")
        metrics.gauge("last-poll-seconds-ago", "Seconds since the last poll.", lambda: self._ago_s(now_ms()))

    def record_poll(self, now_ms: int) -> None:
        if self._last_ms is not None:
            self._between.record(now_ms - self._last_ms)
            self._between_max.record(now_ms - self._last_ms)
        self._last_ms = now_ms

    def _ago_s(self, now_ms: int) -> float:
        return float("nan") if self._last_ms is None else (now_ms - self._last_ms) / 1000
