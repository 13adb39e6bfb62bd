"""Produces with librdkafka as fast as it goes for some seconds; the time ends with the last ack.

With `commit_seconds` it writes transactions of that length, one after the other. That nothing was lost is
checked against the end offsets, after the clock has stopped.
"""

from __future__ import annotations

import time

from bench.loads.broker.librdkafka import Producer
from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

MESSAGES_AT_ONCE = 10_000
FLUSH_MS_MAX = 60_000
MARKER_SECONDS_MAX = 5.0

# A short queue keeps the part after the last `put` short; everything else is librdkafka's default.
SETTINGS = {"queue.buffering.max.kbytes": "65536", "queue.buffering.max.messages": "200000"}


def run(spec: Spec) -> Result:
    settings = {"bootstrap.servers": spec["bootstrap"], **SETTINGS, **spec["settings"]}
    count = max(1, MESSAGES_AT_ONCE // spec["partitions"]) * spec["partitions"]
    messages = values(count, spec["size"], spec["seed"])
    producer = Producer(spec["topic"], settings, messages, spec["partitions"])
    if "commit_seconds" in spec:
        producer.init_transactions(FLUSH_MS_MAX)
    start_offsets = _end_offsets(producer, spec)
    meter = Meter(spec["broker_pid"])
    meter.start()
    end = time.perf_counter() + spec["seconds"]
    if "commit_seconds" in spec:
        sent, transactions = _send_in_transactions(producer, end, spec["commit_seconds"])
    else:
        sent, transactions = _send(producer, end, spec.get("bytes_max"), spec["size"]), 0
    unsent = producer.flush(FLUSH_MS_MAX)
    cost = meter.stop()
    markers = transactions * spec["partitions"]
    stored = _end_offsets(producer, spec, start_offsets + sent + markers) - start_offsets - markers
    if unsent or stored < sent:
        raise ConnectionError(f"{sent} sent, {unsent} never acknowledged, {stored} stored")
    return {
        "bytes": sent * spec["size"],
        "records": sent,
        "transactions": transactions,
        "duplicates": stored - sent,
        **cost.as_result(),
    }


def _end_offsets(producer: Producer, spec: Spec, expected: int = 0) -> int:
    """Return the sum of end offsets; waits for markers written after the commit response."""
    deadline = time.perf_counter() + MARKER_SECONDS_MAX
    while (offsets := sum(producer.end_offset(p) for p in range(spec["partitions"]))) < expected:
        if time.perf_counter() > deadline:
            break
    return offsets


def _send(producer: Producer, end: float, bytes_max: int | None, size: int) -> int:
    sent = 0
    while time.perf_counter() < end and (bytes_max is None or sent * size < bytes_max):
        sent += producer.put()
    return sent


def _send_in_transactions(producer: Producer, end: float, commit_seconds: float) -> tuple[int, int]:
    """Send in consecutive transactions; return the counts of messages and transactions."""
    sent = transactions = 0
    while (now := time.perf_counter()) < end:
        producer.begin_transaction()
        sent += _send(producer, min(end, now + commit_seconds), None, 1)
        producer.commit_transaction(FLUSH_MS_MAX)
        transactions += 1
    return sent, transactions


if __name__ == "__main__":
    serve(run)
