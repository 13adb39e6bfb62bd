"""UpdateMetadata requests applied to the metadata cache."""

from __future__ import annotations

import pytest

from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache, PartitionMetadata
from odradek.cluster.metadata_update import LEADER_DURING_DELETE, convert_update
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ORDERS, OTHER = b"o" * 16, b"x" * 16


def state(
    number: int = 0, leader: int = 1, leader_epoch: int = 0, topic: str = "orders"
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(topic, number, 1, leader, leader_epoch, [1, 2], 3, [1, 2, 3], [3])


def broker(number: int = 1, rack: str | None = None) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(9092, f"h{number}", "INNER", 0),
        UpdateMetadataEndpoint(9093, f"h{number}", "OUTER", 3),
    ]
    return UpdateMetadataBroker(number, endpoints=endpoints, rack=rack)


def update(
    cache: MetadataCache,
    *states: UpdateMetadataPartitionState,
    topic_id: bytes = ORDERS,
    brokers: tuple[UpdateMetadataBroker, ...] = (broker(),),
    controller_id: int = 1,
) -> list[TopicPartition]:
    topics: dict[str, UpdateMetadataTopicState] = {}
    for each in states:
        topic = topics.setdefault(each.topic_name, UpdateMetadataTopicState(each.topic_name, topic_id, []))
        topic.partition_states.append(each)
    request = UpdateMetadataRequest(
        controller_id=controller_id, topic_states=list(topics.values()), live_brokers=list(brokers)
    )
    converted = convert_update(request, cache)
    cache.apply(converted.update)
    return converted.deleted_partitions


def partitions_of(cache: MetadataCache, topic: str = "orders") -> list[int] | None:
    metadata = cache.topic(topic)
    return None if metadata is None else list(metadata.partitions)


def test_all_of_a_partition_is_kept() -> None:
    cache = MetadataCache()
    update(cache, state(2, 1, 4))
    assert cache.partition("orders", 2) == PartitionMetadata(2, 1, 4, (1, 2), (1, 2, 3), (3,), 3)
    assert cache.name_of(ORDERS) == "orders"


def test_update_is_partial_for_partitions_and_full_for_brokers() -> None:
    cache = MetadataCache()
    update(cache, state(0), state(1), state(0, topic="bills"), brokers=(broker(1), broker(2, "r")))
    update(cache, state(1, leader_epoch=9), brokers=(broker(2, "s"), broker(3)), controller_id=3)
    assert partitions_of(cache) == [0, 1]
    changed = cache.partition("orders", 1)
    assert changed is not None
    assert changed.leader_epoch == 9
    assert partitions_of(cache, "bills") == [0]
    assert {number: metadata.rack for number, metadata in cache.brokers.items()} == {2: "s", 3: None}
    assert cache.controller_id == 3
    update(cache, brokers=(), controller_id=-1)
    assert (cache.brokers, cache.controller_id, partitions_of(cache)) == ({}, -1, [0, 1])


def test_all_listeners_of_a_broker_are_kept() -> None:
    cache = MetadataCache()
    update(cache, brokers=(broker(1, "rack"),))
    endpoints = {"INNER": BrokerEndpoint("h1", 9092), "OUTER": BrokerEndpoint("h1", 9093, "SASL_SSL")}
    assert cache.brokers == {1: BrokerMetadata(1, endpoints, "rack")}


def test_unchanged_broker_is_not_replaced() -> None:
    cache = MetadataCache()
    update(cache, brokers=(broker(1),))
    before = cache.brokers[1]
    update(cache, brokers=(broker(1), broker(2)))
    assert cache.brokers[1] is before


def test_leader_during_delete_removes_partitions_then_the_topic() -> None:
    cache = MetadataCache()
    update(cache, state(0), state(1))
    assert update(cache, state(0, LEADER_DURING_DELETE)) == [("orders", 0)]
    assert partitions_of(cache) == [1]
    assert update(cache, state(1, LEADER_DURING_DELETE)) == [("orders", 1)]
    assert partitions_of(cache) is None
    assert cache.name_of(ORDERS) is None


def test_deletion_of_an_unknown_partition_is_reported() -> None:
    assert update(MetadataCache(), state(0, LEADER_DURING_DELETE)) == [("orders", 0)]


def test_partition_deleted_and_created_in_one_request_exists() -> None:
    cache = MetadataCache()
    update(cache, state(0), state(1))
    assert update(cache, state(0, LEADER_DURING_DELETE), state(0, 2)) == []
    assert partitions_of(cache) == [0, 1]


def test_another_topic_id_replaces_all_partitions() -> None:
    cache = MetadataCache()
    update(cache, state(0), state(1))
    update(cache, state(0), topic_id=OTHER)
    assert partitions_of(cache) == [0]
    assert (cache.name_of(ORDERS), cache.name_of(OTHER)) == (None, "orders")


@pytest.mark.parametrize(("before", "after"), [(ZERO_TOPIC_ID, ORDERS), (ORDERS, ZERO_TOPIC_ID)])
def test_topic_id_is_added_and_removed_without_losing_partitions(before: bytes, after: bytes) -> None:
    cache = MetadataCache()
    update(cache, state(0), state(1), topic_id=before)
    update(cache, state(1), topic_id=after)
    topic = cache.topic("orders")
    assert topic is not None
    assert (topic.topic_id, list(topic.partitions)) == (after, [0, 1])


@pytest.mark.parametrize("version", range(9))
def test_every_version(version: int) -> None:
    grouped, named = version >= 5, version >= 3
    request = UpdateMetadataRequest(
        controller_id=1,
        ungrouped_partition_states=[] if grouped else [state(0)],
        topic_states=[UpdateMetadataTopicState("orders", ORDERS, [state(0)])] if grouped else [],
        live_brokers=[
            UpdateMetadataBroker(
                1, "h1", 9092, [UpdateMetadataEndpoint(9092, "h1", "INNER" if named else "", 0)], "r"
            )
        ],
    )
    encoded = encoder(UpdateMetadataRequest, version)(request)
    decoded, _ = decoder(UpdateMetadataRequest, version)(memoryview(encoded), 0)
    cache = MetadataCache()
    cache.apply(convert_update(decoded, cache).update)
    assert cache.brokers[1].endpoints == {"INNER" if named else "PLAINTEXT": BrokerEndpoint("h1", 9092)}
    assert cache.brokers[1].rack == ("r" if version >= 2 else None)
    partition = cache.partition("orders", 0)
    assert partition is not None
    assert partition.offline_replicas == ((3,) if version >= 4 else ())
    topic = cache.topic("orders")
    assert topic is not None
    assert topic.topic_id == (ORDERS if version >= 7 else ZERO_TOPIC_ID)
