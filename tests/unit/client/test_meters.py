"""What a client counts about itself."""

from __future__ import annotations

import math

import pytest

from odradek.client.meters import Meters


def test_meters_are_read_by_name():
    meters = Meters()
    sent = meters.counter("record-send-total", "Records sent.")
    size = meters.average("batch-size-avg", "Bytes of a batch, on average.")
    largest = meters.maximum("record-size-max", "Bytes of the largest record.")
    meters.gauge("buffer-available-bytes", "Bytes free.", lambda: 7)
    assert math.isnan(meters.read()["batch-size-avg"])
    assert math.isnan(meters.read()["record-size-max"])
    sent.add()
    sent.add(2)
    for value in (10, 30, 20):
        size.record(value)
        largest.record(value)
    assert meters.read() == {
        "batch-size-avg": 20,
        "buffer-available-bytes": 7,
        "record-send-total": 3,
        "record-size-max": 30,
    }
    assert meters.meanings["record-send-total"] == "Records sent."


def test_a_name_is_given_once():
    meters = Meters()
    meters.counter("a", "One.")
    with pytest.raises(ValueError, match="a meter called a already"):
        meters.counter("a", "Another.")
