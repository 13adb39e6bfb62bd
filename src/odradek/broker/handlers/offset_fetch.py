"""OffsetFetch, versions 0 to 9: how far groups have read.

v0 reads from the cluster's store, later ones what is committed in the offsets topic. v2 may ask for all that
a group has, and has a place for an error of the group; v5 adds leader epochs, v7 can insist on offsets that
no open transaction may still change, v8 asks for several groups, each with an error of its own. v9 is for the
protocol of KIP-848 as well, and changes nothing for others.

A partition without an offset is answered with -1, in v0 with an error. Up to v7 an error of the group is told
with every partition too, which Kafka does in v1 alone: aiokafka looks nowhere else, takes an answer without
partitions for one without offsets, and would begin anew if it asked while groups are loaded.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from odradek.broker.handlers.group_requests import exists
from odradek.broker.requests.dispatcher import Call
from odradek.coordinators.groups.commands import FetchedOffset
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

SEVERAL_GROUPS_SINCE: Final = 8

Topics = list[tuple[str, list[tuple[int, FetchedOffset]]]]
"""Partitions with their offsets, topic by topic."""
Result = OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]


class Asked(Protocol):
    """A topic of a request, in any version."""

    name: str
    partition_indexes: list[int]


class Answer(NamedTuple):
    """Of one group; a group's error is all that is said of it."""

    error: ErrorCode
    topics: Topics


def offset_fetch(request: OffsetFetchRequest, call: Call) -> Result:
    if call.version == 0:
        return _from_store(request, call)
    if call.version >= SEVERAL_GROUPS_SINCE:
        groups = [
            _in_group(asked.group_id, _fetch(asked.group_id, asked.topics, request.require_stable, call))
            for asked in request.groups
        ]
        return OffsetFetchResponse(groups=groups)
    answer = _fetch(request.group_id, request.topics, request.require_stable, call)
    if answer.error is not ErrorCode.NONE:
        return refuse(request, answer.error, None)
    return _alone(answer)


def _fetch(group: str, asked: Sequence[Asked] | None, require_stable: bool, call: Call) -> Answer:
    partitions = None if asked is None else _partitions(asked)
    try:
        shard = call.broker.groups.shard_of(group)
        code, found = shard.fetch_offsets(group, partitions, require_stable)
    except BrokerError as refused:
        return Answer(refused.code, [])
    if code is not ErrorCode.NONE:
        return Answer(code, [])
    return Answer(code, _all(found) if asked is None else _each(asked, found))


def _partitions(asked: Iterable[Asked]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in asked for index in topic.partition_indexes]


def _each(asked: Iterable[Asked], found: dict[TopicPartition, FetchedOffset]) -> Topics:
    """What was found for each partition asked for, in the order of the request."""
    return [
        (
            topic.name,
            [(index, found[TopicPartition(topic.name, index)]) for index in topic.partition_indexes],
        )
        for topic in asked
    ]


def _all(found: dict[TopicPartition, FetchedOffset]) -> Topics:
    topics: dict[str, list[tuple[int, FetchedOffset]]] = {}
    for partition in sorted(found):
        topics.setdefault(partition.topic, []).append((partition.partition, found[partition]))
    return list(topics.items())


async def _from_store(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    topics = request.topics or []
    if "/" in request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group's id is no name of a node")
    known = [one for one in _partitions(topics) if exists(call, one)]
    try:
        offsets = await read_consumer_offsets(call.broker.store, request.group_id, known)
    except BadPath as bad:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, str(bad)) from bad
    found = dict.fromkeys(_partitions(topics), FetchedOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    found.update({one: FetchedOffset(ErrorCode.NONE, offset) for one, offset in offsets.items()})
    return _alone(Answer(ErrorCode.NONE, _each(topics, found)))


def _alone(answer: Answer) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=answer.error,
        topics=[
            OffsetFetchResponseTopic(
                name,
                [
                    OffsetFetchResponsePartition(index, one.offset, one.leader_epoch, one.metadata, one.error)
                    for index, one in partitions
                ],
            )
            for name, partitions in answer.topics
        ],
    )


def _in_group(group: str, answer: Answer) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group,
        [
            OffsetFetchResponseTopics(
                name,
                [
                    OffsetFetchResponsePartitions(
                        index, one.offset, one.leader_epoch, one.metadata, one.error
                    )
                    for index, one in partitions
                ],
            )
            for name, partitions in answer.topics
        ],
        answer.error,
    )


def refuse(request: OffsetFetchRequest, code: ErrorCode, message: str | None) -> OffsetFetchResponse:
    if request.groups:
        return OffsetFetchResponse(
            groups=[_in_group(asked.group_id, Answer(code, [])) for asked in request.groups]
        )
    topics = request.topics or []
    refused = dict.fromkeys(_partitions(topics), FetchedOffset(code))
    return _alone(Answer(code, _each(topics, refused)))
