"""G1: what finding a place in a log costs as the number of its segments grows, from 10 to 10,000.

One partition that rolls with every batch; each batch is a second younger than the one before. One
connection, one request in flight: a ListOffsets for a random time in the log, and a Fetch of one batch at a
random old offset. The figure is the round trip. Both may grow with the logarithm, which is next to nothing;
the last rows set our figure at the most segments against that at the fewest. That ListOffsets finds the right
offsets is checked before.
"""

from __future__ import annotations

import random
import struct
import time

from bench.filling import log_files
from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.exchange import ask, connect, error_codes
from bench.loads.frames import batch, list_offsets, produce
from bench.loads.values import values
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "G1"
TOPIC = "segments"
SEGMENTS = (10, 100, 1000, 10_000)
SEGMENT_BYTES, VALUE_BYTES = 1024, 600  # two batches do not fit into one segment
STEP_MS = 1000
PLACES = 500  # different offsets and times asked for
CHECKED = 50
SECONDS = 1.5
FLAT = Goal("ratio", "≤", 1.5)
APIS = {"fetch": "fetch at an old offset", "list_offsets": "offset of a time"}


def run(bench: Bench) -> None:
    begins_ms = int(time.time() * 1000) - (SEGMENTS[-1] + 1) * STEP_MS
    rows: dict[str, list[Row]] = {api: [] for api in APIS}
    with bench.brokers(pinned=True) as sides:
        for broker in sides.running.values():
            broker.create_topic(TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
        there = 0
        for count in SEGMENTS:
            for side, broker in list(sides.running.items()):
                began = time.monotonic()
                _extend(bench, broker, there, count, begins_ms)
                _check(broker, count, begins_ms)
                bench.say(f"{CASE}: {side} has {count:,} segments, {time.monotonic() - began:.0f} s")
            for api, words in APIS.items():

                def measure(broker: Broker, api: str = api, count: int = count) -> Sample:
                    return _measure(bench, broker, api, count, begins_ms)

                if not there:
                    bench.settle(sides, lambda b, m=measure: m(b).cost["cpu_us"])
                row = Row(CASE, f"{words}, {count:,} segments", "µs", None)
                rows[api].append(bench.compare(row, sides.running, measure, missing=sides.missing))
            there = count
    for api, words in APIS.items():
        load = f"{words}, {SEGMENTS[-1]:,} segments ÷ {SEGMENTS[0]}"
        bench.rows.append(growth(load, rows[api][0], rows[api][-1], FLAT))


def _extend(bench: Bench, broker: Broker, there: int, count: int, begins_ms: int) -> None:
    """One batch, one segment; batch n is dated n steps after the beginning."""
    value = values(1, VALUE_BYTES, bench.seed)
    with connect(broker.port) as connection:
        for number in range(there, count):
            exchange = produce(TOPIC, {0: batch(value, timestamp_ms=begins_ms + number * STEP_MS)})
            codes = error_codes(exchange, ask(connection, exchange.frame))
            if codes != [0]:
                raise ConnectionError(f"filling gave error codes {codes}")
    found = len(log_files(broker, TOPIC))
    if found != count:
        raise ConnectionError(f"{broker.name} has {found} segments, not {count}")


def _check(broker: Broker, count: int, begins_ms: int) -> None:
    """A time just after one batch is answered with the next, which is in the next segment."""
    with connect(broker.port) as connection:
        for number in random.Random(count).choices(range(1, count), k=CHECKED):
            exchange = list_offsets(TOPIC, 0, begins_ms + (number - 1) * STEP_MS + 1)
            answer = ask(connection, exchange.frame)
            code, _, offset = struct.unpack_from(">hqq", answer, exchange.error_positions[0])
            if (code, offset) != (0, number):
                raise ConnectionError(f"{broker.name}: time of {number} gave {offset}, error code {code}")


def _measure(bench: Bench, broker: Broker, api: str, count: int, begins_ms: int) -> Sample:
    places = random.Random(bench.seed).choices(range(count - 1), k=PLACES)
    spec = {
        "api": api,
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": TOPIC,
        "partitions": [0],
        "offsets": places,
        "times_ms": [begins_ms + place * STEP_MS for place in places],
        "bytes_max": 1,  # a broker gives the first batch whole, and no more
        "in_flight": 1,
        "seconds": SECONDS,
    }
    result = run_load("requests", spec)
    sample = load_sample(result["seconds"] / result["requests"] * 1e6, result, broker)
    sample.cost["cpu_us"] = result["broker_cpu_seconds"] / result["requests"] * 1e6
    return sample
