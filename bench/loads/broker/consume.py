"""Reads a filled topic completely with librdkafka, with assigned partitions and no group."""

from __future__ import annotations

import time

from bench.loads.broker.librdkafka import Consumer
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

POLL_MS = 100
STALL_SECONDS_MAX = 20.0


def run(spec: Spec) -> Result:
    settings = {"bootstrap.servers": spec["bootstrap"], **spec["settings"]}
    consumer = Consumer(spec["topic"], settings, spec["partitions"])
    total = sum(consumer.end_offset(p) for p in range(spec["partitions"]))
    meter = Meter(spec["broker_pid"])
    meter.start()
    consumer.begin()
    received = 0
    last_received = time.perf_counter()
    while received < total:
        count = consumer.take(POLL_MS)
        received += count
        now = time.perf_counter()
        if count:
            last_received = now
        elif now - last_received > STALL_SECONDS_MAX:
            raise ConnectionError(f"{received} of {total} received, then no more")
    cost = meter.stop()
    return {"bytes": received * spec["size"], "records": received, **cost.as_result()}


if __name__ == "__main__":
    serve(run)
