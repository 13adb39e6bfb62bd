"""Metrics of a pipeline run: exposition and server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from odradek.pipelines.monitoring.metrics import (
    METRICS,
    PREFIX,
    MetricsServer,
    MetricsUnavailable,
    exposition,
)
from odradek.pipelines.monitoring.progress import Progress
from odradek.pipelines.monitoring.run_status import RunStatus

FRESH = RunStatus("orders", pid=1, host="castle", started_ms=1_000, updated_ms=1_000)
BATCH = Progress(
    query_id="q",
    run_id="r",
    at_ms=2_000,
    batch_id=4,
    row_count=100,
    batch_ms=250,
    parts_ms={"addBatch": 200},
    end={"t": {0: 5, 1: 7}},
    latest={"t": {0: 9, 1: 7}},
    lag_rows=4,
    lag_s=1.5,
    late_dropped_count=2,
    dead_letter_count=3,
    state_row_count=8,
)


def sample(text: str, name: str, labels: str = "") -> float:
    """Return the value of a sample that must occur once."""
    start = f'{PREFIX}{name}{{pipeline="orders"{labels}}} '
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return float(line.removeprefix(start))


def test_every_metric_has_one_help_and_type_line() -> None:
    text = exposition(FRESH.progressed(BATCH, 3_000))
    for metric in METRICS:
        assert text.count(f"# HELP {PREFIX}{metric.name} {metric.description}\n") == 1
        assert text.count(f"# TYPE {PREFIX}{metric.name} {metric.kind}\n") == 1
        assert metric.kind == ("counter" if metric.name.endswith("_total") else "gauge")


def test_counters_accumulate_and_gauges_show_the_last_batch() -> None:
    status = FRESH.progressed(BATCH, 3_000).progressed(replace(BATCH, row_count=50), 4_000)
    text = exposition(status)
    assert sample(text, "rows_total") == 150
    assert sample(text, "batch_rows") == 50
    assert sample(text, "batches_total") == 2
    assert sample(text, "late_dropped_total") == 4
    assert sample(text, "dead_letters_total") == 6
    assert sample(text, "batch_seconds") == 0.25
    assert sample(text, "batch_part_seconds", ',part="addBatch"') == 0.2
    assert sample(text, "rows_per_second") == 200
    assert sample(text, "lag_rows") == 4
    assert sample(text, "partition_lag_rows", ',topic="t",partition="0"') == 4
    assert sample(text, "partition_lag_rows", ',topic="t",partition="1"') == 0
    assert sample(text, "lag_seconds") == 1.5
    assert sample(text, "state_rows") == 8
    assert sample(text, "up") == 1


def test_large_counts_keep_their_digits() -> None:
    text = exposition(replace(FRESH, row_count=123_456_789_012))
    assert sample(text, "rows_total") == 123_456_789_012


def test_no_batch_gauges_before_the_first_batch() -> None:
    text = exposition(FRESH)
    assert sample(text, "up") == 0
    assert "lag_rows" not in text
    assert "batch_seconds" not in text


def test_label_values_are_escaped() -> None:
    text = exposition(replace(FRESH, name='a"b\\c\nd'))
    assert 'pipeline="a\\"b\\\\c\\nd"' in text


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    started = MetricsServer(FRESH, 0)
    yield started
    started.close()


def fetch(address: str) -> tuple[str, str]:
    with urllib.request.urlopen(address, timeout=10) as response:
        return response.headers["Content-Type"], response.read().decode()


def test_latest_status_is_served(server: MetricsServer) -> None:
    kind, text = fetch(server.address)
    assert kind.startswith("text/plain; version=0.0.4")
    assert text == exposition(FRESH)
    server.show(FRESH.progressed(BATCH, 3_000))
    assert sample(fetch(server.address)[1], "rows_total") == 100


def test_status_is_served_as_json(server: MetricsServer) -> None:
    kind, text = fetch(server.address.replace("/metrics", "/status"))
    assert (kind, json.loads(text)["name"]) == ("application/json", "orders")


def test_other_pages_are_not_found(server: MetricsServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        fetch(server.address.replace("/metrics", "/other"))
    raised.value.close()
    assert raised.value.code == 404


def test_metrics_server_listens_on_loopback(server: MetricsServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")


def test_port_in_use_is_reported_with_advice(server: MetricsServer) -> None:
    port = int(server.address.split(":")[2].split("/")[0])
    with pytest.raises(MetricsUnavailable, match=rf"127.0.0.1:{port}.*--metrics-port"):
        MetricsServer(FRESH, port)
