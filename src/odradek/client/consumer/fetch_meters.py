"""What a consumer counts about its fetches, under Kafka's names."""

from __future__ import annotations

from odradek.client.meters import Meters


class FetchMeters:
    def __init__(self, meters: Meters) -> None:
        self._count = meters.counter("fetch-total", "fetches that were answered")
        self._latency = meters.average("fetch-latency-avg", "milliseconds from a fetch to its answer")
        self._latency_max = meters.maximum("fetch-latency-max", "the longest of these")
        self._size = meters.average("fetch-size-avg", "bytes of records in an answer")
        self._size_max = meters.maximum("fetch-size-max", "the most bytes of records in an answer")
        self._throttle = meters.average("fetch-throttle-time-avg", "milliseconds that brokers asked to wait")
        self._throttle_max = meters.maximum("fetch-throttle-time-max", "the longest of these")

    def answered(self, latency_ms: int, throttle_ms: int, size_bytes: int) -> None:
        self._count.add()
        self._latency.record(latency_ms)
        self._latency_max.record(latency_ms)
        self._size.record(size_bytes)
        self._size_max.record(size_bytes)
        self._throttle.record(throttle_ms)
        self._throttle_max.record(throttle_ms)
