"""What a pipeline measures, for Prometheus: one table of metrics, their text, and a small server for it.

The server listens on this machine only, unless another address is asked for: the page has no password.
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
"""A scraper that says nothing for so long is let go."""

Labels = dict[str, str]
Samples = Iterator[tuple[Labels, float]]


class Metric(NamedTuple):
    """One metric: its name without the prefix, its kind, what it means, and where its values come from."""

    name: str
    kind: str
    meaning: str
    samples: Callable[[RunStatus], Samples]


class MetricsUnavailable(Exception):
    """The port of the metrics cannot be had."""


def _one(value: Callable[[RunStatus], float | None]) -> Callable[[RunStatus], Samples]:
    def samples(standing: RunStatus) -> Samples:
        found = value(standing)
        if found is not None:
            yield {}, found

    return samples


def _last(value: Callable[[Progress], float | None]) -> Callable[[RunStatus], Samples]:
    return _one(lambda standing: None if standing.last is None else value(standing.last))


def _parts(standing: RunStatus) -> Samples:
    if standing.last is not None:
        for part, spent_ms in sorted(standing.last.parts_ms.items()):
            yield {"part": part}, spent_ms / 1000


def _partition_lags(standing: RunStatus) -> Samples:
    last = standing.last
    if last is not None and last.end is not None and last.latest is not None:
        for (topic, number), rows in lag_by_partition(last.end, last.latest).items():
            yield {"topic": topic, "partition": str(number)}, rows


METRICS: Final = (
    Metric(
        "up",
        "gauge",
        "1 while a query runs, 0 while it starts, waits to be started again, or is over.",
        _one(lambda standing: standing.state is RunState.RUNNING),
    ),
    Metric(
        "start_time_seconds",
        "gauge",
        "When the run began.",
        _one(lambda standing: standing.started_ms / 1000),
    ),
    Metric(
        "restarts_total",
        "counter",
        "How often the driver was started again after a failure.",
        _one(lambda standing: standing.restart_count),
    ),
    Metric("batches_total", "counter", "Micro-batches done.", _one(lambda standing: standing.batch_count)),
    Metric("rows_total", "counter", "Rows read from the source.", _one(lambda standing: standing.row_count)),
    Metric(
        "dead_letters_total",
        "counter",
        "Rows whose value could not be read, sent to the topic of dead letters.",
        _one(lambda standing: standing.dead_letter_count),
    ),
    Metric(
        "late_dropped_total",
        "counter",
        "Late rows dropped, at least so many: an aggregation counts those of one group in a batch as one.",
        _one(lambda standing: standing.late_dropped_count),
    ),
    Metric(
        "last_batch_time_seconds",
        "gauge",
        "When the last batch began. If this stands still, so does the pipeline, or its source.",
        _last(lambda last: last.at_ms / 1000),
    ),
    Metric("batch_id", "gauge", "The number of the last batch.", _last(lambda last: last.batch_id)),
    Metric("batch_rows", "gauge", "Rows of the last batch.", _last(lambda last: last.row_count)),
    Metric(
        "batch_seconds", "gauge", "How long the last batch took.", _last(lambda last: last.batch_ms / 1000)
    ),
    Metric("batch_part_seconds", "gauge", "What that time went into, by Spark's names for it.", _parts),
    Metric(
        "rows_per_second", "gauge", "Rows per second of the last batch.", _last(lambda last: last.rows_per_s)
    ),
    Metric(
        "lag_rows",
        "gauge",
        "Offsets behind the last batch up to the newest its source had seen, over all partitions.",
        _last(lambda last: last.lag_rows),
    ),
    Metric("partition_lag_rows", "gauge", "The same by partition.", _partition_lags),
    Metric(
        "lag_seconds",
        "gauge",
        "How long the oldest record that waits has been in its topic; 0 if none waits.",
        _last(lambda last: last.lag_s),
    ),
    Metric(
        "state_rows", "gauge", "Rows of state that operators keep.", _last(lambda last: last.state_row_count)
    ),
)
PREFIX: Final = "odradek_pipeline_"


def exposition(standing: RunStatus) -> str:
    """All metrics in Prometheus' text format."""
    lines: list[str] = []
    for metric in METRICS:
        name = PREFIX + metric.name
        samples = [
            f"{name}{{{_labels({'pipeline': standing.name, **labels})}}} {float(value):.15g}"
            for labels, value in metric.samples(standing)
        ]
        if samples:
            lines += [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}", *samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Serves the newest standing: ``/metrics`` for Prometheus, ``/status`` as JSON."""

    def __init__(self, standing: RunStatus, port: int, host: str = LOOPBACK) -> None:
        self.standing = standing
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as failed:
            raise MetricsUnavailable(
                f"metrics cannot be served on {host}:{port}: {failed.strerror or failed}. "
                "Give another --metrics-port, or another metrics_port under [observe]"
            ) from failed
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def show(self, standing: RunStatus) -> None:
        """What scrapers see from now on."""
        self.standing = standing

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        def pages() -> dict[str, tuple[str, str]]:
            standing = self.standing
            return {
                "/metrics": (CONTENT_TYPE, exposition(standing)),
                "/status": ("application/json", json.dumps(to_json(standing)) + "\n"),
            }

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_SECONDS_MAX

            def do_GET(self) -> None:
                found = pages().get(self.path.partition("?")[0])
                if found is None:
                    self.send_error(HTTPStatus.NOT_FOUND, "there are /metrics and /status")
                    return
                kind, text = found
                body = text.encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is theirs
                """Scrapes are no news."""

        return Handler
