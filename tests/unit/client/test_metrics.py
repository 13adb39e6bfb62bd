"""Metrics of a client."""

from __future__ import annotations

import math

import pytest

from odradek.client.metrics import ClientMetrics


def test_metrics_are_read_by_name():
    metrics = ClientMetrics()
    sent = metrics.counter("record-send-total", "Records sent.")
    size = metrics.average("batch-size-avg", "Bytes of a batch, on average.")
    largest = metrics.maximum("record-size-max", "Bytes of the largest record.")
    metrics.gauge("buffer-available-bytes", "Bytes free.", lambda: 7)
    assert math.isnan(metrics.read()["batch-size-avg"])
    assert math.isnan(metrics.read()["record-size-max"])
    sent.add()
    sent.add(2)
    for value in (10, 30, 20):
        size.record(value)
        largest.record(value)
    assert metrics.read() == {
        "batch-size-avg": 20,
        "buffer-available-bytes": 7,
        "record-send-total": 3,
        "record-size-max": 30,
    }
    assert metrics.descriptions["record-send-total"] == "Records sent."


def test_duplicate_metric_name_is_rejected():
    metrics = ClientMetrics()
    metrics.counter("a", "One.")
    with pytest.raises(ValueError, match="must be unique, got a twice"):
        metrics.counter("a", "Another.")
