"""Run the benchmarks: `python -m bench [CASE…]` from the root of the repository.

Environment: ONLY=B1,B2 (the same as arguments), PAIRS=9, FULL=1, SEED=7, SUBJECT=kafka (Kafka against itself,
to check the method: every ratio must be about 1), PEER=PATH (another `odradek` command instead of Kafka, to
measure a change), ODRADEK=PATH (another `odradek` command as our side, e.g. with another interpreter),
BENCH_CACHE, BENCH_DATA (directory of the brokers' data, with some GB free).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench.cases.broker import (
    cold_reader,
    consume_rate,
    control_requests,
    cpu_cost,
    exactly_once,
    hot_path,
    produce_rate,
    replicated,
    request_rate,
)
from bench.cases.client import consume as client_consume
from bench.cases.client import produce as client_produce
from bench.cases.client import record_codec
from bench.cases.operations import (
    cluster_clients,
    cluster_scale,
    cluster_start,
    compaction_rate,
    group_size,
    leader_failover,
    memory,
    producer_ids,
    recovery_time,
    segment_growth,
    start_time,
    timer_queue,
)
from bench.cases.spark import latency as spark_latency
from bench.cases.spark import read as spark_read
from bench.cases.spark import write as spark_write
from bench.harness import PEER, SUBJECT, Bench
from bench.machine import facts
from bench.paths import RESULTS
from bench.peers.broker import Broker
from bench.peers.kafka import HEAP, JVM_FLAGS, KafkaBroker
from bench.peers.odradek import OdradekBroker, other_odradek
from bench.report import markdown, write_json

CASES: Mapping[str, Callable[[Bench], None]] = {
    "B1": produce_rate.run,
    "B2": consume_rate.run,
    "B3": cpu_cost.run,
    "B5": request_rate.run,
    "B6": exactly_once.run,
    "B7": cold_reader.run,
    "B8": replicated.run,
    "C1": client_produce.run,
    "C2": client_consume.run,
    "C3": record_codec.run,
    "G1": segment_growth.run,
    "G2": group_size.run,
    "G3": producer_ids.run,
    "H1": hot_path.run,
    "H2": control_requests.run,
    "O1": start_time.run,
    "O2": memory.run,
    "O3": recovery_time.run,
    "O4": leader_failover.run,
    "O5": timer_queue.run,
    "O6": compaction_rate.run,
    "O7": cluster_start.run,
    "O8": cluster_scale.run,
    "O9": cluster_clients.run,
    "S1": spark_read.run,
    "S2": spark_latency.run,
    "S3": spark_write.run,
}
PAIRS = 5
SEED = 1
VARIABLES = (
    "ONLY",
    "PAIRS",
    "FULL",
    "SEED",
    "SIZES",
    "TOPICS",
    "SHORT",
    "SUBJECT",
    "PEER",
    "ODRADEK",
    "BROKER",
    "ODRADEK_PURE",
)


def main(arguments: list[str]) -> int:
    chosen = _chosen_cases(arguments)
    unknown = [case for case in chosen if case not in CASES]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)} (available: {', '.join(CASES)})", file=sys.stderr)
        return 2
    _allow_many_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds and stops the brokers
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-", dir=os.environ.get("BENCH_DATA")) as folder:
        run_facts = facts()
        bench = _bench(Path(folder))
        for case in chosen:
            bench.log(f"{case} …")
            CASES[case](bench)
    run_facts |= {
        "variables": _variables(),
        **{f"version of {side}": version for side, version in bench.versions.items()},
        **bench.facts,
        "JVM of the peer": " ".join((f"-Xmx{HEAP}", f"-Xms{HEAP}", *JVM_FLAGS)),
        "pairs": str(bench.pairs),
        "seed": str(bench.seed),
        "seconds": f"{time.monotonic() - began:.0f}",
    }
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
    write_json(path, bench.rows, run_facts)
    table = markdown(bench.rows, run_facts)
    path.with_suffix(".md").write_text(table + "\n")
    print(table)
    bench.log(f"wrote {path.name} in {time.monotonic() - began:.0f} s")
    return 0


def _chosen_cases(arguments: list[str]) -> list[str]:
    parts = [*arguments, *os.environ.get("ONLY", "").split(",")]
    return [case for part in parts for case in part.replace(",", " ").split()] or list(CASES)


def _bench(folder: Path) -> Bench:
    other = os.environ.get("PEER")
    return Bench(
        {SUBJECT: _subject(), PEER: other_odradek(Path(other)) if other else KafkaBroker},
        pairs=int(os.environ.get("PAIRS", PAIRS)),
        full=os.environ.get("FULL", "") not in ("", "0"),
        seed=int(os.environ.get("SEED", SEED)),
        workspace=folder,
    )


def _subject() -> type[Broker]:
    if os.environ.get("SUBJECT") == "kafka":
        return KafkaBroker
    program = os.environ.get("ODRADEK")
    return other_odradek(Path(program), OdradekBroker.name) if program else OdradekBroker


def _variables() -> str:
    """Return the variables that select what is measured, as they were set."""
    return " ".join(f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name))


def _allow_many_files() -> None:
    """Raise the limit of open files: Kafka keeps every segment open, ten thousand in O1."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
