"""A running cluster of Apache Kafka becomes ours broker by broker, and Kafka's again, under load."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.mixed.harness.broker_spec import LATEST_IBP, Kind
from tests.mixed.harness.mixed_cluster import BROKERS
from tests.mixed.harness.tally import TALLY
from tests.mixed.migration.migrated_cluster import MigratedCluster
from tests.mixed.workload.workload import Workload
from tests.support.interbroker.clients import Clients

RECORDS_PER_STEP = 200


def replace(cluster: MigratedCluster, workload: Workload, broker: int, kind: Kind) -> str:
    """Replace a broker, wait until all replicas are in sync, give it its leaderships; describe the step."""
    before = workload.figures.acknowledged
    since = time.monotonic()
    cluster.replace(broker, kind)
    joined = time.monotonic()
    workload.spread_leaders()
    led = time.monotonic()
    for reader in workload.readers:
        reader.replace_member()
    workload.make_progress(RECORDS_PER_STEP)
    records, transactions = workload.longest_gaps(since)
    return (
        f"{cluster.kind_names}, controller {cluster.controller_name}: joined after {joined - since:.1f} s, "
        f"led after {led - since:.1f} s, {workload.figures.acknowledged - before} acknowledged; longest "
        f"without an acknowledgement {records}, without the end of a transaction {transactions}"
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ibp", [LATEST_IBP, "2.8"])
def test_kafka_is_replaced_by_ours_and_back_under_load(
    classpath: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], ibp: str
) -> None:
    def show(line: object) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    cluster = MigratedCluster(classpath, tmp_path / "migrated", ibp)
    try:
        cluster.start_all()
        with Workload(cluster, Clients(cluster.bootstrap), "migrated") as workload:
            workload.spread_leaders()
            workload.make_progress(RECORDS_PER_STEP)
            for kind in (Kind.ODRADEK, Kind.KAFKA):
                for broker in BROKERS:
                    show(replace(cluster, workload, broker, kind))
                with workload.quiet():
                    workload.check()
                    figures = workload.figures
                    show(figures)
                assert cluster.specs[cluster.znodes.controller()].kind is kind
    finally:
        cluster.close()
    TALLY.acknowledged += figures.acknowledged


@pytest.mark.timeout(900)
def test_killed_broker_is_replaced_by_the_other_kind_and_back(classpath: str, tmp_path: Path) -> None:
    cluster = MigratedCluster(classpath, tmp_path / "killed", LATEST_IBP)
    try:
        cluster.start_all()
        with Workload(cluster, Clients(cluster.bootstrap), "killed") as workload:
            workload.spread_leaders()
            workload.make_progress(RECORDS_PER_STEP)
            for kind in (Kind.ODRADEK, Kind.KAFKA):
                cluster.replace_killed(0, kind)
                workload.spread_leaders()
                workload.make_progress(RECORDS_PER_STEP)
                with workload.quiet():
                    workload.check()
            TALLY.acknowledged += workload.figures.acknowledged
    finally:
        cluster.close()
