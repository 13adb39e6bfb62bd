"""Writes records at a constant rate, round robin over partitions, with the due time as timestamp."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from bench.loads.values import values
from bench.loads.worker import LoadFailed, Result, Spec, serve

STEP_SECONDS = 0.005
SEND_SECONDS_MAX = 30.0
VALUES = 1000


def run(spec: Spec) -> Result:
    producer = Producer(
        {"bootstrap.servers": spec["bootstrap"], "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
    )
    producer.list_topics(spec["topic"], timeout=SEND_SECONDS_MAX)
    bodies = values(VALUES, spec["size"], spec["seed"])
    count, rate, partitions = int(spec["rate"] * spec["seconds"]), spec["rate"], spec["partitions"]
    begin_ms = time.time() * 1000 + 100
    sent, late_ms = 0, 0.0
    while sent < count:
        due = int((time.time() * 1000 - begin_ms) * rate / 1000)
        if due > sent:
            late_ms = max(late_ms, (due - sent) * 1000 / rate)
        for number in range(sent, min(due, count)):
            body, due_ms = bodies[number % VALUES], int(begin_ms + number * 1000 / rate)
            producer.produce(spec["topic"], body, partition=number % partitions, timestamp=due_ms)
        sent = max(sent, min(due, count))
        producer.poll(0)
        time.sleep(STEP_SECONDS)
    if producer.flush(SEND_SECONDS_MAX):
        raise LoadFailed("the feed could not send all records")
    return {"records": sent, "begin_ms": begin_ms, "late_ms": late_ms}


if __name__ == "__main__":
    serve(run)
