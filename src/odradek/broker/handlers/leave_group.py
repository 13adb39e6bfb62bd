"""LeaveGroup, versions 0 to 5: remove members from a group.

Up to v2 one member leaves, and its error is the top-level one; v3 allows several, and static members by
group.instance.id alone, each with its own error. v5 adds the reason.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import require_group_id, submit_to_group
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import LeaveGroup, LeaveGroupResult, LeavingMember
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

MULTIPLE_MEMBERS_SINCE: Final = 3


def leave_group(request: LeaveGroupRequest, context: RequestContext) -> PendingResponse[LeaveGroupResponse]:
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    require_group_id(request.group_id)
    if context.version < MULTIPLE_MEMBERS_SINCE:
        command = LeaveGroup(request.group_id, (LeavingMember(request.member_id, None),))
        return submit_to_group(context, request.group_id, command, _single_response)
    leavers = tuple(
        LeavingMember(member.member_id, member.group_instance_id, member.reason) for member in request.members
    )
    command = LeaveGroup(request.group_id, leavers)
    return submit_to_group(context, request.group_id, command, lambda left: _response(leavers, left))


def _single_response(left: LeaveGroupResult) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=left.error or left.errors[0])


def _response(leavers: tuple[LeavingMember, ...], left: LeaveGroupResult) -> LeaveGroupResponse:
    if left.error is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=left.error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.instance_id, code)
            for leaver, code in zip(leavers, left.errors, strict=True)
        ]
    )


def error_response(request: LeaveGroupRequest, code: ErrorCode, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
