"""The metrics of a pipeline: what is exposed, and how it is served."""

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
    """The value of one sample, which is there once."""
    start = f'{PREFIX}{name}{{pipeline="orders"{labels}}} '
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return float(line.removeprefix(start))


def test_every_metric_has_its_meaning_and_kind_once() -> None:
    text = exposition(FRESH.progressed(BATCH, 3_000))
    for metric in METRICS:
        assert text.count(f"# HELP {PREFIX}{metric.name} {metric.meaning}\n") == 1
        assert text.count(f"# TYPE {PREFIX}{metric.name} {metric.kind}\n") == 1
        assert metric.kind == ("counter" if metric.name.endswith("_total") else "gauge")


def test_counters_add_up_and_gauges_are_the_last_batch() -> None:
    standing = FRESH.progressed(BATCH, 3_000).progressed(replace(BATCH, row_count=50), 4_000)
    text = exposition(standing)
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


def test_before_the_first_batch_there_are_no_gauges_of_it() -> None:
    text = exposition(FRESH)
    assert sample(text, "up") == 0
    assert "lag_rows" not in text
    assert "batch_seconds" not in text


def test_names_with_quotes_do_not_break_the_page() -> None:
    text = exposition(replace(FRESH, name='a"b\\c\nd'))
    assert 'pipeline="a\\"b\\\\c\\nd"' in text


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    started = MetricsServer(FRESH, 0)
    yield started
    started.close()


def fetched(address: str) -> tuple[str, str]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_the_newest_standing_is_served(server: MetricsServer) -> None:
    kind, text = fetched(server.address)
    assert kind.startswith("text/plain; version=0.0.4")
    assert text == exposition(FRESH)
    server.show(FRESH.progressed(BATCH, 3_000))
    assert sample(fetched(server.address)[1], "rows_total") == 100


def test_the_status_is_served_as_json(server: MetricsServer) -> None:
    kind, text = fetched(server.address.replace("/metrics", "/status"))
    assert (kind, json.loads(text)["name"]) == ("application/json", "orders")


def test_other_pages_are_not_there(server: MetricsServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(server.address.replace("/metrics", "/other"))
    refused.value.close()
    assert refused.value.code == 404


def test_it_listens_on_this_machine_only(server: MetricsServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_told_with_what_to_do(server: MetricsServer) -> None:
    port = int(server.address.split(":")[2].split("/")[0])
    with pytest.raises(MetricsUnavailable, match=rf"127.0.0.1:{port}.*--metrics-port"):
        MetricsServer(FRESH, port)
