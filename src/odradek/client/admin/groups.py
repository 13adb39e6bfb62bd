"""Admin API of consumer groups and their members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
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
from odradek.model.acl_operations import AclOperation, operations_in
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
    """A listed group.

    ``protocol_type`` is empty for a group that only has offsets, of consumers that assign partitions
    themselves; ``state`` for brokers before 2.6, ``type`` for brokers before 3.8.
    """

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupMember(NamedTuple):
    """A member of a group, with its partitions and its encoded subscription and assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group with its members. The state of an unknown group is Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int
    authorized_operations: frozenset[AclOperation] | None


class MemberToRemove(NamedTuple):
    """A member to remove, by its id or, for a static member, by its ``group.instance.id``.

    >>> from odradek import MemberToRemove
    >>> str(MemberToRemove(group_instance_id="reader-1"))
    'member reader-1'
    """

    member_id: str = ""
    group_instance_id: str | None = None

    def __str__(self) -> str:
        return f"member {self.group_instance_id or self.member_id}"


class GroupsApi(AdminApi):
    """Group methods of ``Admin``."""

    async def list_groups(
        self, *, states: Names = (), types: Names = (), timeout_s: float | None = None
    ) -> dict[str, GroupListing]:
        """Return all groups, or those in some states (Stable, Empty, …) or of some types (classic, consumer).

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["listed"])
        >>> admin.alter_group_offsets("listeners", {TopicPartition("listed", 0): 0})
        >>> "listeners" in admin.list_groups()
        True
        >>> admin.close()
        """
        request = ListGroupsRequest(list(states), list(types))

        def read(
            brokers: Sequence[int], response: ListGroupsResponse
        ) -> Iterable[tuple[int, list[GroupListing] | ApiError]]:
            if response.error_code:
                yield brokers[0], ApiError(ErrorCode(response.error_code))
            else:
                yield (
                    brokers[0],
                    [
                        GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
                        for group in response.groups
                    ],
                )

        handler: AdminApiHandler[int, list[GroupListing]] = AdminApiHandler(
            call="list groups",
            key_name=lambda broker: f"groups of broker {broker}",
            lookup=at_broker(int),
            build_request=lambda brokers, timeout_ms: request,
            read_response=read,
            retry_codes=COORDINATOR_MOVED,
        )
        by_broker = await self._driver.run(handler, await self._driver.brokers(timeout_s), timeout_s)
        return {group.group_id: group for groups in by_broker.values() for group in groups}

    async def describe_groups(
        self,
        groups: Names,
        *,
        include_authorized_operations: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, GroupDescription]:
        """Return states and members of groups.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_groups(["nobody"])["nobody"].state
        'Dead'
        >>> admin.close()
        """
        coordinators: dict[str, int] = {}
        find: LookupStrategy[str] = at_coordinator(CoordinatorType.GROUP, str)

        async def lookup(network: NetworkClient, keys: Sequence[str], timeout_ms: int) -> LookupResult[str]:
            result = await find(network, keys, timeout_ms)
            coordinators.update(
                (group, node_id) for node_id, names in result.nodes.items() for group in names
            )
            return result

        def read(
            keys: Sequence[str], response: DescribeGroupsResponse
        ) -> Iterable[tuple[str, GroupDescription | ApiError]]:
            for group in response.groups:
                code = ErrorCode(group.error_code)
                yield (
                    group.group_id,
                    ApiError(code) if code else _described(group, coordinators[group.group_id]),
                )

        handler: AdminApiHandler[str, GroupDescription] = AdminApiHandler(
            call="describe groups",
            key_name=group_name,
            lookup=lookup,
            build_request=lambda keys, timeout_ms: DescribeGroupsRequest(
                list(keys), include_authorized_operations
            ),
            read_response=read,
            retry_codes=COORDINATOR_MOVED,
        )
        return await self._driver.run(handler, read_names(groups, "groups"), timeout_s)

    async def delete_groups(self, groups: Names, *, timeout_s: float | None = None) -> None:
        """Delete groups without members, and their offsets.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["passed"])
        >>> admin.alter_group_offsets("passers", {TopicPartition("passed", 0): 0})
        >>> admin.delete_groups(["passers"])
        >>> admin.close()
        """

        def read(
            keys: Sequence[str], response: DeleteGroupsResponse
        ) -> Iterable[tuple[str, ApiError | None]]:
            for result in response.results:
                yield result.group_id, ApiError(ErrorCode(result.error_code)) if result.error_code else None

        handler: AdminApiHandler[str, None] = AdminApiHandler(
            call="delete groups",
            key_name=group_name,
            lookup=at_coordinator(CoordinatorType.GROUP, str),
            build_request=lambda keys, timeout_ms: DeleteGroupsRequest(list(keys)),
            read_response=read,
            retry_codes=COORDINATOR_MOVED,
        )
        await self._driver.run(handler, read_names(groups, "groups"), timeout_s)

    async def remove_group_members(
        self,
        group: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = DEFAULT_REASON,
        timeout_s: float | None = None,
    ) -> None:
        """Remove some or all members of a group, which then rebalances. Brokers since 2.4.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.remove_group_members("nobody")
        >>> admin.close()
        """
        if members is None:
            description = (await self.describe_groups([group], timeout_s=timeout_s))[group]
            members = [
                MemberToRemove("" if member.group_instance_id else member.member_id, member.group_instance_id)
                for member in description.members
            ]
        await self._driver.run(_removal_handler(group, reason), members, timeout_s)


def group_name(group: str) -> str:
    """Return the name of a group for error messages."""
    return f"group {group}"


def _described(group: DescribedGroup, coordinator: int) -> GroupDescription:
    members = (_member(member, group.protocol_type) for member in group.members)
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
    """Return the partitions of a consumer's assignment; none if it is empty or in another format."""
    if len(assignment) < _VERSION_BYTES:
        return ()
    try:
        message, _ = decoder(ConsumerProtocolAssignment, 0)(memoryview(assignment), _VERSION_BYTES)
    except RemoteProtocolViolation:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in message.assigned_partitions
            for partition in topic.partitions
        )
    )


def _removal_handler(group: str, reason: str) -> AdminApiHandler[MemberToRemove, None]:
    def request(members: Sequence[MemberToRemove], timeout_ms: int) -> LeaveGroupRequest:
        identities = [
            MemberIdentity(member.member_id, member.group_instance_id, reason) for member in members
        ]
        return LeaveGroupRequest(group, members=identities)

    def read(
        members: Sequence[MemberToRemove], response: LeaveGroupResponse
    ) -> Iterable[tuple[MemberToRemove, ApiError | None]]:
        codes = {
            member.group_instance_id or member.member_id: member.error_code for member in response.members
        }
        for member in members:
            code = response.error_code or codes.get(member.group_instance_id or member.member_id, 0)
            yield member, ApiError(ErrorCode(code)) if code else None

    return AdminApiHandler(
        call=f"remove members of group {group}",
        key_name=str,
        lookup=at_coordinator(CoordinatorType.GROUP, lambda _: group),
        build_request=request,
        read_response=read,
        retry_codes=COORDINATOR_MOVED,
    )
