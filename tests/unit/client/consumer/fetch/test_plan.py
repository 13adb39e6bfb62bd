"""Planning of fetches: brokers, offsets, order, and the Fetch request."""

from __future__ import annotations

from types import MappingProxyType

from odradek.client.consumer.fetch.plan import (
    SHORT_WAIT_MS,
    STOP_BYTES_MIN,
    FetchConfig,
    FetchPlan,
    fetch_request,
    plan_fetches,
)
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.network.metadata import ClusterMetadata, topic_metadata
from odradek.client.values import Node, PartitionInfo
from odradek.cluster.fetch_session_handler import (
    FetchSessionHandler,
    FetchSessionRequest,
    PartitionFetch,
)
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.records.layout import INT32_MAX, INT64_MAX
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.fetch import FetchRequest

A_ID = b"a" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CONFIG = FetchConfig(1, 5000, 500, 1000, False, "here")
METADATA = ClusterMetadata(
    1,
    "c",
    1,
    MappingProxyType({1: Node(1, "h", 1), 2: Node(2, "h", 2)}),
    MappingProxyType(
        {"a": topic_metadata("a", A_ID, [PartitionInfo("a", i, 1, (1,), (1,), (), 4) for i in (0, 1)])}
    ),
)


def assigned_to(**leaders: int) -> SubscriptionState:
    state = SubscriptionState(OffsetReset.LATEST)
    named = {"a0": A0, "a1": A1, "b0": B0}
    state.assign([named[name] for name in leaders])
    for name, leader in leaders.items():
        state.of(named[name]).seek_validated(FetchPosition(10, -1, leader, 4))
    return state


def plan_of(
    state: SubscriptionState,
    *,
    nodes_in_flight: frozenset[int] = frozenset(),
    backing_off: frozenset[TopicPartition] = frozenset(),
    buffered: dict[TopicPartition, int | None] | None = None,
    now_ms: int = 0,
    metadata: ClusterMetadata = METADATA,
) -> FetchPlan:
    return plan_fetches(
        state.assigned,
        metadata,
        1000,
        now_ms,
        nodes_in_flight=nodes_in_flight,
        backing_off=backing_off,
        buffered_end=lambda partition: (buffered or {}).get(partition, -1),
    )


def test_partitions_are_fetched_from_leaders_in_order() -> None:
    state = assigned_to(a0=1, a1=1, b0=2)
    state.move_to_end(A0)
    plan = plan_of(state)
    assert {node: list(fetch.partitions) for node, fetch in plan.by_node.items()} == {1: [A1, A0], 2: [B0]}
    assert plan.by_node[1].partitions[A0] == PartitionFetch(A_ID, 10, 1000, 4)
    assert plan.by_node[2].partitions[B0].topic_id == ZERO_TOPIC_ID
    assert not plan.needs_metadata


def test_unknown_leader_needs_metadata() -> None:
    assert plan_of(assigned_to(a0=-1)).needs_metadata
    assert plan_of(assigned_to(a0=9)).needs_metadata
    assert plan_of(assigned_to(a0=9)).by_node == {}


def test_plan_skips_nodes_in_flight_and_unfetchable_partitions() -> None:
    state = assigned_to(a0=1, a1=1, b0=2)
    state.of(A0).paused = True
    assert list(plan_of(state, nodes_in_flight=frozenset({2})).by_node[1].partitions) == [A1]
    assert plan_of(state, backing_off=frozenset({A1, B0})).by_node == {}


def test_plan_with_buffered_partitions() -> None:
    state = assigned_to(a0=1, a1=1)
    plan = plan_of(state, buffered={A0: 77}).by_node[1]
    assert plan.partitions[A0].offset == 77
    assert not plan.is_short
    plan = plan_of(state, buffered={A0: None}).by_node[1]
    assert list(plan.partitions) == [A1]
    assert plan.is_short
    assert fetch_request(
        FetchSessionHandler().build(plan.partitions), CONFIG, by_id=True, is_short=True
    ).max_wait_ms == (SHORT_WAIT_MS)


def test_preferred_replica_is_used_while_alive() -> None:
    state = assigned_to(a0=1)
    state.of(A0).prefer(2, until_ms=50)
    assert list(plan_of(state, now_ms=50).by_node) == [2]
    assert list(plan_of(state, now_ms=51).by_node) == [1]
    state.of(A0).prefer(9, until_ms=50)
    assert list(plan_of(state).by_node) == [1]


def test_preferred_replica_in_a_failed_log_directory_is_not_used() -> None:
    infos = [PartitionInfo("a", number, 1, (1, 2), (1,), (2,) if number == 0 else (), 4) for number in (0, 1)]
    metadata = METADATA._replace(topics=MappingProxyType({"a": topic_metadata("a", A_ID, infos)}))
    state = assigned_to(a0=1, a1=1)
    for partition in (A0, A1):
        state.of(partition).prefer(2, until_ms=50)
    plan = plan_of(state, metadata=metadata)
    assert {node: list(fetch.partitions) for node, fetch in plan.by_node.items()} == {1: [A0], 2: [A1]}


def test_request_versions_with_sessions() -> None:
    session = FetchSessionRequest(7, 3, {A0: PartitionFetch(A_ID, 10, 1000, 4)}, {A1: A_ID}, {}, True)
    request = fetch_request(session, CONFIG, by_id=True)
    for version in range(7, 18):
        wire = encoder(FetchRequest, version)(request)
        got, _ = decoder(FetchRequest, version)(memoryview(wire), 0)
        assert (got.max_wait_ms, got.min_bytes, got.max_bytes) == (500, 1, 5000)
        assert got.topics[0].partitions[0].fetch_offset == 10
        assert (got.session_id, got.session_epoch) == (7, 3)
        assert got.forgotten_topics_data[0].partitions == [1]
        assert (got.topics[0].topic_id == A_ID) is (version >= 13)
        assert (got.topics[0].topic == "a") is (version < 13)


def test_request_versions_without_sessions() -> None:
    request = fetch_request(
        FetchSessionHandler().build({A0: PartitionFetch(A_ID, 10, 1000, 4)}), CONFIG, by_id=False
    )
    for version in range(4, 7):
        got, _ = decoder(FetchRequest, version)(memoryview(encoder(FetchRequest, version)(request)), 0)
        assert got.topics[0].topic == "a"


def test_recreated_topic_is_forgotten_only_with_ids() -> None:
    session = FetchSessionRequest(7, 3, {A0: PartitionFetch(A_ID, 0, 1000, 4)}, {}, {A0: b"o" * 16}, True)
    assert fetch_request(session, CONFIG, by_id=True).forgotten_topics_data[0].topic_id == b"o" * 16
    assert fetch_request(session, CONFIG, by_id=False).forgotten_topics_data == []


def test_plan_skips_partitions_at_stop_offset() -> None:
    state = assigned_to(a0=1, a1=1)
    state.of(A0).stop_offset = 10
    state.of(A1).stop_offset = 11
    assert list(plan_of(state).by_node[1].partitions) == [A1]
    plan = plan_of(state, buffered={A1: 11})
    assert plan.by_node == {}


def test_partition_at_stop_offset_does_not_shorten_wait() -> None:
    state = assigned_to(a0=1, a1=1)
    state.of(A0).stop_offset = 20
    assert not plan_of(state, buffered={A0: 20}).by_node[1].is_short


def test_fetch_size_is_limited_by_stop_offset() -> None:
    def requested_bytes(stop_offset: int, offset_bytes: float, partition_max_bytes: int = 8_000_000) -> int:
        state = assigned_to(a0=1)
        state.of(A0).stop_offset = stop_offset
        state.of(A0).offset_bytes = offset_bytes
        plan = plan_fetches(
            state.assigned,
            METADATA,
            partition_max_bytes,
            0,
            nodes_in_flight=(),
            backing_off=(),
            buffered_end=lambda _: -1,
        )
        return plan.by_node[1].partitions[A0].max_bytes

    assert requested_bytes(INT64_MAX, 1) == 8_000_000
    assert requested_bytes(10 + 20_000, 100) == 2_500_000
    assert requested_bytes(10 + 20_000, 100, partition_max_bytes=50_000) == 50_000
    assert requested_bytes(10 + 10_000_000, 100) == 8_000_000
    assert requested_bytes(11, 100) == STOP_BYTES_MIN
    assert requested_bytes(INT64_MAX - 1, 1e9, partition_max_bytes=INT32_MAX) == INT32_MAX
