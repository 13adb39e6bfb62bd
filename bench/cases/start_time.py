"""O1: from exec to the first acknowledged record.

Empty: a new data directory and a topic that the first Metadata request creates. Loaded: a clean restart
on 1,000 partitions of 10 segments each. Both cores are free for the broker; ZooKeeper is already up. The
probe connects every few ms and asks until a Produce is answered without an error.
"""

from __future__ import annotations

import struct
import time

from bench.filling import log_files
from bench.harness import Bench, Goal, Row, Sample
from bench.loads.exchange import ask, connect
from bench.loads.frames import batch, produce
from bench.loads.values import values
from bench.peers.broker import Broker
from bench.starting import start

CASE = "O1"
GOAL = Goal("ratio", "≤", 0.15)
PARTITIONS, SEGMENTS = 1000, 10
TOPIC = "start"
# Two batches do not fit into one segment: every append rolls.
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
        bench.say(f"{CASE}: {broker.name} filled in {time.monotonic() - began:.0f} s")
    return _life(broker, PARTITIONS - 1)


def _fill(bench: Bench, broker: Broker) -> None:
    broker.start()
    broker.create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
    records = batch(values(1, VALUE_BYTES, bench.seed))
    request = produce(TOPIC, dict.fromkeys(range(PARTITIONS), records))
    with connect(broker.port) as connection:
        for _ in range(SEGMENTS):
            _all_stored(ask(connection, request.frame))
    broker.stop()
    found = len(log_files(broker, TOPIC))
    if found != PARTITIONS * SEGMENTS:
        raise ConnectionError(f"{broker.name} has {found} segments, not {PARTITIONS * SEGMENTS}")


def _all_stored(answer: bytes) -> None:
    """Produce v7, one topic: partitions are cells of 30 bytes, the error code 4 bytes into each."""
    first = 4 + 4 + 4 + 2 + len(TOPIC) + 4
    (count,) = struct.unpack_from(">i", answer, first - 4)
    codes = {struct.unpack_from(">h", answer, first + 30 * index + 4)[0] for index in range(count)}
    if count != PARTITIONS or codes != {0}:
        raise ConnectionError(f"filling {count} partitions gave error codes {sorted(codes)}")
