"""G1: cost of a log lookup as the number of segments grows from 10 to 10,000.

One partition that rolls with every batch; batches are one second apart. One connection, one request in
flight: ListOffsets for a random timestamp, and a Fetch of one batch at a random old offset. The figure is the
round trip, which may grow logarithmically; the last rows compare our figures at the most and the fewest
segments. The offsets returned by ListOffsets are checked first.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

from bench.fixtures.topic_fill import log_files
from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.broker.exchange import connect, error_codes, send_request
from bench.loads.broker.frames import batch, list_offsets, produce
from bench.loads.values import values
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "G1"
TOPIC = "segments"
SEGMENTS = (10, 100, 1000, 10_000)
SEGMENT_BYTES, VALUE_BYTES = 1024, 600  # a segment holds one batch
STEP_MS = 1000
LOOKUPS = 500  # different offsets and timestamps
CHECKED = 50
SECONDS = 1.5
FLAT = Goal("ratio", "≤", 1.5)
APIS = {"fetch": "fetch at an old offset", "list_offsets": "offset of a time"}


def run(bench: Bench) -> None:
    start_ms = int(time.time() * 1000) - (SEGMENTS[-1] + 1) * STEP_MS
    rows: dict[str, list[Row]] = {api: [] for api in APIS}
    with bench.brokers(pinned=True) as sides:
        for broker in sides.running.values():
            broker.create_topic(TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
        existing = 0
        for count in SEGMENTS:
            for side, broker in list(sides.running.items()):
                began = time.monotonic()
                _extend(bench, broker, existing, count, start_ms)
                _check(broker, count, start_ms)
                bench.log(f"{CASE}: {side} has {count:,} segments, {time.monotonic() - began:.0f} s")
            for api, label in APIS.items():

                def measure(broker: Broker, api: str = api, count: int = count) -> Sample:
                    return _measure(bench, broker, api, count, start_ms)

                def cpu_us(broker: Broker, measure: Callable[[Broker], Sample] = measure) -> float:
                    return measure(broker).cost["cpu_us"]

                if not existing:
                    bench.settle(sides, cpu_us)
                row = Row(CASE, f"{label}, {count:,} segments", "µs", None)
                rows[api].append(bench.compare(row, sides.running, measure, missing=sides.missing))
            existing = count
    for api, label in APIS.items():
        load = f"{label}, {SEGMENTS[-1]:,} segments ÷ {SEGMENTS[0]}"
        bench.rows.append(growth(load, rows[api][0], rows[api][-1], FLAT))


def _extend(bench: Bench, broker: Broker, existing: int, count: int, start_ms: int) -> None:
    """Append one batch per segment; batch n is n steps after the start."""
    value = values(1, VALUE_BYTES, bench.seed)
    with connect(broker.port) as connection:
        for number in range(existing, count):
            exchange = produce(TOPIC, {0: batch(value, timestamp_ms=start_ms + number * STEP_MS)})
            codes = error_codes(exchange, send_request(connection, exchange.frame))
            if codes != [0]:
                raise ConnectionError(f"content gave error codes {codes}")
    segments = len(log_files(broker, TOPIC))
    if segments != count:
        raise ConnectionError(f"{broker.name} must have {count} segments, got {segments}")


def _check(broker: Broker, count: int, start_ms: int) -> None:
    """Check that a timestamp just after a batch gives the next batch, in the next segment."""
    with connect(broker.port) as connection:
        for number in random.Random(count).choices(range(1, count), k=CHECKED):
            exchange = list_offsets(TOPIC, 0, start_ms + (number - 1) * STEP_MS + 1)
            response = send_request(connection, exchange.frame)
            code, _, offset = struct.unpack_from(">hqq", response, exchange.error_positions[0])
            if (code, offset) != (0, number):
                raise ConnectionError(
                    f"{broker.name}: offset for timestamp must be {number}, got {offset}, error code {code}"
                )


def _measure(bench: Bench, broker: Broker, api: str, count: int, start_ms: int) -> Sample:
    positions = random.Random(bench.seed).choices(range(count - 1), k=LOOKUPS)
    spec = {
        "api": api,
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": TOPIC,
        "partitions": [0],
        "offsets": positions,
        "times_ms": [start_ms + position * STEP_MS for position in positions],
        "bytes_max": 1,  # a broker returns the first batch completely, and no more
        "in_flight": 1,
        "seconds": SECONDS,
    }
    result = run_load("broker.requests", spec)
    sample = load_sample(result["seconds"] / result["requests"] * 1e6, result, broker)
    sample.cost["cpu_us"] = result["broker_cpu_seconds"] / result["requests"] * 1e6
    return sample
