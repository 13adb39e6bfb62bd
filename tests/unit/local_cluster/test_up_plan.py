"""The cluster that ``up`` starts, and what it refuses."""

from __future__ import annotations

import pytest

from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.local_cluster.errors import ClusterError
from odradek.local_cluster.member_order import start_batches, stop_batches
from odradek.local_cluster.up_plan import ExistingCluster, UpOptions, check_entries, check_ports, plan_up

BEFORE = ClusterSpec(3, 9092, 21810, ("a",), {"num.partitions": "6"})
RUNNING = ("zookeeper", "broker-1")


def plan(
    previous: ClusterSpec | None, options: UpOptions, running: tuple[str, ...] = (), directory: str = "c"
) -> ClusterSpec:
    existing = None if previous is None else ExistingCluster(previous, running)
    return plan_up(existing, options, directory, lambda: 20_000)


def test_new_cluster_has_three_brokers_on_kafkas_port() -> None:
    assert plan(None, UpOptions()) == ClusterSpec(3, 9092, 20_000)


def test_options_of_a_new_cluster() -> None:
    options = UpOptions(2, 19_092, 2181, ("a", "b"), {"num.partitions": "6"})
    assert plan(None, options) == ClusterSpec(2, 19_092, 2181, ("a", "b"), {"num.partitions": "6"})


def test_cluster_stays_as_it_was_without_options() -> None:
    assert plan(BEFORE, UpOptions()) == BEFORE
    assert plan(BEFORE, UpOptions(), RUNNING) == BEFORE
    same = UpOptions(3, 9092, 21810, ("a",), {"num.partitions": "6"})
    assert plan(BEFORE, same, RUNNING) == BEFORE


def test_running_cluster_grows() -> None:
    assert plan(BEFORE, UpOptions(brokers=5), RUNNING) == BEFORE._replace(brokers=5)


def test_stopped_cluster_takes_other_options() -> None:
    options = UpOptions(None, 19_092, 2181, (), {"log.retention.hours": "1"})
    settings = {"num.partitions": "6", "log.retention.hours": "1"}
    assert plan(BEFORE, options) == ClusterSpec(3, 19_092, 2181, (), settings)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (UpOptions(port=19_092), "--port"),
        (UpOptions(zookeeper_port=2181), "--zookeeper-port"),
        (UpOptions(racks=("b",)), "--racks"),
        (UpOptions(settings={"num.partitions": "7"}), "--set"),
        (UpOptions(port=19_092, racks=()), "--port, --racks"),
    ],
)
def test_running_cluster_refuses_other_options(options: UpOptions, names: str) -> None:
    with pytest.raises(
        ClusterError, match=rf"the cluster in c is running with other options \({names}\)"
    ) as e:
        plan(BEFORE, options, RUNNING)
    assert "stop it first with `odradek cluster down -d c`" in str(e.value)


def shrink(replicas: dict[int, int] | None) -> ClusterSpec:
    existing = ExistingCluster(BEFORE, RUNNING, replicas)
    return plan_up(existing, UpOptions(brokers=1), "c", lambda: 20_000)


def test_brokers_without_replicas_are_removed() -> None:
    assert shrink({1: 7}) == BEFORE._replace(brokers=1)


def test_brokers_with_replicas_are_kept() -> None:
    with pytest.raises(
        ClusterError, match="--brokers must be at least 3, got 1: broker 3 has 2 replicas; move them"
    ):
        shrink({1: 7, 3: 2})


def test_brokers_are_kept_while_nobody_knows_of_their_replicas() -> None:
    with pytest.raises(
        ClusterError, match=r"while no broker responds, got 1: .* `odradek cluster up --detach -d"
    ):
        shrink(None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (UpOptions(brokers=0), "--brokers must be between 1 and 20, got 0"),
        (UpOptions(brokers=21), "--brokers must be between 1 and 20, got 21"),
        (UpOptions(port=0), "--port must leave room for 3 ports up to 65535, got 0"),
        (UpOptions(port=65_534), "--port must leave room for 3 ports up to 65535, got 65534"),
        (UpOptions(zookeeper_port=65_536), "--zookeeper-port must be between 1 and 65535, got 65536"),
        (UpOptions(zookeeper_port=9094), r"must not be a broker's port \(9092 to 9094\), got 9094"),
        (UpOptions(racks=("a", "")), "--racks must be names with commas between, got 'a,'"),
        (UpOptions(racks=(" a",)), "--racks must be names"),
        (UpOptions(settings={"broker.id": "7"}), "--set broker.id is not possible .*: brokers are numbered"),
        (UpOptions(settings={"listeners": "x"}), "--set listeners is not possible .*: use --port"),
        (UpOptions(settings={"zookeeper.connect": "x"}), "starts its own ZooKeeper"),
    ],
)
def test_invalid_options(options: UpOptions, problem: str) -> None:
    with pytest.raises(ClusterError, match=problem):
        plan(None, options)


@pytest.mark.parametrize("entries", [[], ["lock"], ["cluster.json", "broker-1", "notes.txt"]])
def test_directory_of_a_cluster(entries: list[str]) -> None:
    check_entries(entries, "c")


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["meta.properties", "a-0"], "c holds the data of a single broker; choose another --directory"),
        (["odradek-store.sqlite"], "c holds the data of a single broker"),
        (["notes.txt", "lock"], r"c is not empty and holds no cluster \(notes.txt\)"),
    ],
)
def test_directory_of_something_else(entries: list[str], problem: str) -> None:
    with pytest.raises(ClusterError, match=problem):
        check_entries(entries, "c")


def test_free_ports_are_accepted() -> None:
    check_ports(BEFORE, BEFORE.members, lambda port: True)
    check_ports(BEFORE, ["broker-2"], lambda port: port != 9092)


@pytest.mark.parametrize(
    ("busy", "problem"),
    [
        ({9092}, r"port 9092 \(broker 1\) is in use by another program; stop it, or use --port 9102"),
        ({9093, 9094, 9103}, r"port 9093 \(broker 2\), 9094 \(broker 3\) are in use .* use --port 9112"),
        ({21810}, r"port 21810 \(ZooKeeper\) is in use by another program; .* use --zookeeper-port 21820"),
        (set(range(65536)), r"port 21810 \(ZooKeeper\), 9092 .* are in use .* use --zookeeper-port$"),
    ],
)
def test_busy_ports_are_named_with_free_ones(busy: set[int], problem: str) -> None:
    with pytest.raises(ClusterError, match=problem):
        check_ports(BEFORE, BEFORE.members, lambda port: port not in busy)


def test_zookeeper_starts_before_brokers() -> None:
    assert start_batches(["broker-2", "zookeeper", "broker-1"]) == [["zookeeper"], ["broker-2", "broker-1"]]
    assert start_batches(["broker-2"]) == [["broker-2"]]
    assert start_batches([]) == []


def test_controller_stops_after_other_brokers_and_zookeeper_last() -> None:
    members = ["zookeeper", "broker-1", "broker-2", "broker-3"]
    assert stop_batches(members, 2) == [["broker-1", "broker-3"], ["broker-2"], ["zookeeper"]]
    assert stop_batches(members, None) == [["broker-1", "broker-2", "broker-3"], ["zookeeper"]]
    assert stop_batches(["zookeeper"], 2) == [["zookeeper"]]
    assert stop_batches(["broker-2"], 2) == [["broker-2"]]
