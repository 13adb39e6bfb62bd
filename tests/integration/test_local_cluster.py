"""A local cluster of three brokers: commands, the loss of brokers and of ZooKeeper, growth.

The tests share a cluster and leave it with all replicas in sync.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.local_cluster import LocalCluster

TOPIC = "letters"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("local") / "cluster")
    session = ("--set", "zookeeper.session.timeout.ms=3000")
    try:
        cluster.run("up", "--brokers", "3", "--racks", "a,b,c", "--detach", *session)
        cluster.tool("topics", "create", TOPIC, "--partitions", "3")
        yield cluster
    finally:
        cluster.run("down", status=None)


def is_in_sync(status: dict[str, object]) -> bool:
    return status["observed"] is True and status["under_replicated_partitions"] == 0


def write(cluster: LocalCluster, *values: str) -> None:
    # Without idempotence: brokers get producer ids, a block at a time, from ZooKeeper.
    options = ("--acks", "all", "-X", "enable.idempotence=false")
    cluster.tool("produce", TOPIC, *options, stdin="\n".join(values) + "\n")


def read(cluster: LocalCluster) -> set[str]:
    return set(cluster.tool("consume", TOPIC, "--from-beginning", "--until-end").splitlines())


def test_cluster_is_ready(cluster: LocalCluster) -> None:
    write(cluster, "first")
    status = cluster.wait_for(is_in_sync)
    assert [broker["state"] for broker in status["brokers"]] == ["running"] * 3
    assert [broker["rack"] for broker in status["brokers"]] == ["a", "b", "c"]
    assert sum(broker["leaders"] for broker in status["brokers"]) == 3
    assert [broker["lag_records"] for broker in status["brokers"]] == [0, 0, 0]
    assert status["controller"] in (1, 2, 3)
    assert status["zookeeper"]["state"] == "running"
    assert "first" in read(cluster)


def test_second_up_says_that_the_cluster_is_running(cluster: LocalCluster) -> None:
    assert "is already running (3 brokers)" in cluster.run("up", "--detach")
    assert "running with other options (--racks)" in cluster.run("up", "--detach", "--racks", "x", status=1)
    assert "broker 3 has" in cluster.run("up", "--detach", "--brokers", "2", status=1)


def test_killed_broker_leaves_the_isr_and_comes_back(cluster: LocalCluster) -> None:
    assert cluster.run("kill", "2") == "broker 2 killed\n"
    status = cluster.wait_for(
        lambda status: status["under_replicated_partitions"] == 3 and status["offline_partitions"] == 0
    )
    assert status["brokers"][1]["state"] == "stopped"
    assert status["brokers"][1]["leaders"] == 0
    write(cluster, "while broker 2 is dead")
    cluster.run("start", "2")
    assert cluster.run("wait") == "all replicas are in sync\n"
    assert "while broker 2 is dead" in read(cluster)


def test_killed_broker_is_started_within_its_session(cluster: LocalCluster) -> None:
    cluster.run("kill", "3")
    assert "waiting for the session of its last process" in cluster.run("start", "3")
    cluster.run("wait")
    assert [broker["state"] for broker in cluster.status()["brokers"]] == ["running"] * 3


def test_paused_broker_is_replaced_and_follows_again(cluster: LocalCluster) -> None:
    controller = cluster.status()["controller"]
    cluster.run("pause", str(controller))
    status = cluster.wait_for(
        lambda status: (
            status["controller"] not in (None, controller)
            and status["under_replicated_partitions"] == 3
            and status["offline_partitions"] == 0
        )
    )
    assert status["brokers"][controller - 1]["state"] == "paused"
    write(cluster, "while the controller is paused")
    cluster.run("resume", str(controller))
    cluster.run("wait")
    assert "while the controller is paused" in read(cluster)


def test_preferred_leaders_are_elected_after_a_restart(cluster: LocalCluster) -> None:
    assert cluster.run("stop", "3") == "broker 3 stopped\n"
    assert cluster.status()["brokers"][2]["leaders"] == 0
    cluster.run("start", "3")
    cluster.run("wait")
    cluster.tool("elect-leaders", "--election-type", "preferred", "--all-topic-partitions")
    status = cluster.wait_for(lambda status: status["brokers"][2]["leaders"] == 1)
    assert [broker["leaders"] for broker in status["brokers"]] == [1, 1, 1]


def test_brokers_serve_without_zookeeper_and_up_starts_it_again(cluster: LocalCluster) -> None:
    cluster.run("kill", "zookeeper")
    write(cluster, "while ZooKeeper is dead")
    assert "ZooKeeper" in cluster.run("up", "--detach")
    cluster.run("wait")
    assert "while ZooKeeper is dead" in read(cluster)


def test_new_broker_joins(cluster: LocalCluster) -> None:
    cluster.run("up", "--detach", "--brokers", "4")
    status = cluster.status()
    assert [broker["state"] for broker in status["brokers"]] == ["running"] * 4
    assert status["brokers"][3]["replicas"] == 0
    assert "broker 4 stopped" in cluster.run("up", "--detach", "--brokers", "3")
    assert len(cluster.status()["brokers"]) == 3


def test_logs_of_all_members(cluster: LocalCluster) -> None:
    lines = cluster.run("logs").splitlines()
    assert {line.partition(" |")[0].strip() for line in lines} >= {"broker-1", "broker-2", "broker-3"}
    assert not any("Traceback" in line for line in cluster.run("logs", "--lines", "10000").splitlines())


def test_data_survives_down_and_up(cluster: LocalCluster) -> None:
    before = read(cluster)
    assert cluster.run("down").splitlines()[-1] == "ZooKeeper stopped"
    assert "is not running" in cluster.run("down")
    cluster.run("up", "--detach")
    assert read(cluster) == before
    cluster.run("wait")
