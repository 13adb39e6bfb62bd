"""Which broker is asked for which partitions, from where, and in which words: plain values in and out.

A partition is asked for when its position is known, nothing of it waits to be read, and its broker has no
other fetch under way. One whose fetched records are being read is asked for ahead of time, from where those
end, while what waits in memory is below a bound. A partition left out because enough of it waits makes its
broker's request a short one: the next request, with that partition in it, should not have to wait long.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.consumer.fetch.session_handler import FetchSessionRequest, PartitionFetch
from odradek.client.consumer.positions.partition_state import TopicPartitionState
from odradek.client.network.metadata import ClusterMetadata
from odradek.model.ids import NO_LEADER, ZERO_TOPIC_ID, TopicPartition
from odradek.records.layout import INT32_MAX, INT64_MAX
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

IDS_SINCE: Final = 13
"""The first version of Fetch that names topics by id."""
SHORT_WAIT_MS: Final = 20
"""How long a broker waits for records when a partition was left out of the request."""
STOP_MARGIN: Final = 1.25
"""Records before a reader's stop may be larger than those before them."""
STOP_BYTES_MIN: Final = 1024 * 1024
"""Less than this saves nothing."""


class FetchConfig(NamedTuple):
    """How much is fetched, and how long brokers wait for it."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_max_bytes: int
    read_committed: bool
    rack: str


class NodePlan(NamedTuple):
    """One fetch from one broker."""

    wanted: dict[TopicPartition, PartitionFetch]
    is_short: bool


class FetchPlan(NamedTuple):
    by_node: dict[int, NodePlan]
    needs_metadata: bool
    """Whether a partition has no leader, or one that is not known."""


def plan_fetches(
    assigned: Mapping[TopicPartition, TopicPartitionState],
    metadata: ClusterMetadata,
    partition_max_bytes: int,
    now_ms: int,
    *,
    busy: Container[int],
    resting: Container[TopicPartition],
    ahead_of: Callable[[TopicPartition], int | None],
) -> FetchPlan:
    """What to fetch now.

    ``busy`` are brokers with a fetch under way, ``resting`` partitions that wait after an error. ``ahead_of``
    gives where fetched records of a partition end: -1 if there are none, None if there are enough of them.
    """
    wanted: dict[int, dict[TopicPartition, PartitionFetch]] = {}
    short: set[int] = set()
    needs_metadata = False
    for partition, each in assigned.items():
        position = each.position
        if position is None or not each.is_fetchable or partition in resting:
            continue
        node_id = _node_for(each, metadata, now_ms)
        if node_id == NO_LEADER:
            needs_metadata = True
        elif node_id not in busy:
            ahead = ahead_of(partition)
            if ahead is None:
                short.add(node_id)
                continue
            offset = position.offset if ahead < 0 else ahead
            if offset >= each.stop_offset:
                continue
            topic = metadata.topics.get(partition.topic)
            topic_id = ZERO_TOPIC_ID if topic is None else topic.topic_id
            max_bytes = min(partition_max_bytes, _bytes_to_stop(each, offset))
            asked = PartitionFetch(topic_id, offset, max_bytes, position.leader_epoch)
            wanted.setdefault(node_id, {})[partition] = asked
    return FetchPlan({node: NodePlan(each, node in short) for node, each in wanted.items()}, needs_metadata)


def _bytes_to_stop(each: TopicPartitionState, offset: int) -> int:
    """About what lies between an offset and where its reader stops: more would be for nobody."""
    if each.stop_offset == INT64_MAX:
        return INT32_MAX
    wanted_bytes = (each.stop_offset - offset) * each.offset_bytes * STOP_MARGIN
    return min(max(int(wanted_bytes), STOP_BYTES_MIN), INT32_MAX)


def _node_for(each: TopicPartitionState, metadata: ClusterMetadata, now_ms: int) -> int:
    """The broker to read from: the leader, or the replica that it named, while that is there."""
    preferred = each.preferred(now_ms)
    if preferred != NO_LEADER:
        if preferred in metadata.nodes:
            return preferred
        each.preferred_replica = NO_LEADER
    leader = NO_LEADER if each.position is None else each.position.leader_id
    return leader if leader in metadata.nodes else NO_LEADER


def fetch_request(
    session: FetchSessionRequest, limits: FetchConfig, *, by_id: bool, is_short: bool = False
) -> FetchRequest:
    """The request in the protocol's form; ``by_id`` tells whether topics will be named by their ids."""
    forgotten = {**session.forgotten, **session.replaced} if by_id else session.forgotten
    return FetchRequest(
        max_wait_ms=min(limits.max_wait_ms, SHORT_WAIT_MS) if is_short else limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(limits.read_committed),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=_topics(session.wanted),
        forgotten_topics_data=_forgotten(forgotten),
        rack_id=limits.rack,
    )


def _topics(wanted: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, each in wanted.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = FetchTopic(topic=partition.topic, topic_id=each.topic_id, partitions=[])
            topics[partition.topic] = topic
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                partition_max_bytes=each.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for partition, topic_id in partitions.items():
        key = (partition.topic, topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=partition.topic, topic_id=topic_id, partitions=[])
        topics[key].partitions.append(partition.partition)
    return list(topics.values())


def names_of(wanted: Iterable[tuple[TopicPartition, PartitionFetch]]) -> dict[bytes, str]:
    """Topics' names by their ids, to read answers with."""
    return {each.topic_id: partition.topic for partition, each in wanted}
