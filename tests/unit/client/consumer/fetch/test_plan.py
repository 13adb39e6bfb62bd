"""Who is asked for what: brokers, offsets, order, and the words of the request."""

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
from odradek.client.consumer.fetch.session_handler import (
    FetchSessionHandler,
    FetchSessionRequest,
    PartitionFetch,
)
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.network.metadata import ClusterMetadata, topic_metadata
from odradek.client.values import Node, PartitionInfo
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.records.layout import INT32_MAX, INT64_MAX
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.fetch import FetchRequest

A_ID = b"a" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LIMITS = FetchConfig(1, 5000, 500, 1000, False, "here")
IMAGE = ClusterMetadata(
    1,
    "c",
    1,
    MappingProxyType({1: Node(1, "h", 1), 2: Node(2, "h", 2)}),
    MappingProxyType(
        {"a": topic_metadata("a", A_ID, [PartitionInfo("a", i, 1, (1,), (1,), (), 4) for i in (0, 1)])}
    ),
)


def reading(**leaders: int) -> SubscriptionState:
    state = SubscriptionState(OffsetReset.LATEST)
    named = {"a0": A0, "a1": A1, "b0": B0}
    state.assign([named[name] for name in leaders])
    for name, leader in leaders.items():
        state.of(named[name]).seek_validated(FetchPosition(10, -1, leader, 4))
    return state


def planned(
    state: SubscriptionState,
    *,
    busy: frozenset[int] = frozenset(),
    resting: frozenset[TopicPartition] = frozenset(),
    ahead: dict[TopicPartition, int | None] | None = None,
    now_ms: int = 0,
) -> FetchPlan:
    return plan_fetches(
        state.assigned,
        IMAGE,
        1000,
        now_ms,
        busy=busy,
        resting=resting,
        ahead_of=lambda partition: (ahead or {}).get(partition, -1),
    )


def test_partitions_go_to_their_leaders_in_the_order_of_serving() -> None:
    state = reading(a0=1, a1=1, b0=2)
    state.serve_last(A0)
    plan = planned(state)
    assert {node: list(each.wanted) for node, each in plan.by_node.items()} == {1: [A1, A0], 2: [B0]}
    assert plan.by_node[1].wanted[A0] == PartitionFetch(A_ID, 10, 1000, 4)
    assert plan.by_node[2].wanted[B0].topic_id == ZERO_TOPIC_ID
    assert not plan.needs_metadata


def test_a_partition_without_a_known_leader_asks_for_metadata() -> None:
    assert planned(reading(a0=-1)).needs_metadata
    assert planned(reading(a0=9)).needs_metadata
    assert planned(reading(a0=9)).by_node == {}


def test_busy_brokers_and_partitions_that_cannot_be_read_are_left_out() -> None:
    state = reading(a0=1, a1=1, b0=2)
    state.of(A0).paused = True
    assert list(planned(state, busy=frozenset({2})).by_node[1].wanted) == [A1]
    assert planned(state, resting=frozenset({A1, B0})).by_node == {}


def test_what_is_being_read_is_fetched_ahead_and_what_is_full_shortens_the_wait() -> None:
    state = reading(a0=1, a1=1)
    plan = planned(state, ahead={A0: 77}).by_node[1]
    assert plan.wanted[A0].offset == 77
    assert not plan.is_short
    plan = planned(state, ahead={A0: None}).by_node[1]
    assert list(plan.wanted) == [A1]
    assert plan.is_short
    assert fetch_request(
        FetchSessionHandler().request(plan.wanted), LIMITS, by_id=True, is_short=True
    ).max_wait_ms == (SHORT_WAIT_MS)


def test_a_preferred_replica_is_read_from_while_it_is_there() -> None:
    state = reading(a0=1)
    state.of(A0).prefer(2, until_ms=50)
    assert list(planned(state, now_ms=50).by_node) == [2]
    assert list(planned(state, now_ms=51).by_node) == [1]
    state.of(A0).prefer(9, until_ms=50)
    assert list(planned(state).by_node) == [1]


def test_the_request_says_all_this_in_every_version_with_sessions() -> None:
    session = FetchSessionRequest(7, 3, {A0: PartitionFetch(A_ID, 10, 1000, 4)}, {A1: A_ID}, {}, True)
    request = fetch_request(session, LIMITS, by_id=True)
    for version in range(7, 18):
        wire = encoder(FetchRequest, version)(request)
        got, _ = decoder(FetchRequest, version)(memoryview(wire), 0)
        assert (got.max_wait_ms, got.min_bytes, got.max_bytes) == (500, 1, 5000)
        assert got.topics[0].partitions[0].fetch_offset == 10
        assert (got.session_id, got.session_epoch) == (7, 3)
        assert got.forgotten_topics_data[0].partitions == [1]
        assert (got.topics[0].topic_id == A_ID) is (version >= 13)
        assert (got.topics[0].topic == "a") is (version < 13)


def test_brokers_without_sessions_are_asked_too() -> None:
    request = fetch_request(
        FetchSessionHandler().request({A0: PartitionFetch(A_ID, 10, 1000, 4)}), LIMITS, by_id=False
    )
    for version in range(4, 7):
        got, _ = decoder(FetchRequest, version)(memoryview(encoder(FetchRequest, version)(request)), 0)
        assert got.topics[0].topic == "a"


def test_partitions_of_a_topic_made_anew_are_forgotten_only_where_ids_name_topics() -> None:
    session = FetchSessionRequest(7, 3, {A0: PartitionFetch(A_ID, 0, 1000, 4)}, {}, {A0: b"o" * 16}, True)
    assert fetch_request(session, LIMITS, by_id=True).forgotten_topics_data[0].topic_id == b"o" * 16
    assert fetch_request(session, LIMITS, by_id=False).forgotten_topics_data == []


def test_nothing_is_fetched_from_where_a_reader_stops() -> None:
    state = reading(a0=1, a1=1)
    state.of(A0).stop_offset = 10
    state.of(A1).stop_offset = 11
    assert list(planned(state).by_node[1].wanted) == [A1]
    plan = planned(state, ahead={A1: 11})
    assert plan.by_node == {}


def test_a_partition_that_has_all_it_wants_makes_nobody_hurry() -> None:
    state = reading(a0=1, a1=1)
    state.of(A0).stop_offset = 20
    assert not planned(state, ahead={A0: 20}).by_node[1].is_short


def test_about_as_much_is_fetched_as_a_reader_wants() -> None:
    def bytes_asked(stop_offset: int, offset_bytes: float, partition_max_bytes: int = 8_000_000) -> int:
        state = reading(a0=1)
        state.of(A0).stop_offset = stop_offset
        state.of(A0).offset_bytes = offset_bytes
        plan = plan_fetches(
            state.assigned,
            IMAGE,
            partition_max_bytes,
            0,
            busy=(),
            resting=(),
            ahead_of=lambda _: -1,
        )
        return plan.by_node[1].wanted[A0].max_bytes

    assert bytes_asked(INT64_MAX, 1) == 8_000_000
    assert bytes_asked(10 + 20_000, 100) == 2_500_000
    assert bytes_asked(10 + 20_000, 100, partition_max_bytes=50_000) == 50_000
    assert bytes_asked(10 + 10_000_000, 100) == 8_000_000
    assert bytes_asked(11, 100) == STOP_BYTES_MIN
    assert bytes_asked(INT64_MAX - 1, 1e9, partition_max_bytes=INT32_MAX) == INT32_MAX
