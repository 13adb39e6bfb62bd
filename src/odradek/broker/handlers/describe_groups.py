"""DescribeGroups, versions 0 to 5: state and members of groups; one that is not there is Dead, and no error.

v3 can ask for the operations that are permitted, v4 adds static members, v5 is flexible.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.coordinators.groups.commands import MemberDescription
from odradek.model.acl_operations import GROUP_OPERATIONS
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def describe_groups(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    described = [_described(group, call) for group in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=described)


def _described(group: str, call: Call) -> DescribedGroup:
    try:
        found = call.broker.groups.shard_of(group).describe(group)
    except BrokerError as refused:
        return DescribedGroup(refused.code, group)
    return DescribedGroup(
        found.error,
        group,
        found.state,
        found.protocol_type,
        found.protocol,
        [_member(member) for member in found.members],
    )


def _member(member: MemberDescription) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member,
        member.instance,
        member.client_id,
        member.client_host,
        member.metadata,
        member.assignment,
    )


def refuse(request: DescribeGroupsRequest, code: ErrorCode, message: str | None) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(code, group) for group in request.groups])
