"""Metadata responses from the metadata cache.

A response with all topics can be a thousand times larger than its request. It is encoded once per metadata
change and variant, and then shared by all requests.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from odradek.cluster.metadata_cache import MetadataCache, PartitionMetadata, TopicMetadata
from odradek.cluster.topic_names import is_legal_topic_name
from odradek.model.errors import ErrorCode
from odradek.model.ids import INTERNAL_TOPICS, NO_LEADER, TopicId
from odradek.ports.files import Part
from odradek.ports.workers import Workers
from odradek.wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CACHED_VARIANTS_MAX: Final = 16
"""Clients of a cluster are of few kinds; each variant is as large as the response."""


EVENT_LOOP_PARTITIONS_MAX: Final = 500
"""Encoding more partitions takes more than a few milliseconds, so it runs on a thread."""


class ResponseVariant(NamedTuple):
    """Everything that an all-topics response depends on, besides the metadata."""

    version: int
    listener: str
    with_topic_operations: bool
    with_cluster_operations: bool


Encode = Callable[[MetadataCache], list[Part]]


class AllTopicsResponseCache:
    """Encoded responses with all topics, each encoded once per metadata change.

    For a large cluster, a thread encodes a snapshot. Requests that arrive meanwhile wait for the same
    response, unless the metadata changes first.
    """

    def __init__(self, metadata_cache: MetadataCache, workers: Workers) -> None:
        self._metadata_cache = metadata_cache
        self._workers = workers
        self._change_count = -1
        self._cached: dict[ResponseVariant, list[Part]] = {}
        self._encoding: dict[ResponseVariant, asyncio.Future[list[Part]]] = {}

    def get(self, variant: ResponseVariant, encode: Encode) -> list[Part] | Awaitable[list[Part]]:
        """Return the response of this variant, or an awaitable of it."""
        if self._change_count != self._metadata_cache.change_count or len(self._cached) > CACHED_VARIANTS_MAX:
            self._cached.clear()
            self._encoding.clear()
            self._change_count = self._metadata_cache.change_count
        parts = self._cached.get(variant)
        if parts is not None:
            return parts
        partition_count = sum(len(topic.partitions) for topic in self._metadata_cache.topics.values())
        if partition_count > EVENT_LOOP_PARTITIONS_MAX:
            return self._encode_on_thread(variant, encode)
        parts = self._cached[variant] = encode(self._metadata_cache)
        return parts

    async def _encode_on_thread(self, variant: ResponseVariant, encode: Encode) -> list[Part]:
        encoding = self._encoding.get(variant)
        if encoding is None:
            snapshot = self._metadata_cache.snapshot()
            encoding = asyncio.ensure_future(self._workers.run(lambda: _encode_without_gc(encode, snapshot)))
            self._encoding[variant] = encoding
        change_count = self._change_count
        parts = await asyncio.shield(encoding)
        if change_count == self._change_count:
            self._encoding.pop(variant, None)
            self._cached[variant] = parts
        return parts


def _encode_without_gc(encode: Encode, metadata_cache: MetadataCache) -> list[Part]:
    """Encode without a full garbage collection.

    The many short-lived objects would trigger one. It would hold the GIL, and so block the event loop, while
    it traverses all partitions of the broker.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return encode(metadata_cache)
    finally:
        if was_enabled:
            gc.enable()


def brokers(metadata_cache: MetadataCache, listener: str) -> list[MetadataResponseBroker]:
    """Return the brokers with an endpoint for this listener."""
    return [
        MetadataResponseBroker(node.id, endpoint.host, endpoint.port, node.rack)
        for node, endpoint in metadata_cache.nodes(listener)
    ]


def all_topics(metadata_cache: MetadataCache, listener: str) -> list[MetadataResponseTopic]:
    return [_topic_entry(topic, metadata_cache, listener) for topic in metadata_cache.topics.values()]


def topic_by_name(metadata_cache: MetadataCache, name: str, listener: str) -> MetadataResponseTopic:
    topic = metadata_cache.topic(name)
    if topic is not None:
        return _topic_entry(topic, metadata_cache, listener)
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_legal_topic_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def topic_by_id(metadata_cache: MetadataCache, topic_id: TopicId, listener: str) -> MetadataResponseTopic:
    topic = metadata_cache.topic_by_id(topic_id)
    if topic is not None:
        return _topic_entry(topic, metadata_cache, listener)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _topic_entry(topic: TopicMetadata, metadata_cache: MetadataCache, listener: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.name in INTERNAL_TOPICS,
        [_partition_entry(partition, metadata_cache, listener) for partition in topic.partitions.values()],
    )


def _partition_entry(
    partition: PartitionMetadata, metadata_cache: MetadataCache, listener: str
) -> MetadataResponsePartition:
    """Return the entry of a partition; a leader that is dead or not on this listener is an error."""
    leader = metadata_cache.brokers.get(partition.leader)
    code, leader_id = ErrorCode.NONE, partition.leader
    if leader is None:
        code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif listener not in leader.endpoints:
        code, leader_id = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return MetadataResponsePartition(
        code,
        partition.partition,
        leader_id,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(partition.offline_replicas),
    )
