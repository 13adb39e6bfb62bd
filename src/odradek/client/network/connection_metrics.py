"""Metrics of a client's connections and metadata, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.metrics import ClientMetrics
from odradek.net.connection_pool import ConnectionPool


def declare_connection_metrics(
    metrics: ClientMetrics, pool: ConnectionPool, metadata_age_s: Callable[[], float]
) -> None:
    """Declare gauges over the pool's own counters, which add no work to a request."""
    traffic = pool.traffic
    table: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("connection-count", "Open connections.", lambda: pool.open_count),
        ("connection-creation-total", "Connections created.", lambda: pool.created_count),
        ("connection-close-total", "Connections closed.", lambda: pool.closed_count),
        ("request-total", "Requests sent.", lambda: traffic.request_count),
        ("response-total", "Responses received.", lambda: traffic.response_count),
        ("outgoing-byte-total", "Bytes sent.", lambda: traffic.sent_bytes),
        ("incoming-byte-total", "Bytes received.", lambda: traffic.received_bytes),
        (
            "request-latency-avg",
            "Average request latency in milliseconds.",
            lambda: _mean(traffic.latency_ms_sum, traffic.response_count),
        ),
        (
            "request-latency-max",
            "Maximum request latency in milliseconds.",
            lambda: traffic.latency_ms_max,
        ),
        (
            "throttle-time-total",
            "Total time requests were throttled by brokers, in milliseconds.",
            lambda: traffic.throttle_ms_sum,
        ),
        (
            "throttle-time-max",
            "Maximum time a request was throttled by a broker, in milliseconds.",
            lambda: traffic.throttle_ms_max,
        ),
        ("metadata-age", "Seconds since the last metadata update.", metadata_age_s),
    )
    for name, description, read in table:
        metrics.gauge(name, description, read)


def _mean(total: float, count: int) -> float:
    return total / count if count else float("nan")
