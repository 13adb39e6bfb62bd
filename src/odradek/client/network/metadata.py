"""The cluster as a client knows it, and how answers to Metadata change that.

An metadata is immutable and replaced whole. It never goes back to an older leader of a partition: an answer
from
a broker that lags behind is told by its leader epoch, and the partition stays as it is. A topic with another
id than before was made anew, and its epochs begin anew with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from odradek.client.values import Node, PartitionInfo
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicPartition

RELIABLE_EPOCHS_SINCE: Final = 9
"""Brokers that speak less may tell an epoch that is older than the leader they name."""


class TopicMetadata(NamedTuple):
    """One topic; without partitions when brokers answered with an ``error`` about it."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool
    error: ErrorCode
    available: tuple[int, ...]
    """Partitions that have a leader."""


class ClusterMetadata(NamedTuple):
    """The cluster at one moment. ``version`` counts the answers that made it."""

    version: int
    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicMetadata]

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Who leads a partition and since which epoch; -1 where that is not known."""
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return NO_LEADER, NO_LEADER_EPOCH
        found = topic.partitions[partition[1]]
        return found.leader, found.leader_epoch

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """All partitions of a topic, in order; none if it is not known."""
        found = self.topics.get(topic)
        return [] if found is None else list(found.partitions)


EMPTY_METADATA: Final = ClusterMetadata(0, None, NO_LEADER, MappingProxyType({}), MappingProxyType({}))


class Update(NamedTuple):
    """A new metadata, and whether brokers told of something that will soon be otherwise."""

    metadata: ClusterMetadata
    is_unsettled: bool


def apply_metadata_response(
    old: ClusterMetadata,
    response: Any,
    *,
    has_reliable_epochs: bool,
    keeps: Callable[[str], bool],
) -> Update:
    """The metadata after an answer. Topics it does not tell of stay if they are to be kept."""
    told = {topic.name: topic for topic in response.topics if topic.name is not None}
    topics = {name: one for name, one in old.topics.items() if name not in told and keeps(name)}
    for name, topic in told.items():
        topics[name] = _topic(old.topics.get(name), topic, has_reliable_epochs)
    nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
    metadata = ClusterMetadata(
        old.version + 1,
        response.cluster_id,
        response.controller_id,
        # A broker that has just started may know of nobody yet; what is known is better than that.
        MappingProxyType(nodes) if nodes else old.nodes,
        MappingProxyType(topics),
    )
    return Update(metadata, any(_is_unsettled(topic) for topic in response.topics))


def _is_unsettled(topic: Any) -> bool:
    if topic.error_code:
        return ErrorCode(topic.error_code).stale_metadata
    return any(ErrorCode(one.error_code).stale_metadata for one in topic.partitions if one.error_code)


def _topic(old: TopicMetadata | None, told: Any, has_reliable_epochs: bool) -> TopicMetadata:
    error = ErrorCode(told.error_code)
    if error is not ErrorCode.NONE:
        return TopicMetadata(told.name, told.topic_id, (), told.is_internal, error, ())
    before: tuple[PartitionInfo, ...] = ()
    if old is not None and (told.topic_id in (ZERO_TOPIC_ID, old.topic_id) or old.topic_id == ZERO_TOPIC_ID):
        before = old.partitions
    partitions = []
    for index, one in enumerate(sorted(told.partitions, key=lambda one: int(one.partition_index))):
        if one.partition_index != index:
            break  # a topic's partitions have no gaps: what follows is not a topic's
        new = _partition(told.name, one, has_reliable_epochs)
        known = before[index] if index < len(before) else None
        is_older = known is not None and NO_LEADER_EPOCH < new.leader_epoch < known.leader_epoch
        partitions.append(known if known is not None and is_older else new)
    return topic_metadata(told.name, told.topic_id, partitions, told.is_internal)


def _partition(topic: str, told: Any, has_reliable_epochs: bool) -> PartitionInfo:
    return PartitionInfo(
        topic,
        told.partition_index,
        told.leader_id,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        told.leader_epoch if has_reliable_epochs else NO_LEADER_EPOCH,
    )


def topic_metadata(
    name: str, topic_id: bytes, partitions: Iterable[PartitionInfo], is_internal: bool = False
) -> TopicMetadata:
    """A topic without error."""
    given = tuple(partitions)
    available = tuple(one.partition for one in given if one.leader != NO_LEADER)
    return TopicMetadata(name, topic_id, given, is_internal, ErrorCode.NONE, available)


def with_leader(
    metadata: ClusterMetadata,
    partition: TopicPartition,
    leader: int,
    leader_epoch: int,
    nodes: Collection[Node],
) -> ClusterMetadata | None:
    """The metadata with a leader that a broker named in passing; None if that is no news.

    The version stays: whoever waits for an answer to Metadata waits on.
    """
    topic = metadata.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return None
    known = topic.partitions[partition.partition]
    places = {**metadata.nodes, **{node.id: node for node in nodes}}
    if leader_epoch <= known.leader_epoch or leader not in places:
        return None
    partitions = list(topic.partitions)
    partitions[partition.partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
    changed = topic_metadata(topic.name, topic.topic_id, partitions, topic.is_internal)
    topics = {**metadata.topics, topic.name: changed}
    return metadata._replace(nodes=MappingProxyType(places), topics=MappingProxyType(topics))
