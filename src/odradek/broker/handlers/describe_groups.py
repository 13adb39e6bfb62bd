"""DescribeGroups, versions 0 to 5: state and members of groups; an unknown group is Dead, without an error.

v3 adds authorized operations, v4 static members, v5 is flexible.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.coordinators.groups.commands import MemberDescription
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    described = [_describe(group, context) for group in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = context.authorized_operations(
                    AclResourceType.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=described)


def _describe(group: str, context: RequestContext) -> DescribedGroup:
    try:
        context.require(AclOperation.DESCRIBE, AclResourceType.GROUP, group)
        description = context.broker.group_coordinator.shard_of(group).describe(group)
    except BrokerError as error:
        return DescribedGroup(error.code, group)
    return DescribedGroup(
        description.error,
        group,
        description.state,
        description.protocol_type,
        description.protocol,
        [_member(member) for member in description.members],
    )


def _member(member: MemberDescription) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata,
        member.assignment,
    )


def error_response(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(code, group) for group in request.groups])
