"""Reads a filled topic from beginning to end with librdkafka, assigned partitions, no group."""

from __future__ import annotations

import time

from bench.loads.librdkafka import Consumer
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
    heard = time.perf_counter()
    while received < total:
        count = consumer.take(POLL_MS)
        received += count
        now = time.perf_counter()
        if count:
            heard = now
        elif now - heard > STALL_SECONDS_MAX:
            raise ConnectionError(f"{received} of {total} received, then silence")
    cost = meter.stop()
    return {"bytes": received * spec["size"], "records": received, **cost.as_result()}


if __name__ == "__main__":
    serve(run)
