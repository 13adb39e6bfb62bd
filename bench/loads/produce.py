"""Produces with librdkafka as fast as it goes for some seconds; the time ends with the last ack.

That nothing was lost is checked against the end offsets, after the clock has stopped.
"""

from __future__ import annotations

import time

from bench.loads.librdkafka import Producer
from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

MESSAGES_AT_ONCE = 10_000
FLUSH_MS_MAX = 60_000

# A short queue keeps the part after the last `put` short; everything else is librdkafka's default.
SETTINGS = {"queue.buffering.max.kbytes": "65536", "queue.buffering.max.messages": "200000"}


def run(spec: Spec) -> Result:
    settings = {"bootstrap.servers": spec["bootstrap"], **SETTINGS, **spec["settings"]}
    count = max(1, MESSAGES_AT_ONCE // spec["partitions"]) * spec["partitions"]
    messages = values(count, spec["size"], spec["seed"])
    producer = Producer(spec["topic"], settings, messages, spec["partitions"])
    start_offsets = sum(producer.end_offset(p) for p in range(spec["partitions"]))
    meter = Meter(spec["broker_pid"])
    meter.start()
    sent = _send(producer, time.perf_counter() + spec["seconds"], spec.get("bytes_max"), spec["size"])
    unsent = producer.flush(FLUSH_MS_MAX)
    cost = meter.stop()
    stored = sum(producer.end_offset(p) for p in range(spec["partitions"])) - start_offsets
    if unsent or stored < sent:
        raise ConnectionError(f"{sent} sent, {unsent} never acknowledged, {stored} stored")
    return {"bytes": sent * spec["size"], "records": sent, "duplicates": stored - sent, **cost.as_result()}


def _send(producer: Producer, end: float, bytes_max: int | None, size: int) -> int:
    sent = 0
    while time.perf_counter() < end and (bytes_max is None or sent * size < bytes_max):
        sent += producer.put()
    return sent


if __name__ == "__main__":
    serve(run)
