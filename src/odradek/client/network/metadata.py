"""Cluster metadata of a client, and the effect of Metadata responses on it.

Metadata is immutable and replaced as a whole. A partition never goes back to an older leader epoch: the
response of a broker that lags behind leaves it as it is. A topic with a new id was recreated, and its leader
epochs start over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.client.values import Node, PartitionInfo
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicPartition
from odradek.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

RELIABLE_EPOCHS_SINCE: Final = 9
"""Earlier versions may have a leader epoch that is older than the leader."""


class TopicMetadata(NamedTuple):
    """A topic; it has no partitions if the response had an ``error`` for it."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool
    error: ErrorCode
    available: tuple[int, ...]
    """Partitions that have a leader."""


class ClusterMetadata(NamedTuple):
    """A snapshot of the cluster. ``version`` counts the applied responses."""

    version: int
    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicMetadata]

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the leader of a partition and its leader epoch; -1 where unknown."""
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return NO_LEADER, NO_LEADER_EPOCH
        info = topic.partitions[partition[1]]
        return info.leader, info.leader_epoch

    def is_offline(self, partition: TopicPartition, broker_id: int) -> bool:
        """Return whether a broker's replica of a partition is offline: its log directory has failed."""
        topic = self.topics.get(partition[0])
        return (
            topic is not None
            and 0 <= partition[1] < len(topic.partitions)
            and broker_id in topic.partitions[partition[1]].offline
        )

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return all partitions of a topic, in order; none if it is unknown."""
        metadata = self.topics.get(topic)
        return [] if metadata is None else list(metadata.partitions)


EMPTY_METADATA: Final = ClusterMetadata(0, None, NO_LEADER, MappingProxyType({}), MappingProxyType({}))


class MetadataUpdate(NamedTuple):
    """New metadata, and whether the response had errors of stale metadata, to be requested again."""

    metadata: ClusterMetadata
    is_stale: bool


def apply_metadata_response(
    old: ClusterMetadata,
    response: MetadataResponse,
    *,
    has_reliable_epochs: bool,
    keeps: Callable[[str], bool],
) -> MetadataUpdate:
    """Return the metadata after a response. Topics missing in it are kept if ``keeps`` says so."""
    received = {topic.name: topic for topic in response.topics if topic.name is not None}
    topics = {name: topic for name, topic in old.topics.items() if name not in received and keeps(name)}
    for name, topic in received.items():
        topics[name] = _topic(name, old.topics.get(name), topic, has_reliable_epochs)
    nodes = {
        broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    metadata = ClusterMetadata(
        old.version + 1,
        response.cluster_id,
        response.controller_id,
        # A broker that has just started may not know any broker yet; keep the known ones.
        MappingProxyType(nodes) if nodes else old.nodes,
        MappingProxyType(topics),
    )
    return MetadataUpdate(metadata, any(_is_stale(topic) for topic in response.topics))


def _is_stale(topic: MetadataResponseTopic) -> bool:
    if topic.error_code:
        return ErrorCode(topic.error_code).stale_metadata
    return any(
        ErrorCode(partition.error_code).stale_metadata
        for partition in topic.partitions
        if partition.error_code
    )


def _topic(
    name: str, old: TopicMetadata | None, topic: MetadataResponseTopic, has_reliable_epochs: bool
) -> TopicMetadata:
    error = ErrorCode(topic.error_code)
    if error is not ErrorCode.NONE:
        return TopicMetadata(name, topic.topic_id, (), topic.is_internal, error, ())
    old_partitions: tuple[PartitionInfo, ...] = ()
    if old is not None and (topic.topic_id in (ZERO_TOPIC_ID, old.topic_id) or old.topic_id == ZERO_TOPIC_ID):
        old_partitions = old.partitions
    partitions = []
    for index, partition in enumerate(sorted(topic.partitions, key=lambda entry: int(entry.partition_index))):
        if partition.partition_index != index:
            break  # partition indexes have no gaps: the rest of the response is invalid
        new = _partition(name, partition, has_reliable_epochs)
        known = old_partitions[index] if index < len(old_partitions) else None
        is_older = known is not None and NO_LEADER_EPOCH < new.leader_epoch < known.leader_epoch
        partitions.append(known if known is not None and is_older else new)
    return topic_metadata(name, topic.topic_id, partitions, topic.is_internal)


def _partition(topic: str, partition: MetadataResponsePartition, has_reliable_epochs: bool) -> PartitionInfo:
    return PartitionInfo(
        topic,
        partition.partition_index,
        partition.leader_id,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.leader_epoch if has_reliable_epochs else NO_LEADER_EPOCH,
    )


def topic_metadata(
    name: str, topic_id: bytes, partitions: Iterable[PartitionInfo], is_internal: bool = False
) -> TopicMetadata:
    """Return the metadata of a topic without error."""
    partitions = tuple(partitions)
    available = tuple(info.partition for info in partitions if info.leader != NO_LEADER)
    return TopicMetadata(name, topic_id, partitions, is_internal, ErrorCode.NONE, available)


def with_leader(
    metadata: ClusterMetadata,
    partition: TopicPartition,
    leader: int,
    leader_epoch: int,
    nodes: Collection[Node],
) -> ClusterMetadata | None:
    """Return the metadata with the current leader from another response; None if it is not newer.

    The version stays: calls that wait for a Metadata response keep waiting.
    """
    topic = metadata.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return None
    known = topic.partitions[partition.partition]
    all_nodes = {**metadata.nodes, **{node.id: node for node in nodes}}
    if leader_epoch <= known.leader_epoch or leader not in all_nodes:
        return None
    partitions = list(topic.partitions)
    partitions[partition.partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
    changed = topic_metadata(topic.name, topic.topic_id, partitions, topic.is_internal)
    topics = {**metadata.topics, topic.name: changed}
    return metadata._replace(nodes=MappingProxyType(all_nodes), topics=MappingProxyType(topics))
