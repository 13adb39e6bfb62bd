"""Metadata answers from the cluster image."""

from __future__ import annotations

from odradek.cluster.image import ClusterImage, PartitionImage, TopicImage
from odradek.cluster.topic_names import is_legal_topic_name
from odradek.model.errors import ErrorCode
from odradek.model.ids import INTERNAL_TOPICS, NO_LEADER, TopicId
from odradek.wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def brokers(image: ClusterImage, listener: str) -> list[MetadataResponseBroker]:
    """The brokers that can be reached through this listener."""
    return [
        MetadataResponseBroker(node.id, endpoint.host, endpoint.port, node.rack)
        for node, endpoint in image.nodes(listener)
    ]


def all_topics(image: ClusterImage, listener: str) -> list[MetadataResponseTopic]:
    return [_known(topic, image, listener) for topic in image.topics.values()]


def topic_by_name(image: ClusterImage, name: str, listener: str) -> MetadataResponseTopic:
    topic = image.topic(name)
    if topic is not None:
        return _known(topic, image, listener)
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_legal_topic_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def topic_by_id(image: ClusterImage, topic_id: TopicId, listener: str) -> MetadataResponseTopic:
    topic = image.topic_by_id(topic_id)
    if topic is not None:
        return _known(topic, image, listener)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _known(topic: TopicImage, image: ClusterImage, listener: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.name in INTERNAL_TOPICS,
        [_partition(one, image, listener) for one in topic.partitions.values()],
    )


def _partition(one: PartitionImage, image: ClusterImage, listener: str) -> MetadataResponsePartition:
    """A leader that is gone, or that this listener does not reach, is no leader for this client."""
    leader = image.brokers.get(one.leader)
    code, leader_id = ErrorCode.NONE, one.leader
    if leader is None:
        code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif listener not in leader.endpoints:
        code, leader_id = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return MetadataResponsePartition(
        code,
        one.partition,
        leader_id,
        one.leader_epoch,
        list(one.replicas),
        list(one.isr),
        list(one.offline_replicas),
    )
