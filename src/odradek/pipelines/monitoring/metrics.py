"""Metrics of a pipeline run for Prometheus: their definitions, exposition format, and an HTTP server.

The server listens on loopback by default, because it has no authentication.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from odradek.pipelines.monitoring.progress import Progress, lag_by_partition
from odradek.pipelines.monitoring.run_status import RunState, RunStatus, to_json

LOOPBACK: Final = "127.0.0.1"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_SECONDS_MAX: Final = 10
"""Timeout of an idle connection."""

Labels = dict[str, str]
Samples = Iterator[tuple[Labels, float]]


class Metric(NamedTuple):
    """One metric: its name without the prefix, its type, its description and its samples."""

    name: str
    kind: str
    description: str
    samples: Callable[[RunStatus], Samples]


class MetricsUnavailable(Exception):
    """Raised when the metrics port cannot be bound."""


def _single(value: Callable[[RunStatus], float | None]) -> Callable[[RunStatus], Samples]:
    def samples(status: RunStatus) -> Samples:
        number = value(status)
        if number is not None:
            yield {}, number

    return samples


def _last(value: Callable[[Progress], float | None]) -> Callable[[RunStatus], Samples]:
    return _single(lambda status: None if status.last is None else value(status.last))


def _parts(status: RunStatus) -> Samples:
    if status.last is not None:
        for part, spent_ms in sorted(status.last.parts_ms.items()):
            yield {"part": part}, spent_ms / 1000


def _partition_lags(status: RunStatus) -> Samples:
    last = status.last
    if last is not None and last.end is not None and last.latest is not None:
        for (topic, number), rows in lag_by_partition(last.end, last.latest).items():
            yield {"topic": topic, "partition": str(number)}, rows


METRICS: Final = (
    Metric(
        "up",
        "gauge",
        "1 while a query runs, 0 while it starts, waits for a restart, or is over.",
        _single(lambda status: status.state is RunState.RUNNING),
    ),
    Metric(
        "start_time_seconds",
        "gauge",
        "Start time of the run.",
        _single(lambda status: status.started_ms / 1000),
    ),
    Metric(
        "restarts_total",
        "counter",
        "Restarts of the driver after a failure.",
        _single(lambda status: status.restart_count),
    ),
    Metric(
        "batches_total", "counter", "Completed micro-batches.", _single(lambda status: status.batch_count)
    ),
    Metric("rows_total", "counter", "Rows read from the source.", _single(lambda status: status.row_count)),
    Metric(
        "dead_letters_total",
        "counter",
        "Rows whose value could not be parsed, sent to the dead-letter topic.",
        _single(lambda status: status.dead_letter_count),
    ),
    Metric(
        "late_dropped_total",
        "counter",
        "Lower bound of dropped late rows: an aggregation counts those of one group in a batch as one.",
        _single(lambda status: status.late_dropped_count),
    ),
    Metric(
        "last_batch_time_seconds",
        "gauge",
        "Start time of the last batch. If it does not change, the pipeline or its source is idle.",
        _last(lambda last: last.at_ms / 1000),
    ),
    Metric("batch_id", "gauge", "Id of the last batch.", _last(lambda last: last.batch_id)),
    Metric("batch_rows", "gauge", "Rows of the last batch.", _last(lambda last: last.row_count)),
    Metric("batch_seconds", "gauge", "Duration of the last batch.", _last(lambda last: last.batch_ms / 1000)),
    Metric(
        "batch_part_seconds", "gauge", "Duration of each phase of the last batch, by Spark's names.", _parts
    ),
    Metric(
        "rows_per_second", "gauge", "Rows per second of the last batch.", _last(lambda last: last.rows_per_s)
    ),
    Metric(
        "lag_rows",
        "gauge",
        "Offsets between the end of the last batch and the latest offsets, over all partitions.",
        _last(lambda last: last.lag_rows),
    ),
    Metric("partition_lag_rows", "gauge", "Lag by partition.", _partition_lags),
    Metric(
        "lag_seconds",
        "gauge",
        "Age of the oldest unread record; 0 if there is none.",
        _last(lambda last: last.lag_s),
    ),
    Metric(
        "state_rows",
        "gauge",
        "Rows in the state of stateful operators.",
        _last(lambda last: last.state_row_count),
    ),
)
PREFIX: Final = "odradek_pipeline_"


def exposition(status: RunStatus) -> str:
    """Return all metrics in Prometheus' text format."""
    lines: list[str] = []
    for metric in METRICS:
        name = PREFIX + metric.name
        samples = [
            f"{name}{{{_labels({'pipeline': status.name, **labels})}}} {float(value):.15g}"
            for labels, value in metric.samples(status)
        ]
        if samples:
            lines += [f"# HELP {name} {metric.description}", f"# TYPE {name} {metric.kind}", *samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Serves the latest status: ``/metrics`` for Prometheus, ``/status`` as JSON."""

    def __init__(self, status: RunStatus, port: int, host: str = LOOPBACK) -> None:
        self.status = status
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as failed:
            raise MetricsUnavailable(
                f"metrics cannot be served on {host}:{port}: {failed.strerror or failed}. "
                "Set another --metrics-port, or another metrics_port in [observe]"
            ) from failed
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def show(self, status: RunStatus) -> None:
        """Set the status to serve."""
        self.status = status

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        def pages() -> dict[str, tuple[str, str]]:
            status = self.status
            return {
                "/metrics": (CONTENT_TYPE, exposition(status)),
                "/status": ("application/json", json.dumps(to_json(status)) + "\n"),
            }

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_SECONDS_MAX

            def do_GET(self) -> None:
                page = pages().get(self.path.partition("?")[0])
                if page is None:
                    self.send_error(HTTPStatus.NOT_FOUND, "the pages are /metrics and /status")
                    return
                kind, text = page
                body = text.encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base class
                """Do not log scrapes."""

        return Handler
