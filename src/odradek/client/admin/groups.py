"""GroupsApi of consumers: listed, described, deleted; members sent away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import (
    COORDINATOR_MOVED,
    AdminApiHandler,
    ApiError,
    LookupResult,
    LookupStrategy,
)
from odradek.client.admin.lookup_strategies import at_broker, at_coordinator
from odradek.client.names import Names, read_names
from odradek.client.network.network_client import NetworkClient
from odradek.client.network.node_selection import CoordinatorType
from odradek.model.acl_operations import Operation, operations_in
from odradek.model.errors import ErrorCode, RemoteProtocolViolation
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolAssignment
from odradek.wire.message_codecs import decoder
from odradek.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

DEFAULT_REASON: Final = "member was removed by an admin"
_VERSION_BYTES: Final = 2


class GroupListing(NamedTuple):
    """A group among others. ``state`` is empty with brokers before 2.6, ``type`` with those before 3.8."""

    group_id: str
    protocol_type: str
    state: str
    type: str

    @property
    def is_simple(self) -> bool:
        """Whether it only keeps offsets, for consumers that assign partitions themselves."""
        return not self.protocol_type


class GroupMember(NamedTuple):
    """A member and what it reads. The bytes are its own: what it told the others, what it was given."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group with its members. One that does not exist is described as Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int
    authorized_operations: frozenset[Operation] | None


class MemberToRemove(NamedTuple):
    """A member by its id, or a static one by the name it was given.

    >>> from odradek import MemberToRemove
    >>> str(MemberToRemove(group_instance_id="reader-1"))
    'member reader-1'
    """

    member_id: str = ""
    group_instance_id: str | None = None

    def __str__(self) -> str:
        return f"member {self.group_instance_id or self.member_id}"


class GroupsApi(AdminApi):
    """The groups of ``Admin``."""

    async def list_groups(
        self, *, states: Names = (), types: Names = (), timeout_s: float | None = None
    ) -> dict[str, GroupListing]:
        """All groups, or those in some states (Stable, Empty, …) or of some types (classic, consumer).

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["listed"])
        >>> admin.alter_group_offsets("listeners", {TopicPartition("listed", 0): 0})
        >>> "listeners" in admin.list_groups()
        True
        >>> admin.close()
        """
        wanted = ListGroupsRequest(list(states), list(types))

        def read(
            brokers: Sequence[int], answer: ListGroupsResponse
        ) -> Iterable[tuple[int, list[GroupListing] | ApiError]]:
            if answer.error_code:
                yield brokers[0], ApiError(ErrorCode(answer.error_code))
            else:
                yield (
                    brokers[0],
                    [
                        GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
                        for one in answer.groups
                    ],
                )

        work: AdminApiHandler[int, list[GroupListing]] = AdminApiHandler(
            what="list groups",
            name=lambda broker: f"groups of broker {broker}",
            route=at_broker(int),
            request=lambda brokers, timeout_ms: wanted,
            read=read,
            again=COORDINATOR_MOVED,
        )
        found = await self._driver.run(work, await self._driver.brokers(timeout_s), timeout_s)
        return {one.group_id: one for groups in found.values() for one in groups}

    async def describe_groups(
        self,
        groups: Names,
        *,
        include_authorized_operations: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, GroupDescription]:
        """States and members of groups.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_groups(["nobody"])["nobody"].state
        'Dead'
        >>> admin.close()
        """
        seats: dict[str, int] = {}
        find: LookupStrategy[str] = at_coordinator(CoordinatorType.GROUP, str)

        async def route(cluster: NetworkClient, keys: Sequence[str], timeout_ms: int) -> LookupResult[str]:
            routed = await find(cluster, keys, timeout_ms)
            seats.update((group, broker) for broker, those in routed.nodes.items() for group in those)
            return routed

        def read(
            keys: Sequence[str], answer: DescribeGroupsResponse
        ) -> Iterable[tuple[str, GroupDescription | ApiError]]:
            for one in answer.groups:
                code = ErrorCode(one.error_code)
                yield one.group_id, ApiError(code) if code else _described(one, seats[one.group_id])

        work: AdminApiHandler[str, GroupDescription] = AdminApiHandler(
            what="describe groups",
            name=group_name,
            route=route,
            request=lambda keys, timeout_ms: DescribeGroupsRequest(list(keys), include_authorized_operations),
            read=read,
            again=COORDINATOR_MOVED,
        )
        return await self._driver.run(work, read_names(groups, "groups"), timeout_s)

    async def delete_groups(self, groups: Names, *, timeout_s: float | None = None) -> None:
        """Forget groups without members, and their offsets.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["passed"])
        >>> admin.alter_group_offsets("passers", {TopicPartition("passed", 0): 0})
        >>> admin.delete_groups(["passers"])
        >>> admin.close()
        """

        def read(keys: Sequence[str], answer: DeleteGroupsResponse) -> Iterable[tuple[str, ApiError | None]]:
            for one in answer.results:
                yield one.group_id, ApiError(ErrorCode(one.error_code)) if one.error_code else None

        work: AdminApiHandler[str, None] = AdminApiHandler(
            what="delete groups",
            name=group_name,
            route=at_coordinator(CoordinatorType.GROUP, str),
            request=lambda keys, timeout_ms: DeleteGroupsRequest(list(keys)),
            read=read,
            again=COORDINATOR_MOVED,
        )
        await self._driver.run(work, read_names(groups, "groups"), timeout_s)

    async def remove_group_members(
        self,
        group: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = DEFAULT_REASON,
        timeout_s: float | None = None,
    ) -> None:
        """Send members away, or all of them; the group then shares its partitions anew. Brokers from 2.4 on.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.remove_group_members("nobody")
        >>> admin.close()
        """
        if members is None:
            found = (await self.describe_groups([group], timeout_s=timeout_s))[group]
            members = [
                MemberToRemove("" if one.group_instance_id else one.member_id, one.group_instance_id)
                for one in found.members
            ]
        await self._driver.run(_removal(group, reason), members, timeout_s)


def group_name(group: str) -> str:
    """A group as errors call it."""
    return f"group {group}"


def _described(group: DescribedGroup, coordinator: int) -> GroupDescription:
    members = (_member(one, group.protocol_type) for one in group.members)
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(members),
        coordinator,
        operations_in(group.authorized_operations),
    )


def _member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    is_consumer = protocol_type == PROTOCOL_TYPE
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assigned_partitions(member.member_assignment) if is_consumer else (),
        bytes(member.member_metadata),
        bytes(member.member_assignment),
    )


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of a consumer's assignment; none while it has none, or if it is in words of its own."""
    if len(assignment) < _VERSION_BYTES:
        return ()
    try:
        message, _ = decoder(ConsumerProtocolAssignment, 0)(memoryview(assignment), _VERSION_BYTES)
    except RemoteProtocolViolation:
        return ()
    return tuple(
        sorted(
            TopicPartition(one.topic, partition)
            for one in message.assigned_partitions
            for partition in one.partitions
        )
    )


def _removal(group: str, reason: str) -> AdminApiHandler[MemberToRemove, None]:
    def request(members: Sequence[MemberToRemove], timeout_ms: int) -> LeaveGroupRequest:
        leaving = [MemberIdentity(one.member_id, one.group_instance_id, reason) for one in members]
        return LeaveGroupRequest(group, members=leaving)

    def read(
        members: Sequence[MemberToRemove], answer: LeaveGroupResponse
    ) -> Iterable[tuple[MemberToRemove, ApiError | None]]:
        told = {one.group_instance_id or one.member_id: one.error_code for one in answer.members}
        for one in members:
            code = answer.error_code or told.get(one.group_instance_id or one.member_id, 0)
            yield one, ApiError(ErrorCode(code)) if code else None

    return AdminApiHandler(
        what=f"remove members of group {group}",
        name=str,
        route=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        request=request,
        read=read,
        again=COORDINATOR_MOVED,
    )
