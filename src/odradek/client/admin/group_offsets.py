"""Admin API of the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import COORDINATOR_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.groups import group_name
from odradek.client.admin.lookup_strategies import at_coordinator, by_topic
from odradek.client.network.node_selection import CoordinatorType
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import PartialFailure, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import UNKNOWN_OFFSET, TopicPartition
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

T = TypeVar("T")

GROUPS_SINCE: Final = 8

Committed = dict[TopicPartition, OffsetAndMetadata | None]
"""Committed offsets by partition; None where nothing is committed."""


class GroupOffsetsApi(AdminApi):
    """Committed offset methods of ``Admin``."""

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_s: float | None = None,
    ) -> Committed:
        """Return the committed offsets of a group, of all its partitions or of some.

        ``require_stable`` waits for open transactions that may still commit offsets.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["read"])
        >>> admin.alter_group_offsets("readers", {TopicPartition("read", 0): 1})
        >>> admin.list_group_offsets("readers")[TopicPartition("read", 0)].offset
        1
        >>> admin.close()
        """
        groups = {group: partitions}
        try:
            offsets = await self.list_offsets_of_groups(
                groups, require_stable=require_stable, timeout_s=timeout_s
            )
        except PartialFailure as failure:
            raise failure.errors[group] from None
        return offsets[group]

    async def list_offsets_of_groups(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, Committed]:
        """Return the committed offsets of many groups, with one request per coordinator.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> sorted(admin.list_offsets_of_groups({"someone": None, "nobody": None}))
        ['nobody', 'someone']
        >>> admin.close()
        """
        requested = {
            group: None if partitions is None else list(partitions) for group, partitions in groups.items()
        }
        return await self._driver.run(_fetch_handler(requested, require_stable), requested, timeout_s)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Set the committed offsets of a group, which must have no members.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["altered"])
        >>> admin.alter_group_offsets("walkers", {TopicPartition("altered", 0): 1})
        >>> admin.close()
        """
        to_commit = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        await self._driver.run(_commit_handler(group, to_commit), to_commit, timeout_s)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> None:
        """Delete the committed offsets of partitions whose topics the group is not subscribed to.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["left"])
        >>> admin.alter_group_offsets("leavers", {TopicPartition("left", 0): 0})
        >>> admin.delete_group_offsets("leavers", [TopicPartition("left", 0)])
        >>> admin.close()
        """
        await self._driver.run(_deletion_handler(group), partitions, timeout_s)


def _fetch_handler(
    requested: Mapping[str, list[TopicPartition] | None], require_stable: bool
) -> AdminApiHandler[str, Committed]:
    def topics_of(group: str, topic_class: Callable[[str, list[int]], T]) -> list[T] | None:
        partitions = requested[group]
        if partitions is None:
            return None
        return [topic_class(topic, numbers) for topic, numbers in by_topic(partitions).items()]

    def request(groups: Sequence[str], timeout_ms: int) -> RequestBuilder:
        def build(version: int) -> OffsetFetchRequest:
            if version >= GROUPS_SINCE:
                return OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequestGroup(group, topics=topics_of(group, OffsetFetchRequestTopics))
                        for group in groups
                    ],
                    require_stable=require_stable,
                )
            if len(groups) > 1:
                raise UnsupportedVersion(
                    f"OffsetFetch version {GROUPS_SINCE} required for several groups, got {version}"
                )
            topics = topics_of(groups[0], OffsetFetchRequestTopic)
            return OffsetFetchRequest(groups[0], topics, require_stable=require_stable)

        return RequestBuilder(OffsetFetchRequest, build)

    return AdminApiHandler(
        call="list offsets of groups",
        key_name=group_name,
        lookup=at_coordinator(CoordinatorType.GROUP, str),
        build_request=request,
        read_response=_read_committed,
        retry_codes=COORDINATOR_MOVED | {ErrorCode.UNSTABLE_OFFSET_COMMIT},
    )


def _read_committed(
    groups: Sequence[str], response: OffsetFetchResponse
) -> Iterable[tuple[str, Committed | ApiError]]:
    if response.groups:
        for group in response.groups:
            yield group.group_id, _committed(group)
    else:
        yield groups[0], _committed(response)


def _committed(group: OffsetFetchResponse | OffsetFetchResponseGroup) -> Committed | ApiError:
    """Return the offsets of one group; the error of any partition fails the group."""
    entries = [(topic.name, entry) for topic in group.topics for entry in topic.partitions]
    code = group.error_code or next((entry.error_code for _, entry in entries if entry.error_code), 0)
    if code:
        return ApiError(ErrorCode(code))
    return {
        TopicPartition(topic, entry.partition_index): None
        if entry.committed_offset == UNKNOWN_OFFSET
        else OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
        for topic, entry in entries
    }


def _commit_handler(
    group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> AdminApiHandler[TopicPartition, None]:
    def commit(partition: TopicPartition) -> OffsetCommitRequestPartition:
        offset, metadata, leader_epoch = offsets[partition]
        return OffsetCommitRequestPartition(
            partition.partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )

    def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> OffsetCommitRequest:
        topics = [
            OffsetCommitRequestTopic(topic, [commit(TopicPartition(topic, number)) for number in numbers])
            for topic, numbers in by_topic(partitions).items()
        ]
        return OffsetCommitRequest(group, topics=topics)

    def read(
        partitions: Sequence[TopicPartition], response: OffsetCommitResponse
    ) -> Iterable[tuple[TopicPartition, ApiError | None]]:
        for topic in response.topics:
            for partition in topic.partitions:
                code = ErrorCode(partition.error_code)
                yield TopicPartition(topic.name, partition.partition_index), ApiError(code) if code else None

    return AdminApiHandler(
        call=f"alter offsets of group {group}",
        key_name=lambda partition: f"partition {partition}",
        lookup=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        build_request=request,
        read_response=read,
        retry_codes=COORDINATOR_MOVED,
    )


def _deletion_handler(group: str) -> AdminApiHandler[TopicPartition, None]:
    def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> OffsetDeleteRequest:
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
            for topic, numbers in by_topic(partitions).items()
        ]
        return OffsetDeleteRequest(group, topics)

    def read(
        partitions: Sequence[TopicPartition], response: OffsetDeleteResponse
    ) -> Iterable[tuple[TopicPartition, ApiError | None]]:
        codes = {
            TopicPartition(topic.name, entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
        }
        for partition in partitions:
            code = response.error_code or codes.get(partition, 0)
            yield partition, ApiError(ErrorCode(code)) if code else None

    return AdminApiHandler(
        call=f"delete offsets of group {group}",
        key_name=lambda partition: f"partition {partition}",
        lookup=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        build_request=request,
        read_response=read,
        retry_codes=COORDINATOR_MOVED,
    )
