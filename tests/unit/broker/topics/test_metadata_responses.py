"""Metadata responses from the metadata cache: leaders, listeners, names."""

from odradek.broker.topics import metadata_responses
from odradek.cluster.metadata_cache import (
    BrokerEndpoint,
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.model.errors import ErrorCode

TOPIC_ID = b"i" * 16


def make_image():
    metadata_cache = MetadataCache()
    inside, outside = BrokerEndpoint("in", 1), BrokerEndpoint("out", 2)
    metadata_cache.apply(
        MetadataUpdate(
            brokers={
                1: BrokerMetadata(1, {"IN": inside, "OUT": outside}, "rack1"),
                2: BrokerMetadata(2, {"IN": inside}),
            },
            topics={
                "orders": TopicMetadata(
                    "orders",
                    TOPIC_ID,
                    {
                        0: PartitionMetadata(0, 1, 3, (1, 2), (1, 2)),
                        1: PartitionMetadata(1, 2, 4, (2,), (2, 1)),
                        2: PartitionMetadata(2, 9, 5, (9,), (9, 1), (9,)),
                        3: PartitionMetadata(3, -1, 6, (), (1,)),
                    },
                )
            },
        )
    )
    return metadata_cache


def test_brokers_have_the_endpoints_of_the_listener():
    metadata_cache = make_image()
    assert [(b.node_id, b.host, b.rack) for b in metadata_responses.brokers(metadata_cache, "IN")] == [
        (1, "in", "rack1"),
        (2, "in", None),
    ]
    assert [(b.node_id, b.port) for b in metadata_responses.brokers(metadata_cache, "OUT")] == [(1, 2)]
    assert metadata_responses.brokers(metadata_cache, "NONE") == []


def test_partitions_have_their_leaders():
    topic = metadata_responses.topic_by_name(make_image(), "orders", "IN")
    shown = [(p.error_code, p.leader_id, p.leader_epoch) for p in topic.partitions]
    deletion = ErrorCode.LEADER_NOT_AVAILABLE
    assert shown == [(0, 1, 3), (0, 2, 4), (deletion, -1, 5), (deletion, -1, 6)]
    assert topic.partitions[2].offline_replicas == [9]
    assert topic.partitions[0].isr_nodes == [1, 2]


def test_leader_without_the_listener_is_listener_not_found():
    topic = metadata_responses.topic_by_name(make_image(), "orders", "OUT")
    assert (topic.partitions[1].error_code, topic.partitions[1].leader_id) == (
        ErrorCode.LISTENER_NOT_FOUND,
        -1,
    )


def test_unknown_names_and_ids_get_error_codes():
    metadata_cache = make_image()
    unknown = metadata_responses.topic_by_name(metadata_cache, "nowhere", "IN")
    assert (unknown.error_code, unknown.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)
    assert (
        metadata_responses.topic_by_name(metadata_cache, "a b", "IN").error_code
        == ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    assert metadata_responses.topic_by_name(metadata_cache, "__consumer_offsets", "IN").is_internal
    assert (
        metadata_responses.topic_by_id(metadata_cache, b"x" * 16, "IN").error_code
        == ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert metadata_responses.topic_by_id(metadata_cache, TOPIC_ID, "IN").name == "orders"


def test_all_topics_are_listed():
    assert [topic.name for topic in metadata_responses.all_topics(make_image(), "IN")] == ["orders"]
