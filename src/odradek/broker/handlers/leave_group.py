"""LeaveGroup, versions 0 to 5: members leave without waiting to be missed.

Up to v2 one member leaves, and its error is that of the whole; since v3 several may, also static ones by
their instance alone, each with an answer of its own. v5 adds the reason.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import ask_group, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import LeaveGroup, LeaveGroupResult, LeavingMember
from odradek.model.errors import ErrorCode
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

SEVERAL_SINCE: Final = 3


def leave_group(request: LeaveGroupRequest, call: Call) -> Pending[LeaveGroupResponse]:
    require_name(request.group_id)
    if call.version < SEVERAL_SINCE:
        alone = LeaveGroup(request.group_id, (LeavingMember(request.member_id, None),))
        return ask_group(call, request.group_id, alone, _single_response)
    leavers = tuple(
        LeavingMember(member.member_id, member.group_instance_id, member.reason) for member in request.members
    )
    command = LeaveGroup(request.group_id, leavers)
    return ask_group(call, request.group_id, command, lambda left: _response(leavers, left))


def _single_response(left: LeaveGroupResult) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=left.error or left.errors[0])


def _response(leavers: tuple[LeavingMember, ...], left: LeaveGroupResult) -> LeaveGroupResponse:
    if left.error is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=left.error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member, leaver.instance, code)
            for leaver, code in zip(leavers, left.errors, strict=True)
        ]
    )


def refuse(request: LeaveGroupRequest, code: ErrorCode, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
