"""B8: three replicas on three brokers, acks=all: throughput, CPU of all brokers per GB, latencies.

Both clusters run for the whole case, each with its ZooKeeper, and get the same load in turn. Brokers and
generator share the cores: a busy side takes them from itself, so throughput is about CPU. Latencies are those
of an open loop at a fixed rate: publish is until the acknowledgement, end to end until a consumer has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from bench.harness import Bench, Goal, Row, Sample
from bench.loads.worker import run_load
from bench.meter import GB, MB, usage
from bench.peers.cluster import Cluster, cluster_of

CASE = "B8"
PARTITIONS = 6
SECONDS = 4.0
BYTES_MAX = 600 * MB
PACED_SECONDS = 8.0
WARM_UP_SECONDS = 2.0
WARM_UP_ROUNDS = 4
THROUGHPUT = Goal("ratio", "≥", 1.2)
CPU = Goal("ratio", "≤", 0.8)
P99 = Goal("ratio", "≤", 0.7)
GENERATOR_SHARE_MAX = 0.8


class Pace(NamedTuple):
    """A fixed rate of records. Settings are librdkafka's."""

    mb_per_second: float
    size: int
    linger_ms: int

    def __str__(self) -> str:
        return f"{self.mb_per_second:g} MB/s, {self.size} B, linger {self.linger_ms} ms"


def run(bench: Bench) -> None:
    with _clusters(bench) as (clusters, missing):
        for cluster in clusters.values():
            for _ in range(WARM_UP_ROUNDS):
                _produce(bench, cluster, 1000)
        for size in (1000, 100):
            _compare_throughput(bench, clusters, missing, size)
        for pace in _paces(bench.full):
            _compare_latency(bench, clusters, missing, pace)


def _paces(full: bool) -> list[Pace]:
    short = [Pace(1, 1000, 0), Pace(1, 1000, 5), Pace(5, 1000, 5)]
    return [*short, Pace(5, 1000, 0), Pace(1, 100, 5), Pace(20, 1000, 5)] if full else short


@contextmanager
def _clusters(bench: Bench) -> Iterator[tuple[dict[str, Cluster], dict[str, str]]]:
    with bench.brokers(pinned=False, running=False) as sides, ExitStack() as stack:
        clusters = {}
        for side, broker in sides.running.items():
            cluster = clusters[side] = cluster_of(broker, bench.fresh_directory("cluster"))
            stack.callback(cluster.close)
            cluster.launch()
            cluster.wait_until_ready()
        yield clusters, sides.missing


def _compare_throughput(
    bench: Bench, clusters: dict[str, Cluster], missing: dict[str, str], size: int
) -> None:
    cpu = Row(CASE, f"CPU of brokers, {size} B", "s/GB", CPU)
    side_of = {id(cluster): side for side, cluster in clusters.items()}
    rounds: dict[str, int] = dict.fromkeys(clusters, 0)

    def measure(cluster: Cluster) -> Sample:
        result = _produce(bench, cluster, size)
        side = side_of[id(cluster)]
        rounds[side] += 1
        if rounds[side] > 1:  # the first is the warm-up of the row
            cost = result["broker_cpu_seconds"] / (result["bytes"] / GB)
            cpu.samples.setdefault(side, []).append(Sample(cost))
        return Sample(result["bytes"] / MB / result["seconds"], _costs(cluster, result))

    row = Row(CASE, f"acks=all, RF 3, {size} B, {PARTITIONS} partitions", "MB/s", THROUGHPUT)
    bench.compare(row, clusters, measure, missing=missing)
    cpu.not_run.update(row.not_run)
    bench.rows.append(cpu)


def _compare_latency(bench: Bench, clusters: dict[str, Cluster], missing: dict[str, str], pace: Pace) -> None:
    """Add a row for each percentile. One comparison fills them all."""
    kinds = [(kind, name) for kind in ("publish", "end_to_end") for name in ("p50", "p99", "p99.9")]
    rows = {
        (kind, name): Row(
            CASE, f"{kind.replace('_', ' ')} {name}, {pace}", "ms", P99 if name == "p99" else None
        )
        for kind, name in kinds
    }
    side_of = {id(cluster): side for side, cluster in clusters.items()}
    first, *others = rows.items()

    def measure(cluster: Cluster) -> Sample:
        result = _paced(bench, cluster, pace)
        costs = _costs(cluster, result)
        for (kind, name), row in others:
            row.samples.setdefault(side_of[id(cluster)], []).append(Sample(result[f"{kind}_ms"][name], costs))
        return Sample(result["publish_ms"]["p50"], costs)

    bench.compare(first[1], clusters, measure, missing=missing, warm_up=False)
    for _, row in others:
        row.not_run.update(first[1].not_run)
        bench.rows.append(row)


def _costs(cluster: Cluster, result: dict[str, Any]) -> dict[str, float]:
    seconds = result["seconds"]
    return {
        "seconds": seconds,
        "broker_share": result["broker_cpu_seconds"] / seconds,
        "generator_share": result["generator_cpu_seconds"] / seconds,
        "others_share": result["others_cpu_seconds"] / seconds,
        "rss_peak_mb": sum(usage(pid).rss_peak_bytes for pid in cluster.members().brokers) / MB,
    }


def _produce(bench: Bench, cluster: Cluster, size: int) -> dict[str, Any]:
    topic = bench.fresh_name("replicated")
    cluster.create_topic(topic, PARTITIONS)
    spec = _spec(bench, cluster, topic, size) | {
        "seconds": SECONDS,
        "bytes_max": BYTES_MAX,
        "settings": {"acks": "all"},
    }
    result = run_load("broker.produce", spec, pinned=False)
    cluster.delete_topic(topic)
    return result


def _paced(bench: Bench, cluster: Cluster, pace: Pace) -> dict[str, Any]:
    topic = bench.fresh_name("paced")
    cluster.create_topic(topic, PARTITIONS)
    spec = _spec(bench, cluster, topic, pace.size) | {
        "rate": pace.mb_per_second * MB / pace.size,
        "seconds": PACED_SECONDS,
        "warm_up_seconds": WARM_UP_SECONDS,
        "settings": {"acks": "all", "linger.ms": pace.linger_ms},
    }
    result = run_load("broker.paced", spec, pinned=False)
    cluster.delete_topic(topic)
    share = result["generator_cpu_seconds"] / result["seconds"]
    if share > GENERATOR_SHARE_MAX:
        raise ConnectionError(f"generator must use <= {GENERATOR_SHARE_MAX} of a core, used {share:.2f}")
    return result


def _spec(bench: Bench, cluster: Cluster, topic: str, size: int) -> dict[str, Any]:
    return {
        "bootstrap": cluster.bootstrap,
        "broker_pid": list(cluster.members().brokers),
        "topic": topic,
        "partitions": PARTITIONS,
        "size": size,
        "seed": bench.seed,
    }
