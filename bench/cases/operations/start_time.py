"""O1: time from exec to the first acknowledged record.

Empty: a new data directory and a topic created by the first Metadata request. Loaded: a clean restart with
1,000 partitions of 10 segments each. Both cores are free for the broker; ZooKeeper is already running. The
probe connects every few ms and sends Produce requests until one succeeds.
"""

from __future__ import annotations

import struct
import time

from bench.fixtures.broker_start import start
from bench.fixtures.topic_fill import log_files
from bench.harness import Bench, Goal, Row, Sample
from bench.loads.broker.exchange import connect, send_request
from bench.loads.broker.frames import batch, produce
from bench.loads.values import values
from bench.peers.broker import Broker

CASE = "O1"
GOAL = Goal("ratio", "≤", 0.15)
PARTITIONS, SEGMENTS = 1000, 10
TOPIC = "start"
# A segment holds one batch: every append rolls.
SEGMENT_BYTES, VALUE_BYTES = 1024, 600


def run(bench: Bench) -> None:
    with bench.brokers(pinned=False, running=False) as sides:
        row = Row(CASE, "empty", "s", GOAL)
        bench.compare(row, sides.running, _empty, missing=sides.missing)
    with bench.brokers(pinned=False, running=False) as sides:
        row = Row(CASE, f"{PARTITIONS} partitions of {SEGMENTS} segments", "s", GOAL)
        bench.compare(row, sides.running, lambda b: _loaded(bench, b), missing=sides.missing)


def _life(broker: Broker, partition: int) -> Sample:
    sample = start(broker, TOPIC, partition)
    sample.cost["stop_seconds"] = broker.stop()
    return sample


def _empty(broker: Broker) -> Sample:
    broker.wipe()
    return _life(broker, 0)


def _loaded(bench: Bench, broker: Broker) -> Sample:
    if not broker.log_directory.exists():
        began = time.monotonic()
        _fill(bench, broker)
        bench.log(f"{CASE}: {broker.name} filled in {time.monotonic() - began:.0f} s")
    return _life(broker, PARTITIONS - 1)


def _fill(bench: Bench, broker: Broker) -> None:
    broker.start()
    broker.create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
    records = batch(values(1, VALUE_BYTES, bench.seed))
    request = produce(TOPIC, dict.fromkeys(range(PARTITIONS), records))
    with connect(broker.port) as connection:
        for _ in range(SEGMENTS):
            _check_stored(send_request(connection, request.frame))
    broker.stop()
    count = len(log_files(broker, TOPIC))
    if count != PARTITIONS * SEGMENTS:
        raise ConnectionError(f"{broker.name} must have {PARTITIONS * SEGMENTS} segments, got {count}")


def _check_stored(response: bytes) -> None:
    """Check a Produce v7 response: 30 bytes per partition, with the error code at byte 4."""
    first = 4 + 4 + 4 + 2 + len(TOPIC) + 4
    (count,) = struct.unpack_from(">i", response, first - 4)
    codes = {struct.unpack_from(">h", response, first + 30 * index + 4)[0] for index in range(count)}
    if count != PARTITIONS or codes != {0}:
        raise ConnectionError(f"content {count} partitions gave error codes {sorted(codes)}")
