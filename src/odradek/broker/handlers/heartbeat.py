"""Heartbeat, versions 0 to 4: a member says that it is alive. v3 adds static members.

While its group is being loaded a member is told that all is well: nobody can say otherwise yet, and its
session begins anew once the group is there.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import ask_group, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import Heartbeat
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Result = HeartbeatResponse | Pending[HeartbeatResponse]


def heartbeat(request: HeartbeatRequest, call: Call) -> Result:
    require_name(request.group_id)
    command = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    try:
        return ask_group(call, request.group_id, command, _response)
    except BrokerError as refused:
        if refused.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return _response(ErrorCode.NONE)


def _response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def refuse(request: HeartbeatRequest, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    return _response(code)
