"""Traffic counters of connections."""

from __future__ import annotations


class Traffic:
    """Counters over all connections of one client, for its metrics."""

    __slots__ = (
        "latency_ms_max",
        "latency_ms_sum",
        "received_bytes",
        "request_count",
        "response_count",
        "sent_bytes",
        "throttle_ms_max",
        "throttle_ms_sum",
    )

    def __init__(self) -> None:
        self.request_count = 0
        self.response_count = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.latency_ms_sum = 0
        self.latency_ms_max = 0
        self.throttle_ms_sum = 0
        self.throttle_ms_max = 0
