"""How far groups have read: offsets listed, altered and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from odradek.client.admin.admin_api import AdminApi
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
)

GROUPS_SINCE: Final = 8

Committed = dict[TopicPartition, OffsetAndMetadata | None]
"""What is committed by partition; None where nothing is."""


class GroupOffsetsApi(AdminApi):
    """The committed offsets of ``Admin``."""

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_s: float | None = None,
    ) -> Committed:
        """What a group has committed, for all partitions it knows or for those named.

        ``require_stable`` waits for open transactions that may still commit offsets.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["read"])
        >>> admin.alter_group_offsets("readers", {TopicPartition("read", 0): 1})
        >>> admin.list_group_offsets("readers")[TopicPartition("read", 0)].offset
        1
        >>> admin.close()
        """
        wanted = {group: partitions}
        try:
            found = await self.list_offsets_of_groups(
                wanted, require_stable=require_stable, timeout_s=timeout_s
            )
        except PartialFailure as failed:
            raise failed.errors[group] from None
        return found[group]

    async def list_offsets_of_groups(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, Committed]:
        """What many groups have committed, with one request per coordinator.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> sorted(admin.list_offsets_of_groups({"someone": None, "nobody": None}))
        ['nobody', 'someone']
        >>> admin.close()
        """
        wanted = {group: None if given is None else list(given) for group, given in groups.items()}
        return await self._driver.run(_listing(wanted, require_stable), wanted, timeout_s)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Set where a group goes on reading. It must have no members.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["altered"])
        >>> admin.alter_group_offsets("walkers", {TopicPartition("altered", 0): 1})
        >>> admin.close()
        """
        wanted = {
            partition: OffsetAndMetadata(given) if isinstance(given, int) else given
            for partition, given in offsets.items()
        }
        await self._driver.run(_alteration(group, wanted), wanted, timeout_s)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> None:
        """Forget where a group is in partitions whose topics it does not read now.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["left"])
        >>> admin.alter_group_offsets("leavers", {TopicPartition("left", 0): 0})
        >>> admin.delete_group_offsets("leavers", [TopicPartition("left", 0)])
        >>> admin.close()
        """
        await self._driver.run(_deletion(group), partitions, timeout_s)


def _listing(
    wanted: Mapping[str, list[TopicPartition] | None], require_stable: bool
) -> AdminApiHandler[str, Committed]:
    def asked(group: str, kind: Any) -> Any:
        given = wanted[group]
        return None if given is None else [kind(topic, numbers) for topic, numbers in by_topic(given).items()]

    def request(groups: Sequence[str], timeout_ms: int) -> RequestBuilder:
        def build(version: int) -> OffsetFetchRequest:
            if version >= GROUPS_SINCE:
                return OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequestGroup(group, topics=asked(group, OffsetFetchRequestTopics))
                        for group in groups
                    ],
                    require_stable=require_stable,
                )
            if len(groups) > 1:
                raise UnsupportedVersion("the broker tells the offsets of one group at a time")
            topics = asked(groups[0], OffsetFetchRequestTopic)
            return OffsetFetchRequest(groups[0], topics, require_stable=require_stable)

        return RequestBuilder(OffsetFetchRequest, build)

    return AdminApiHandler(
        what="list offsets of groups",
        name=group_name,
        route=at_coordinator(CoordinatorType.GROUP, str),
        request=request,
        read=_read_committed,
        again=COORDINATOR_MOVED | {ErrorCode.UNSTABLE_OFFSET_COMMIT},
    )


def _read_committed(
    groups: Sequence[str], answer: OffsetFetchResponse
) -> Iterable[tuple[str, Committed | ApiError]]:
    if answer.groups:
        for one in answer.groups:
            yield one.group_id, _committed(one)
    else:
        yield groups[0], _committed(answer)


def _committed(one: Any) -> Committed | ApiError:
    """Of one group; an error of any partition is the group's, as its offsets are then not whole."""
    entries = [(topic.name, entry) for topic in one.topics for entry in topic.partitions]
    code = one.error_code or next((entry.error_code for _, entry in entries if entry.error_code), 0)
    if code:
        return ApiError(ErrorCode(code))
    return {
        TopicPartition(topic, entry.partition_index): None
        if entry.committed_offset == UNKNOWN_OFFSET
        else OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
        for topic, entry in entries
    }


def _alteration(
    group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata]
) -> AdminApiHandler[TopicPartition, None]:
    def commit(partition: TopicPartition) -> OffsetCommitRequestPartition:
        offset, metadata, leader_epoch = wanted[partition]
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
        partitions: Sequence[TopicPartition], answer: OffsetCommitResponse
    ) -> Iterable[tuple[TopicPartition, ApiError | None]]:
        for topic in answer.topics:
            for one in topic.partitions:
                code = ErrorCode(one.error_code)
                yield TopicPartition(topic.name, one.partition_index), ApiError(code) if code else None

    return AdminApiHandler(
        what=f"alter offsets of group {group}",
        name=lambda partition: f"partition {partition}",
        route=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        request=request,
        read=read,
        again=COORDINATOR_MOVED,
    )


def _deletion(group: str) -> AdminApiHandler[TopicPartition, None]:
    def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> OffsetDeleteRequest:
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
            for topic, numbers in by_topic(partitions).items()
        ]
        return OffsetDeleteRequest(group, topics)

    def read(
        partitions: Sequence[TopicPartition], answer: OffsetDeleteResponse
    ) -> Iterable[tuple[TopicPartition, ApiError | None]]:
        told = {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }
        for partition in partitions:
            code = answer.error_code or told.get(partition, 0)
            yield partition, ApiError(ErrorCode(code)) if code else None

    return AdminApiHandler(
        what=f"delete offsets of group {group}",
        name=lambda partition: f"partition {partition}",
        route=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        request=request,
        read=read,
        again=COORDINATOR_MOVED,
    )
