"""OffsetFetch, versions 0 to 9: the committed offsets of groups.

v0 reads from the store (ZooKeeper in Kafka), later versions from the offsets topic. v2 adds null for all
partitions of a group, and a top-level error; v5 leader epochs, v7 require_stable, v8 several groups, each
with its own error. v9 is for KIP-848 and changes nothing for classic groups.

A partition without an offset gets -1, in v0 an error. Up to v7 an error of the group is also set for every
partition, which Kafka does in v1 only: aiokafka ignores the top-level error, takes a response without
partitions for a group without offsets, and would restart from the beginning while groups are loading.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from odradek.broker.handlers.group_requests import partition_exists
from odradek.broker.requests.authorization import NO_NAMES
from odradek.broker.requests.dispatcher import RequestContext
from odradek.coordinators.groups.commands import FetchedOffset
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.consumer_offsets import read_consumer_offsets
from odradek.store.port import BadPath
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

MULTIPLE_GROUPS_SINCE: Final = 8

DENIED: Final = FetchedOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

Topics = list[tuple[str, list[tuple[int, FetchedOffset]]]]
"""Partitions with their offsets, by topic."""
Result = OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]


class RequestedTopic(Protocol):
    """Topic of a request, in any version."""

    name: str
    partition_indexes: list[int]


class GroupOffsets(NamedTuple):
    """Result of one group; no topics if it has an error."""

    error: ErrorCode
    topics: Topics


def offset_fetch(request: OffsetFetchRequest, context: RequestContext) -> Result:
    if context.version == 0:
        context.require(AclOperation.DESCRIBE, AclResourceType.GROUP, request.group_id)
        return _fetch_from_store(request, context)
    if context.version >= MULTIPLE_GROUPS_SINCE:
        groups = [
            _group_response(
                requested.group_id,
                _fetch(requested.group_id, requested.topics, request.require_stable, context),
            )
            for requested in request.groups
        ]
        return OffsetFetchResponse(groups=groups)
    result = _fetch(request.group_id, request.topics, request.require_stable, context)
    if result.error is not ErrorCode.NONE:
        return error_response(request, result.error, None)
    return _single_group_response(result)


def _fetch(
    group: str, requested: Sequence[RequestedTopic] | None, require_stable: bool, context: RequestContext
) -> GroupOffsets:
    try:
        context.require(AclOperation.DESCRIBE, AclResourceType.GROUP, group)
        partitions = None
        if requested is not None:
            denied = _denied_topics((topic.name for topic in requested), context)
            partitions = _partitions(requested, denied)
        shard = context.broker.group_coordinator.shard_of(group)
        code, offsets = shard.fetch_offsets(group, partitions, require_stable)
    except BrokerError as error:
        return GroupOffsets(error.code, [])
    if code is not ErrorCode.NONE:
        return GroupOffsets(code, [])
    if requested is not None:
        return GroupOffsets(code, _in_request_order(requested, offsets))
    denied = _denied_topics((partition.topic for partition in offsets), context)
    if denied:
        offsets = {
            partition: offset for partition, offset in offsets.items() if partition.topic not in denied
        }
    return GroupOffsets(code, _sorted_by_topic(offsets))


def _denied_topics(names: Iterable[str], context: RequestContext) -> frozenset[str]:
    return context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)


def _partitions(
    requested: Iterable[RequestedTopic], denied: frozenset[str] = NO_NAMES
) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in requested
        if topic.name not in denied
        for index in topic.partition_indexes
    ]


def _in_request_order(
    requested: Iterable[RequestedTopic], offsets: dict[TopicPartition, FetchedOffset]
) -> Topics:
    """Return the offset of each requested partition, in the order of the request; others are denied."""
    return [
        (
            topic.name,
            [
                (index, offsets.get(TopicPartition(topic.name, index), DENIED))
                for index in topic.partition_indexes
            ],
        )
        for topic in requested
    ]


def _sorted_by_topic(offsets: dict[TopicPartition, FetchedOffset]) -> Topics:
    topics: dict[str, list[tuple[int, FetchedOffset]]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, []).append((partition.partition, offsets[partition]))
    return list(topics.items())


async def _fetch_from_store(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    topics = request.topics or []
    if "/" in request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "group id must be a valid znode name, got a '/' in it")
    allowed = _partitions(topics, _denied_topics((topic.name for topic in topics), context))
    existing = [partition for partition in allowed if partition_exists(context, partition)]
    try:
        stored = await read_consumer_offsets(context.broker.membership.store, request.group_id, existing)
    except BadPath as error:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, str(error)) from error
    offsets = dict.fromkeys(allowed, FetchedOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    offsets.update({partition: FetchedOffset(ErrorCode.NONE, offset) for partition, offset in stored.items()})
    return _single_group_response(GroupOffsets(ErrorCode.NONE, _in_request_order(topics, offsets)))


def _single_group_response(result: GroupOffsets) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopic(
                name,
                [
                    OffsetFetchResponsePartition(
                        index, offset.offset, offset.leader_epoch, offset.metadata, offset.error
                    )
                    for index, offset in partitions
                ],
            )
            for name, partitions in result.topics
        ],
    )


def _group_response(group: str, result: GroupOffsets) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group,
        [
            OffsetFetchResponseTopics(
                name,
                [
                    OffsetFetchResponsePartitions(
                        index, offset.offset, offset.leader_epoch, offset.metadata, offset.error
                    )
                    for index, offset in partitions
                ],
            )
            for name, partitions in result.topics
        ],
        result.error,
    )


def error_response(request: OffsetFetchRequest, code: ErrorCode, message: str | None) -> OffsetFetchResponse:
    if request.groups:
        return OffsetFetchResponse(
            groups=[
                _group_response(requested.group_id, GroupOffsets(code, [])) for requested in request.groups
            ]
        )
    topics = request.topics or []
    errors = dict.fromkeys(_partitions(topics), FetchedOffset(code))
    return _single_group_response(GroupOffsets(code, _in_request_order(topics, errors)))
