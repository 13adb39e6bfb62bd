"""The metadata cache: lookups and incremental updates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.metadata_cache import (
    BrokerEndpoint,
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.model.ids import ZERO_TOPIC_ID

ORDERS, BILLS = b"o" * 16, b"b" * 16


def led(partition: int, leader: int = 1, partition_epoch: int = 0) -> PartitionMetadata:
    return PartitionMetadata(partition, leader, 0, (1, 2), (1, 2), (), partition_epoch)


def topic(name: str, topic_id: bytes, *partitions: PartitionMetadata) -> TopicMetadata:
    return TopicMetadata(name, topic_id, {metadata.partition: metadata for metadata in partitions})


def make_cache() -> MetadataCache:
    cache = MetadataCache()
    cache.apply(
        MetadataUpdate(
            brokers={
                2: BrokerMetadata(2, {"PLAIN": BrokerEndpoint("b", 9092)}, "r2"),
                1: BrokerMetadata(
                    1, {"PLAIN": BrokerEndpoint("a", 9092), "TLS": BrokerEndpoint("a", 9093, "SSL")}
                ),
            },
            topics={
                "orders": topic("orders", ORDERS, led(1), led(0)),
                "bills": topic("bills", BILLS, led(0)),
            },
            controller_id=1,
        )
    )
    return cache


def test_empty_cache() -> None:
    empty = MetadataCache()
    assert empty.controller_id == -1
    assert list(empty.alive_brokers) == []
    assert empty.topic("orders") is empty.topic_by_id(ORDERS) is empty.name_of(ORDERS) is None
    assert empty.partition("orders", 0) is None
    assert list(empty.nodes("PLAIN")) == []


def test_topics_by_name_and_id() -> None:
    cache = make_cache()
    topic = cache.topic("orders")
    assert topic is not None
    assert topic is cache.topic_by_id(ORDERS)
    assert (topic.name, topic.topic_id, topic.has_all_leaders) == ("orders", ORDERS, True)
    assert cache.name_of(BILLS) == "bills"
    assert list(cache.topics) == ["orders", "bills"]


def test_partitions_are_ordered() -> None:
    cache = make_cache()
    assert cache.partition("orders", 1) == led(1)
    assert cache.partition("orders", 2) is None
    assert cache.partition("none", 0) is None
    assert list(cache.topics["orders"].partitions) == [0, 1]


def test_nodes_by_listener() -> None:
    cache = make_cache()
    assert [(node.id, endpoint.host) for node, endpoint in cache.nodes("PLAIN")] == [(1, "a"), (2, "b")]
    assert [(node.id, endpoint.port) for node, endpoint in cache.nodes("TLS")] == [(1, 9093)]
    assert set(cache.alive_brokers) == {1, 2}
    assert cache.is_alive(2)
    assert not cache.is_alive(3)


def test_dead_broker_is_removed() -> None:
    cache = make_cache()
    alive = cache.alive_brokers
    assert cache.apply(MetadataUpdate(brokers={1: None, 9: None})) == []
    assert list(alive) == [2]
    assert list(cache.nodes("TLS")) == []
    assert [node.id for node, _ in cache.nodes("PLAIN")] == [2]


def test_controller_id_is_kept_unless_updated() -> None:
    cache = make_cache()
    cache.apply(MetadataUpdate())
    assert cache.controller_id == 1
    cache.apply(MetadataUpdate(controller_id=-1))
    assert cache.controller_id == -1


def test_partition_update_replaces_only_its_topic() -> None:
    cache = make_cache()
    before, other = cache.topics["orders"], cache.topics["bills"]
    assert cache.apply(MetadataUpdate(partitions={"orders": [led(0, -1, 1), led(2)]})) == ["orders"]
    after = cache.topic("orders")
    assert after is not None
    assert after is cache.topic_by_id(ORDERS)
    assert list(after.partitions.values()) == [led(0, -1, 1), led(1), led(2)]
    assert not after.has_all_leaders
    assert list(before.partitions.values()) == [led(0), led(1)]
    assert cache.topics["bills"] is other


def test_partition_update_of_unknown_topic_is_ignored() -> None:
    cache = make_cache()
    assert cache.apply(MetadataUpdate(partitions={"gone": [led(0)], "orders": []})) == []
    assert cache.topic("gone") is None


def test_deleted_topic_is_removed_by_name_and_id() -> None:
    cache = make_cache()
    assert cache.apply(MetadataUpdate(topics={"orders": None, "never": None})) == ["orders"]
    assert cache.topic("orders") is cache.topic_by_id(ORDERS) is None


def test_recreated_topic_has_only_its_new_id() -> None:
    cache = make_cache()
    fresh = topic("orders", b"n" * 16, led(0))
    assert cache.apply(MetadataUpdate(topics={"orders": fresh}, partitions={"orders": [led(1)]})) == [
        "orders"
    ]
    assert cache.topic_by_id(ORDERS) is None
    assert cache.name_of(b"n" * 16) == "orders"
    assert len(cache.topics["orders"].partitions) == 2


def test_topic_without_id_is_found_by_name_only() -> None:
    cache = make_cache()
    cache.apply(
        MetadataUpdate(topics={"old": topic("old", ZERO_TOPIC_ID), "older": topic("older", ZERO_TOPIC_ID)})
    )
    assert cache.topic_by_id(ZERO_TOPIC_ID) is None
    cache.apply(MetadataUpdate(topics={"old": None}))
    assert cache.topic("older") is not None


@pytest.mark.parametrize(
    "delta",
    [
        MetadataUpdate(topics={"a": topic("b", ORDERS)}),
        MetadataUpdate(brokers={1: BrokerMetadata(2, {})}),
    ],
)
def test_mismatched_keys_are_assertion_errors(delta: MetadataUpdate) -> None:
    with pytest.raises(AssertionError, match="under key"):
        MetadataCache().apply(delta)


topic_news = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 5).map(lambda n: bytes([n]) * 16)), max_size=3
)
partition_news = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=3), max_size=3)


@given(st.lists(st.tuples(topic_news, partition_news), max_size=12))
def test_names_and_ids_are_consistent(
    update: list[tuple[dict[str, bytes | None], dict[str, list[int]]]],
) -> None:
    cache = MetadataCache()
    model: dict[str, tuple[bytes, set[int]]] = {}
    taken: set[bytes] = set()
    for topics, partitions in update:
        delta_topics: dict[str, TopicMetadata | None] = {}
        for name, topic_id in topics.items():
            if topic_id is None:
                delta_topics[name] = None
                model.pop(name, None)
            elif topic_id not in taken:  # ids are never used twice
                taken.add(topic_id)
                delta_topics[name] = topic(name, topic_id)
                model[name] = (topic_id, set())
        for name, numbers in partitions.items():
            if name in model:
                model[name][1].update(numbers)
        cache.apply(
            MetadataUpdate(
                topics=delta_topics, partitions={n: [led(p) for p in ps] for n, ps in partitions.items()}
            )
        )
        assert {name: (t.topic_id, set(t.partitions)) for name, t in cache.topics.items()} == model
        assert {t.name: topic_id for topic_id, t in cache._by_id.items()} == {
            name: topic_id for name, (topic_id, _) in model.items() if topic_id != ZERO_TOPIC_ID
        }
        assert all(
            cache.topic_by_id(t.topic_id) is t for t in cache.topics.values() if t.topic_id != ZERO_TOPIC_ID
        )
