"""SyncGroup, versions 0 to 5: the leader hands out assignments, every member waits for its own.

v3 adds static members; v5 tells protocol type and name, which must then be there, and repeats them in the
answer.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import ask_group, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import SyncGroup, SyncGroupResult
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE: Final = 5

Result = SyncGroupResponse | Pending[SyncGroupResponse]


def sync_group(request: SyncGroupRequest, call: Call) -> Result:
    names = (request.protocol_type, request.protocol_name)
    if call.version >= PROTOCOL_SINCE and None in names:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require_name(request.group_id)
    command = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        *names,
        {given.member_id: bytes(given.assignment) for given in request.assignments},
    )
    try:
        return ask_group(call, request.group_id, command, _response)
    except BrokerError as refused:
        if refused.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        # What waited here is lost with the coordinator before: the member joins again.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def _response(synced: SyncGroupResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def refuse(request: SyncGroupRequest, code: ErrorCode, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
