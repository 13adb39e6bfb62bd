"""Requests of a group member, in every version that brokers may support, and parsing of responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from odradek.client.consumer.group.membership import Generation, JoinRequest, JoinResponse
from odradek.client.values import OffsetAndMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import UNKNOWN_OFFSET, TopicPartition
from odradek.net.api_versions import RequestBuilder
from odradek.wire.consumer_protocol import PROTOCOL_TYPE
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_REASON_CHARACTERS_MAX: Final = 255
_MANY_MEMBERS_SINCE: Final = 3
_MANY_GROUPS_SINCE: Final = 8
_STABLE_SINCE: Final = 7


class GroupRequests:
    """Requests of one member. Static membership requires brokers that support ``group.instance.id``."""

    def __init__(
        self, group_id: str, instance_id: str | None, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self._group_id = group_id
        self._instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms

    def join(self, join: JoinRequest) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=join.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in join.protocols
            ],
            reason=join.reason[:_REASON_CHARACTERS_MAX],
        )

    def sync(self, generation: Generation, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def heartbeat(self, generation: Generation) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
        )

    def leave(self, member_id: str, reason: str) -> RequestBuilder:
        def build(version: int) -> LeaveGroupRequest:
            if version < _MANY_MEMBERS_SINCE:
                return LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
            member = MemberIdentity(
                member_id=member_id,
                group_instance_id=self._instance_id,
                reason=reason[:_REASON_CHARACTERS_MAX],
            )
            return LeaveGroupRequest(group_id=self._group_id, members=[member])

        return RequestBuilder(LeaveGroupRequest, build)

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation
    ) -> OffsetCommitRequest:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition.partition,
                        committed_offset=offsets[partition].offset,
                        committed_leader_epoch=offsets[partition].leader_epoch,
                        committed_metadata=offsets[partition].metadata,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in by_topic(offsets)
        ]
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
            topics=topics,
        )

    def fetch_offsets(self, partitions: Iterable[TopicPartition]) -> RequestBuilder:
        """Build OffsetFetch; with ``require_stable`` where the version supports it."""
        indexes = [
            (topic, [tp.partition for tp in topic_partitions])
            for topic, topic_partitions in by_topic(partitions)
        ]

        def build(version: int) -> OffsetFetchRequest:
            stable = version >= _STABLE_SINCE
            if version < _MANY_GROUPS_SINCE:
                topics = [OffsetFetchRequestTopic(name=name, partition_indexes=ids) for name, ids in indexes]
                return OffsetFetchRequest(group_id=self._group_id, topics=topics, require_stable=stable)
            group = OffsetFetchRequestGroup(
                group_id=self._group_id,
                topics=[OffsetFetchRequestTopics(name=name, partition_indexes=ids) for name, ids in indexes],
            )
            return OffsetFetchRequest(groups=[group], require_stable=stable)

        return RequestBuilder(OffsetFetchRequest, build)


class OffsetFetchResult(NamedTuple):
    """Parsed OffsetFetch response: group error, offsets (None where there is none), partition errors."""

    code: ErrorCode
    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    errors: dict[TopicPartition, ErrorCode]


def parse_join(response: JoinGroupResponse) -> JoinResponse:
    return JoinResponse(
        ErrorCode(response.error_code),
        response.generation_id,
        response.protocol_name,
        response.leader,
        response.member_id,
        [(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in response.members],
        response.skip_assignment,
    )


def parse_leave(response: LeaveGroupResponse) -> ErrorCode:
    """Return the error of the group, or else of the one member that left."""
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NONE and response.members:
        return ErrorCode(response.members[0].error_code)
    return code


def parse_commit(response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the partition errors."""
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    }


def parse_offset_fetch(response: OffsetFetchResponse) -> OffsetFetchResult:
    group: OffsetFetchResponse | OffsetFetchResponseGroup = (
        response.groups[0] if response.groups else response
    )
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in group.topics:
        for data in topic.partitions:
            partition = TopicPartition(topic.name, data.partition_index)
            if data.error_code:
                errors[partition] = ErrorCode(data.error_code)
            elif data.committed_offset == UNKNOWN_OFFSET:
                offsets[partition] = None
            else:
                offsets[partition] = OffsetAndMetadata(
                    data.committed_offset, data.metadata or "", data.committed_leader_epoch
                )
    return OffsetFetchResult(ErrorCode(group.error_code), offsets, errors)


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    return [(topic, list(group)) for topic, group in groupby(sorted(partitions), key=lambda tp: tp.topic)]
