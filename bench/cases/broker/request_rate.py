"""B5: one-record requests per second on one connection, 100 B, 1 and 5 in flight.

With one in flight this is the round trip: neither side is saturated. With five the broker may overlap
requests.
"""

from __future__ import annotations

from bench.fixtures.topic_fill import TopicFill, fill
from bench.harness import SETTLE_CPU_SECONDS, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "B5"
SECONDS = 1.5
SIZE = 100
LANES = 4  # connections during warm-up; a measurement has one
FETCH_TOPIC = "one-record"
GOAL = Goal("ratio", "≥", 1.0)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        for broker in sides.running.values():
            fill(bench, broker, FETCH_TOPIC, TopicFill(partitions=LANES, batches=10, records=1, size=SIZE))
        for api in ("produce", "fetch"):

            def cpu_seconds(broker: Broker, api: str = api) -> float:
                return _cpu_seconds(_measure(bench, broker, api, 5, lanes=LANES))

            bench.settle(sides, cpu_seconds, SETTLE_CPU_SECONDS)
            for in_flight in (1, 5):
                row = Row(CASE, f"{api}, {in_flight} in flight", "requests/s", GOAL)

                def measure(broker: Broker, api: str = api, in_flight: int = in_flight) -> Sample:
                    return _measure(bench, broker, api, in_flight)

                bench.compare(row, sides.running, measure, missing=sides.missing)


def _cpu_seconds(sample: Sample) -> float:
    """Return the broker's CPU per request."""
    return sample.cost["broker_share"] / sample.value


def _measure(bench: Bench, broker: Broker, api: str, in_flight: int, lanes: int = 1) -> Sample:
    topic = FETCH_TOPIC
    if api == "produce":
        topic = bench.fresh_name("requests")
        broker.create_topic(topic, lanes)
    spec = {
        "api": api,
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": list(range(lanes)),
        "records": 1,
        "size": SIZE,
        "offsets": [0],
        "bytes_max": 1,  # a broker returns the first batch completely, and no more
        "seed": bench.seed,
        "in_flight": in_flight,
        "seconds": SECONDS,
    }
    result = run_load("broker.requests", spec)
    if api == "produce":
        broker.delete_topic(topic)
    return load_sample(result["requests"] / result["seconds"], result, broker)
