"""Planning of fetches: partitions and offsets by broker, and the Fetch request. Pure.

A partition is fetched when its position is valid, none of its records are buffered, and its broker has no
fetch in flight. A partition with buffered records is fetched ahead, from where those end, while the buffer is
below its bound. A partition left out because enough of it is buffered shortens the wait of its broker's
request, so that the next request, which may include the partition, is not delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.consumer.positions.partition_state import TopicPartitionState
from odradek.client.network.metadata import ClusterMetadata
from odradek.cluster.fetch_session_handler import FetchSessionRequest, PartitionFetch
from odradek.model.ids import NO_LEADER, ZERO_TOPIC_ID, TopicPartition
from odradek.records.layout import INT32_MAX, INT64_MAX
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

IDS_SINCE: Final = 13
"""First version of Fetch with topic ids."""
SHORT_WAIT_MS: Final = 20
"""``max_wait_ms`` when a partition was left out of the request."""
STOP_MARGIN: Final = 1.25
"""Records up to the stop offset may be larger than those before."""
STOP_BYTES_MIN: Final = 1024 * 1024
"""Limiting a fetch below this saves nothing."""


class FetchConfig(NamedTuple):
    """Limits of fetches, from the consumer's settings."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_max_bytes: int
    read_committed: bool
    rack: str


class NodePlan(NamedTuple):
    """One fetch from one broker."""

    partitions: dict[TopicPartition, PartitionFetch]
    is_short: bool
    """True if a partition was left out because enough of it is buffered."""


class FetchPlan(NamedTuple):
    by_node: dict[int, NodePlan]
    needs_metadata: bool
    """True if the leader of a partition is not known."""


def plan_fetches(
    assigned: Mapping[TopicPartition, TopicPartitionState],
    metadata: ClusterMetadata,
    partition_max_bytes: int,
    now_ms: int,
    *,
    nodes_in_flight: Container[int],
    backing_off: Container[TopicPartition],
    buffered_end: Callable[[TopicPartition], int | None],
) -> FetchPlan:
    """Plan the fetches to send now.

    ``nodes_in_flight`` are brokers with a fetch in flight, ``backing_off`` partitions in backoff after an
    error. ``buffered_end`` returns where buffered records of a partition end: -1 if there are none, None if
    enough are buffered.
    """
    fetches: dict[int, dict[TopicPartition, PartitionFetch]] = {}
    short: set[int] = set()
    needs_metadata = False
    for partition, state in assigned.items():
        position = state.position
        if position is None or not state.is_fetchable or partition in backing_off:
            continue
        node_id = _read_replica(partition, state, metadata, now_ms)
        if node_id == NO_LEADER:
            needs_metadata = True
        elif node_id not in nodes_in_flight:
            end_offset = buffered_end(partition)
            if end_offset is None:
                short.add(node_id)
                continue
            offset = position.offset if end_offset < 0 else end_offset
            if offset >= state.stop_offset:
                continue
            topic = metadata.topics.get(partition.topic)
            topic_id = ZERO_TOPIC_ID if topic is None else topic.topic_id
            max_bytes = min(partition_max_bytes, _bytes_to_stop(state, offset))
            fetch = PartitionFetch(topic_id, offset, max_bytes, position.leader_epoch)
            fetches.setdefault(node_id, {})[partition] = fetch
    plans = {node: NodePlan(partitions, node in short) for node, partitions in fetches.items()}
    return FetchPlan(plans, needs_metadata)


def _bytes_to_stop(state: TopicPartitionState, offset: int) -> int:
    """Estimate the bytes up to the stop offset; more would be fetched in vain."""
    if state.stop_offset == INT64_MAX:
        return INT32_MAX
    estimate = (state.stop_offset - offset) * state.offset_bytes * STOP_MARGIN
    return min(max(int(estimate), STOP_BYTES_MIN), INT32_MAX)


def _read_replica(
    partition: TopicPartition, state: TopicPartitionState, metadata: ClusterMetadata, now_ms: int
) -> int:
    """Return the broker to read from: the preferred read replica if online, else the leader."""
    preferred = state.preferred(now_ms)
    if preferred != NO_LEADER:
        if preferred in metadata.nodes and not metadata.is_offline(partition, preferred):
            return preferred
        state.preferred_replica = NO_LEADER
    leader = NO_LEADER if state.position is None else state.position.leader_id
    return leader if leader in metadata.nodes else NO_LEADER


def fetch_request(
    session: FetchSessionRequest, config: FetchConfig, *, by_id: bool, is_short: bool = False
) -> FetchRequest:
    """Build a Fetch request; ``by_id`` is True if topics are identified by their ids."""
    forgotten = {**session.forgotten, **session.replaced} if by_id else session.forgotten
    return FetchRequest(
        max_wait_ms=min(config.max_wait_ms, SHORT_WAIT_MS) if is_short else config.max_wait_ms,
        min_bytes=config.min_bytes,
        max_bytes=config.max_bytes,
        isolation_level=int(config.read_committed),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=_fetch_topics(session.to_send),
        forgotten_topics_data=_forgotten_topics(forgotten),
        rack_id=config.rack,
    )


def _fetch_topics(partitions: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, fetch in partitions.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = FetchTopic(topic=partition.topic, topic_id=fetch.topic_id, partitions=[])
            topics[partition.topic] = topic
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.offset,
                partition_max_bytes=fetch.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(partitions: Mapping[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for partition, topic_id in partitions.items():
        key = (partition.topic, topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=partition.topic, topic_id=topic_id, partitions=[])
        topics[key].partitions.append(partition.partition)
    return list(topics.values())


def topic_names(partitions: Iterable[tuple[TopicPartition, PartitionFetch]]) -> dict[bytes, str]:
    """Return topic names by topic id, to read responses with."""
    return {fetch.topic_id: partition.topic for partition, fetch in partitions}
