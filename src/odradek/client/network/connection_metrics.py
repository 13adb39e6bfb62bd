"""ClientMetrics of a client's connections and of its metadata, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.metrics import ClientMetrics
from odradek.net.connection_pool import ConnectionPool


def declare_connection_metrics(
    metrics: ClientMetrics, peers: ConnectionPool, metadata_age_s: Callable[[], float]
) -> None:
    """Declare what is read from connections; they count anyway, so that nothing is added to a request."""
    traffic = peers.traffic
    table: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("connection-count", "Connections open now.", lambda: peers.open_count),
        ("connection-creation-total", "Connections made.", lambda: peers.created_count),
        ("connection-close-total", "Connections ended.", lambda: peers.closed_count),
        ("request-total", "Requests sent.", lambda: traffic.request_count),
        ("response-total", "Answers received.", lambda: traffic.response_count),
        ("outgoing-byte-total", "Bytes sent.", lambda: traffic.sent_bytes),
        ("incoming-byte-total", "Bytes received.", lambda: traffic.received_bytes),
        (
            "request-latency-avg",
            "Milliseconds from a request to its answer, on average.",
            lambda: _mean(traffic.latency_ms_sum, traffic.response_count),
        ),
        (
            "request-latency-max",
            "Milliseconds from a request to its answer, at most.",
            lambda: traffic.latency_ms_max,
        ),
        (
            "throttle-time-total",
            "Milliseconds that brokers asked to be left alone.",
            lambda: traffic.throttle_ms_sum,
        ),
        ("throttle-time-max", "The longest of these times.", lambda: traffic.throttle_ms_max),
        ("metadata-age", "Seconds since metadata was last told.", metadata_age_s),
    )
    for name, meaning, read in table:
        metrics.gauge(name, meaning, read)


def _mean(total: float, count: int) -> float:
    return total / count if count else float("nan")
