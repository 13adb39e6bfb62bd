"""Refusals and plans of a transfer, from plain values."""

from __future__ import annotations

import pytest

from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
    encode_cluster_id,
    encode_partition_state,
    encode_producer_id_block,
    encode_topic,
)
from odradek.store.port import CreateOp, Node, SetDataOp, Stat
from odradek.store.transfer.transfer_mark import TransferKind, TransferMark
from odradek.store.transfer.transfer_plan import (
    WINDOW_BYTES_MAX,
    WINDOW_OPS_MAX,
    LogDirsIdentity,
    PlannedNode,
    StoreState,
    TransferRefused,
    copied_nodes,
    decide_adoption,
    obsolete_nodes,
    plan_copy,
    plan_windows,
    release_problems,
    store_state,
    write_ops,
)

IDENTITY = LogDirsIdentity("c1", frozenset({0}))
SOURCE = StoreState("c1")
MARK = TransferMark(TransferKind.ADOPTION, "c1", 0, 1)
RELEASED = TransferMark(TransferKind.RELEASE, "c1", 1, 1)


def node(data: bytes = b"", version: int = 0, owner: int = 0) -> Node:
    return data, Stat(1, 1, 1, version, 0, owner, 0, 0, 0)


def topic(*replicas: int) -> Node:
    return node(encode_topic(TopicAssignment(bytes(16), {0: ReplicaAssignment(replicas)})))


def state(*isr: int) -> Node:
    return node(encode_partition_state(LeaderIsrAndControllerEpoch(isr[0], 3, isr, 2)))


def cluster(**others: Node) -> dict[str, Node]:
    """A cluster of broker 1 with one topic; nodes by path with _ for slashes."""
    return {
        "/cluster/id": node(encode_cluster_id("c1")),
        "/brokers/topics/letters": topic(1),
        "/brokers/topics/letters/partitions/0/state": state(1),
        **others,
    }


# Adoption.


def test_empty_zookeeper_adopts_under_the_same_id_or_another() -> None:
    decision = decide_adoption(IDENTITY, SOURCE, StoreState())
    assert decision == (TransferMark(TransferKind.ADOPTION, "c1", 0, 0), False)
    assert decide_adoption(IDENTITY, SOURCE, StoreState(), 1) == (MARK, False)


def test_marked_stores_go_on() -> None:
    source = SOURCE._replace(mark=MARK)
    assert decide_adoption(IDENTITY, source, StoreState()) == (MARK, False)
    assert decide_adoption(IDENTITY, source, StoreState(mark=MARK), 1) == (MARK, False)


def test_adoption_is_complete_once_zookeeper_has_the_cluster_id() -> None:
    """Other brokers may have joined by then, and the broker id may be written to some directories."""
    identity = LogDirsIdentity("c1", frozenset({0, 1}))
    target = StoreState("c1", registered=(2,), topics=("letters",))
    assert decide_adoption(identity, SOURCE._replace(mark=MARK), target) == (MARK, True)


def test_released_cluster_is_replaced() -> None:
    target = StoreState("c1", RELEASED, topics=("letters", "old"))
    identity = LogDirsIdentity("c1", frozenset({1}))
    mark = TransferMark(TransferKind.ADOPTION, "c1", 1, 1, replaces=True)
    assert decide_adoption(identity, SOURCE, target) == (mark, False)
    # Again after a crash before and after ZooKeeper was marked.
    source = SOURCE._replace(mark=TransferMark(TransferKind.ADOPTION, "c1", 1, 1))
    assert decide_adoption(identity, source, target) == (mark, False)
    assert decide_adoption(identity, source, StoreState(mark=mark, topics=("old",))) == (mark, False)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (StoreState(), StoreState(), "no cluster id"),
        (StoreState("c2"), StoreState(), "must belong to the cluster of the embedded store, c2, got c1"),
        (SOURCE._replace(unknown_roots=("/future",)), StoreState(), "/future"),
        (SOURCE, StoreState("c2"), "already has cluster c2"),
        (SOURCE, StoreState("c1"), "not from this embedded store"),
        (SOURCE, StoreState(topics=("a", "b")), r"already has topics \(a, b\)"),
        (SOURCE, StoreState(registered=(4,)), "registered in ZooKeeper: 4"),
        (SOURCE, StoreState(mark=TransferMark(TransferKind.ADOPTION, "c2", 0, 0)), "adoption of cluster c2"),
        (SOURCE, StoreState("c2", TransferMark(TransferKind.RELEASE, "c2", 0, 0)), "release of cluster c2"),
        (SOURCE, StoreState(mark=MARK), "another attempt"),
        (
            SOURCE._replace(mark=MARK),
            StoreState(mark=TransferMark(TransferKind.ADOPTION, "c1", 0, 5)),
            "another attempt",
        ),
    ],
)
def test_adoption_is_refused(source: StoreState, target: StoreState, reason: str) -> None:
    with pytest.raises(TransferRefused, match=reason):
        decide_adoption(IDENTITY, source, target)


def test_broker_ids_must_fit() -> None:
    with pytest.raises(TransferRefused, match=r"same in all log\.dirs, got 0, 3"):
        decide_adoption(LogDirsIdentity("c1", frozenset({0, 3})), SOURCE, StoreState())
    with pytest.raises(TransferRefused, match="must be 0, 1, got 7"):
        decide_adoption(LogDirsIdentity("c1", frozenset({7})), SOURCE._replace(mark=MARK), StoreState())
    with pytest.raises(TransferRefused, match="--broker-id must be 1, as when the adoption began, got 2"):
        decide_adoption(IDENTITY, SOURCE._replace(mark=MARK), StoreState(), 2)


# Copy.


def test_ephemerals_notifications_and_the_cluster_id_are_not_copied() -> None:
    nodes = {
        "/brokers": node(),
        "/brokers/ids": node(),
        "/brokers/ids/0": node(b"x", owner=5),
        "/config/changes": node(),
        "/config/changes/config_change_0000000001": node(b"x"),
        "/controller": node(b"x", owner=5),
        "/cluster/id": node(b"x"),
        "/isr_change_notification/isr_change_0000000000": node(b"x"),
        "/consumers/g/ids/c": node(b"x", owner=5),
        "/consumers/g/offsets/t/0": node(b"42"),
    }
    copied = plan_copy(nodes, 0, 0)
    assert [planned.path for planned in copied] == [
        "/brokers",
        "/brokers/ids",
        "/config/changes",
        "/consumers/g/offsets/t/0",
    ]
    assert copied[-1].data == b"42"


def test_versions_are_planned_for_counters_only() -> None:
    nodes = {"/brokers/seqid": node(version=3), "/controller_epoch": node(b"9", version=9)}
    assert plan_copy(nodes, 0, 0) == [
        PlannedNode("/brokers/seqid", b"", 3),
        PlannedNode("/controller_epoch", b"9"),
    ]
    with pytest.raises(TransferRefused, match="/brokers/seqid must be at most"):
        plan_copy({"/brokers/seqid": node(version=1_000_000)}, 0, 0)


def test_windows_have_a_bound_and_keep_the_order() -> None:
    planned = [PlannedNode(f"/n{number:05}", b"x" * 1000) for number in range(1200)]
    windows = list(plan_windows(planned))
    assert [planned_node for window in windows for planned_node in window] == planned
    assert all(len(window) <= WINDOW_OPS_MAX for window in windows)
    assert all(sum(len(n.data) + len(n.path) for n in window) <= WINDOW_BYTES_MAX for window in windows)
    large = PlannedNode("/large", b"x" * (WINDOW_BYTES_MAX + 1))
    assert list(plan_windows([large, large])) == [[large], [large]]
    assert list(plan_windows([])) == []


def ops_of(planned: PlannedNode, existing: Node | None) -> list[tuple[str, bytes]]:
    return [
        (type(op).__name__, op.data)
        for op in write_ops([planned], [existing])
        if isinstance(op, CreateOp | SetDataOp)
    ]


def test_only_different_nodes_are_written() -> None:
    planned = PlannedNode("/a", b"new")
    assert ops_of(planned, None) == [("CreateOp", b"new")]
    assert ops_of(planned, node(b"old")) == [("SetDataOp", b"new")]
    assert ops_of(planned, node(b"new")) == []


def test_version_is_raised_to_the_planned_one() -> None:
    planned = PlannedNode("/brokers/seqid", b"", 3)
    assert len(ops_of(planned, None)) == 4
    assert len(ops_of(planned, node(version=2))) == 1
    assert ops_of(planned, node(version=8)) == []


def test_epochs_and_producer_ids_never_go_back() -> None:
    assert ops_of(PlannedNode("/controller_epoch", b"9"), node(b"12")) == []
    assert ops_of(PlannedNode("/controller_epoch", b"12"), node(b"9")) == [("SetDataOp", b"12")]
    low, high = (encode_producer_id_block(ProducerIdBlock(0, n, n + 999)) for n in (0, 1000))
    path = "/latest_producer_id_block"
    assert ops_of(PlannedNode(path, low), node(high)) == []
    assert ops_of(PlannedNode(path, b""), node(high)) == []
    assert ops_of(PlannedNode(path, high), node(low)) == [("SetDataOp", high)]
    assert ops_of(PlannedNode(path, high), node(b"")) == [("SetDataOp", high)]


def test_obsolete_nodes_are_deleted_children_first() -> None:
    nodes = {path: node() for path in ("/cluster/id", "/brokers", "/brokers/topics", "/brokers/topics/old")}
    deletions = obsolete_nodes(nodes, [PlannedNode("/brokers", b"")])
    assert [op.path for op in deletions] == ["/brokers/topics/old", "/brokers/topics"]


def test_cancel_deletes_copied_nodes_and_keeps_others_with_their_parents() -> None:
    nodes = {path: node() for path in ("/config", "/config/users", "/config/users/u", "/config/topics")}
    planned = [PlannedNode(path, b"") for path in ("/config", "/config/users", "/config/topics", "/gone")]
    assert [op.path for op in copied_nodes(nodes, planned)] == ["/config/topics"]


# Release.

OWNER = LogDirsIdentity("c1", frozenset({1}))


def test_broker_with_every_partition_is_released() -> None:
    assert release_problems(cluster(), OWNER) == []


@pytest.mark.parametrize(
    ("others", "identity", "reason"),
    [
        ({}, LogDirsIdentity("c2", frozenset({1})), "ZooKeeper has cluster c1, log.dirs belong to c2"),
        ({}, LogDirsIdentity("c1", frozenset({1, 2})), "must be the same in all log.dirs, got 1, 2"),
        ({"/brokers/ids/3": node(b"x", owner=1)}, OWNER, "registered: 3"),
        ({"/brokers/topics/orders": topic(1, 2)}, OWNER, "orders-0; start the cluster"),
        ({"/brokers/topics/orders": topic(2)}, OWNER, "orders-0"),
        ({"/brokers/topics/letters/partitions/0/state": state(2)}, OWNER, r"letters-0 \(ISR\)"),
        ({"/admin/reassign_partitions": node(b"{}")}, OWNER, "reassignment was requested"),
    ],
)
def test_release_is_refused(others: dict[str, Node], identity: LogDirsIdentity, reason: str) -> None:
    import re

    (problem,) = release_problems(cluster(**others), identity)
    assert re.search(reason, problem)


def test_pending_reassignment_is_named() -> None:
    adding = TopicAssignment(bytes(16), {4: ReplicaAssignment((1,), adding=(2,))})
    (problem,) = release_problems(cluster(**{"/brokers/topics/orders": node(encode_topic(adding))}), OWNER)
    assert "orders-4" in problem


def test_state_names_topics_and_registered_brokers() -> None:
    nodes = cluster(**{"/brokers/ids/10": node(owner=1), "/brokers/ids/9": node(owner=1)})
    assert store_state(nodes, MARK, ["/odradek_transfer", "/x"]) == StoreState(
        "c1", MARK, (9, 10), ("letters",), ("/x",)
    )
