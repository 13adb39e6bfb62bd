"""H2: broker CPU µs and round trips of Metadata, Heartbeat and OffsetCommit.

These requests carry no records, but every client sends them. CPU per request is measured like H1: four
connections with five requests in flight each saturate the broker's core. Round trips are measured like B5:
requests per second on one connection with one in flight.

Heartbeats and commits come from the only member of a group, while there is one topic of 100 partitions; each
connection has its own group. The initial rebalance delay is 0, and segments of the offsets topic are so large
that none is compacted meanwhile. Metadata is measured after 10,000 topics of one partition were created by
requests for 100 topics each, one after the other; their creation is not counted. No topic changes later,
so that a broker may keep its response.

`TOPICS=100` creates fewer topics, as a smoke test.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from bench.harness import SETTLE_CPU_SECONDS, Bench, Row, Sample, Sides, load_sample
from bench.loads.broker.exchange import connect, send_request
from bench.loads.broker.flexible_frames import create_topics, created_topic_errors, metadata, metadata_errors
from bench.loads.worker import run_load
from bench.peers.broker import Broker, BrokerFailed

CASE = "H2"
CPU_SECONDS = 2.0
TRIP_SECONDS = 1.5
CONNECTIONS = 4
IN_FLIGHT = 5
TOPICS = 10_000
TOPICS_AT_ONCE = 100
CREATE_SECONDS_MAX = 600.0
COMMITTED = "committed"
COMMITTED_PARTITIONS = 100
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.segment.bytes": str(1 << 30),
}

Part = dict[str, Any]
GROUP: Part = {"group": "control", "topic": COMMITTED}


def run(bench: Bench) -> None:
    count = int(os.environ.get("TOPICS", TOPICS))
    with bench.brokers(pinned=True, settings=SETTINGS) as sides:
        for broker in sides.running.values():
            broker.create_topic(COMMITTED, COMMITTED_PARTITIONS)
        _compare(bench, sides, "Heartbeat", {"api": "heartbeat", **GROUP})
        for partitions in (1, COMMITTED_PARTITIONS):
            load = f"OffsetCommit, {partitions} partition{'s' if partitions > 1 else ''}"
            _compare(bench, sides, load, {"api": "offset_commit", "partitions": partitions, **GROUP})
        names = [f"topic-{number:05}" for number in range(count)]
        for side, broker in sides.running.items():
            seconds = _create(broker, names)
            bench.log(f"{side} created {count:,} topics in {seconds:.0f} s")
        middle = {"api": "metadata", "topics": [names[count // 2]]}
        _compare(bench, sides, f"Metadata, 1 topic of {count:,}", middle)
        _compare(bench, sides, f"Metadata, all {count:,} topics", {"api": "metadata", "topics": None})


def _create(broker: Broker, names: list[str]) -> float:
    """Create topics of one partition, some at a time, and wait for all leaders; return the seconds."""
    began = time.monotonic()
    with connect(broker.port) as connection:
        for start in range(0, len(names), TOPICS_AT_ONCE):
            frame = create_topics(names[start : start + TOPICS_AT_ONCE], partitions=1)
            errors = created_topic_errors(send_request(connection, frame))
            if any(errors.values()):
                raise BrokerFailed(f"CreateTopics failed: error codes {sorted(set(errors.values()))}")
        while any(metadata_errors(send_request(connection, metadata(names)))):
            if time.monotonic() - began > CREATE_SECONDS_MAX:
                raise BrokerFailed(f"topics without leaders after {CREATE_SECONDS_MAX:.0f} s")
            time.sleep(0.5)
    return time.monotonic() - began


def _compare(bench: Bench, sides: Sides, load: str, part: Part) -> None:
    """Compare CPU per request, and round trips per second."""
    saturate = partial(_saturate, part)
    bench.settle(sides, lambda broker: saturate(broker).value, SETTLE_CPU_SECONDS)
    bench.compare(Row(CASE, load, "CPU µs/request", None), sides.running, saturate, missing=sides.missing)
    row = Row(CASE, f"{load}, 1 in flight", "requests/s", None)
    bench.compare(row, sides.running, partial(_round_trips, part), missing=sides.missing)


def _saturate(part: Part, broker: Broker) -> Sample:
    result = _load(part, broker, CONNECTIONS, IN_FLIGHT, CPU_SECONDS)
    return load_sample(result["broker_cpu_seconds"] / result["requests"] * 1e6, result, broker)


def _round_trips(part: Part, broker: Broker) -> Sample:
    result = _load(part, broker, 1, 1, TRIP_SECONDS)
    return load_sample(result["requests"] / result["seconds"], result, broker)


def _load(part: Part, broker: Broker, lanes: int, in_flight: int, seconds: float) -> dict[str, Any]:
    spec = {
        "port": broker.port,
        "broker_pid": broker.pid,
        "lanes": lanes,
        "in_flight": in_flight,
        "seconds": seconds,
        **part,
    }
    return run_load("broker.control_requests", spec)
