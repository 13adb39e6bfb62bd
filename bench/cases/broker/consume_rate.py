"""B2: fetch throughput of a broker in MB/s of values, 1 KB values in 6 partitions.

Tail: recently written records, all in the page cache, as for a reader close to its producer. Cold: the same
after the log files were flushed and evicted. Prepared fetches read the whole topic in steps of 1 MB and show
the broker's limit.
"""

from __future__ import annotations

from bench.fixtures.page_cache import must_evict
from bench.fixtures.topic_fill import TopicFill, fill, log_files
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "B2"
TOPIC = "consume"
CONTENT = TopicFill(partitions=6, batches=6000, records=64, size=1000)
CHUNK_BATCHES = 15  # just under 1 MB of complete batches
SECONDS = 2.0
GOAL = Goal("ratio", "≥", 1.2)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        for broker in sides.running.values():
            fill(bench, broker, TOPIC, CONTENT)
        bench.settle(sides, lambda b: _tail(b).cost["cpu_s_per_gb"])
        for load, measure in (
            ("librdkafka, tail", _tail),
            ("librdkafka, cold", _cold),
            ("prepared 1 MB fetches, tail", lambda broker: _prepared(bench, broker)),
        ):
            bench.compare(Row(CASE, load, "MB/s", GOAL), sides.running, measure, missing=sides.missing)


def _tail(broker: Broker) -> Sample:
    spec = {
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": TOPIC,
        "partitions": CONTENT.partitions,
        "size": CONTENT.size,
        "settings": {},
    }
    result = run_load("broker.consume", spec)
    return load_sample(result["bytes"] / MB / result["seconds"], result, broker, result["bytes"])


def _cold(broker: Broker) -> Sample:
    must_evict(log_files(broker, TOPIC))
    return _tail(broker)


def _prepared(bench: Bench, broker: Broker) -> Sample:
    chunk_offsets = CHUNK_BATCHES * CONTENT.records
    spec = {
        "api": "fetch",
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": TOPIC,
        "partitions": list(range(CONTENT.partitions)),
        "offsets": list(range(0, CONTENT.batches // CHUNK_BATCHES * chunk_offsets, chunk_offsets)),
        "bytes_max": CHUNK_BATCHES * CONTENT.batch_bytes(bench.seed),
        "in_flight": 1,
        "seconds": SECONDS,
    }
    result = run_load("broker.requests", spec)
    moved = result["requests"] * chunk_offsets * CONTENT.size
    return load_sample(moved / MB / result["seconds"], result, broker, moved)
