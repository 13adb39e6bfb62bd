"""Record the traffic of an Apache Kafka cluster into tests/golden/cluster::

    python -m tests.support.interbroker.record             # all protocol versions, about 20 minutes
    python -m tests.support.interbroker.record 2.8 3.9     # some of them

Fixtures of a protocol version are replaced only after all its scenarios have succeeded. ``--work DIR`` keeps
the complete timelines, the brokers' logs and their output.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from tests.support.apache_kafka import fetched_jars
from tests.support.interbroker.kafka_cluster import KafkaCluster
from tests.support.interbroker.scenarios import CLEAN, FIRST_USES, FULL, SHORT, Scenario, Stage
from tests.support.interbroker.selection import select
from tests.support.interbroker.timeline import (
    brokers_by_session,
    format_timeline,
    format_tree,
    messages_of,
    znode_writes_of,
)

KAFKA = "3.9.1"
GOLDEN = Path(__file__).parents[2] / "golden" / "cluster"
RECORDINGS: dict[str, tuple[Scenario, ...]] = {
    "2.8": SHORT,
    "3.0": SHORT,
    "3.1": FIRST_USES,
    "3.2": FIRST_USES,
    "3.3": SHORT,
    "3.4": SHORT,
    "3.5": FIRST_USES,
    "3.7": FIRST_USES,
    "3.9": FULL,
}
"""Scenarios by inter-broker protocol version."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*", default=list(RECORDINGS))
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    jars = fetched_jars(KAFKA)
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        for ibp in arguments.versions:
            _record(jars, work / ibp, ibp)
            _replace(GOLDEN / ibp, work / ibp / "fixtures")


def _record(jars: Path, home: Path, ibp: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    for folder in ("fixtures", "complete"):
        (home / folder).mkdir(parents=True)
    cluster = KafkaCluster(jars, home, ibp)
    try:
        stage = Stage(cluster)
        for scenario in RECORDINGS[ibp]:
            if scenario in CLEAN and RECORDINGS[ibp] is FULL:
                stage.delete_topics()
            _record_scenario(stage, scenario, home)
            print(f"{ibp} {scenario.__name__}", flush=True)
        text = format_tree(cluster.tree(), brokers_by_session(cluster.writes()))
        (home / "fixtures" / "znodes.txt").write_text(text)
    finally:
        cluster.close()


def _record_scenario(stage: Stage, scenario: Scenario, home: Path) -> None:
    cluster = stage.cluster
    first_exchange, first_write = len(cluster.recorder.exchanges), len(cluster.writes())
    start_ms = time.time_ns() // 1_000_000
    scenario(stage)
    cluster.settle()
    exchanges = cluster.recorder.exchanges[first_exchange:]
    writes = cluster.writes()
    znodes = znode_writes_of(writes[first_write:], brokers_by_session(writes), start_ms)
    messages = messages_of(exchanges, start_ms)
    for folder, chosen in (("fixtures", select(messages)), ("complete", messages)):
        text = f"# {scenario.__doc__}\n{format_timeline([*znodes, *chosen])}"
        (home / folder / f"{scenario.__name__}.txt").write_text(text)


def _replace(target: Path, source: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


if __name__ == "__main__":
    main()
