"""UpdateMetadata requests as updates of the metadata cache, by the rules of Kafka's ZkMetadataCache.

A request has all live brokers, and the partitions that changed: all of them if the broker or the controller
has just started. A partition whose leader is ``LEADER_DURING_DELETE`` is deleted; a topic goes with its last
partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.cluster.metadata_cache import (
    NO_CONTROLLER,
    BrokerEndpoint,
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.cluster.topic_names import NAME_LENGTH_MAX, is_legal_topic_name
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

LEADER_DURING_DELETE: Final = -2
"""Leader of a partition whose topic is being deleted."""

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Names of the security protocols by their id."""


class ConvertedUpdate(NamedTuple):
    update: MetadataUpdate
    deleted_partitions: list[TopicPartition]


class _TopicStates:
    """Partition states of one topic; ``topic_id`` stays None in versions that do not group by topic."""

    __slots__ = ("states", "topic_id")

    def __init__(self) -> None:
        self.topic_id: TopicId | None = None
        self.states: list[UpdateMetadataPartitionState] = []


def convert_update(request: UpdateMetadataRequest, cache: MetadataCache) -> ConvertedUpdate:
    """Return the update of the cache that a request describes, and the partitions that it deletes.

    Raises INVALID_REQUEST for names and numbers that no controller sends: other requests rely on the cache.
    """
    topics: dict[str, TopicMetadata | None] = {}
    deleted: list[TopicPartition] = []
    for name, topic_states in _states_by_topic(request).items():
        if not is_legal_topic_name(name):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"topic name is invalid: {name[:NAME_LENGTH_MAX]!r}")
        topics[name] = _updated_topic(name, cache.topic(name), topic_states)
        deleted += _deleted_partitions(name, topic_states.states)
    update = MetadataUpdate(
        _changed_brokers(request.live_brokers, cache),
        topics,
        controller_id=max(request.controller_id, NO_CONTROLLER),
    )
    return ConvertedUpdate(update, deleted)


def _states_by_topic(request: UpdateMetadataRequest) -> dict[str, _TopicStates]:
    by_topic: dict[str, _TopicStates] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, _TopicStates()).states.append(state)
    for topic in request.topic_states:
        topic_states = by_topic.setdefault(topic.topic_name, _TopicStates())
        topic_states.topic_id = topic.topic_id
        topic_states.states += topic.partition_states
    return by_topic


def _deleted_partitions(name: str, states: Iterable[UpdateMetadataPartitionState]) -> list[TopicPartition]:
    """Return the partitions that are deleted, and not created again by a later state."""
    last_leaders = {state.partition_index: state.leader for state in states}
    return [
        TopicPartition(name, number)
        for number, leader in last_leaders.items()
        if leader == LEADER_DURING_DELETE
    ]


def _updated_topic(
    name: str, current: TopicMetadata | None, topic_states: _TopicStates
) -> TopicMetadata | None:
    """Return the topic after an update; None if it has no partition left."""
    topic_id = topic_states.topic_id
    if topic_id is None:
        topic_id = ZERO_TOPIC_ID if current is None else current.topic_id
    partitions: dict[int, PartitionMetadata] = {}
    if current is not None and (
        topic_id == current.topic_id or ZERO_TOPIC_ID in (topic_id, current.topic_id)
    ):
        partitions.update(current.partitions)
    for state in topic_states.states:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
        else:
            partitions[state.partition_index] = _partition(state)
    return TopicMetadata(name, topic_id, partitions) if partitions else None


def _partition(state: UpdateMetadataPartitionState) -> PartitionMetadata:
    return PartitionMetadata(
        state.partition_index,
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        tuple(state.offline_replicas),
        state.zk_version,
    )


def _changed_brokers(
    live: Iterable[UpdateMetadataBroker], cache: MetadataCache
) -> dict[int, BrokerMetadata | None]:
    brokers = {broker.id: _broker(broker) for broker in live}
    removed: dict[int, BrokerMetadata | None] = dict.fromkeys(cache.brokers.keys() - brokers.keys())
    changed = {number: broker for number, broker in brokers.items() if cache.brokers.get(number) != broker}
    return {**removed, **changed}


def _broker(broker: UpdateMetadataBroker) -> BrokerMetadata:
    endpoints = broker.endpoints or [UpdateMetadataEndpoint(broker.v0_port, broker.v0_host)]
    by_listener = {}
    for endpoint in endpoints:
        protocol = _security_protocol(endpoint.security_protocol)
        by_listener[endpoint.listener or protocol] = BrokerEndpoint(endpoint.host, endpoint.port, protocol)
    return BrokerMetadata(broker.id, by_listener, broker.rack or None)


def _security_protocol(number: int) -> str:
    if not 0 <= number < len(SECURITY_PROTOCOLS):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"security protocol must be in 0..{len(SECURITY_PROTOCOLS) - 1}, got {number}",
        )
    return SECURITY_PROTOCOLS[number]
