"""SyncGroup, versions 0 to 5: the leader sends the assignments, every member waits for its own.

v3 adds static members; v5 requires protocol type and name, and returns them in the response.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import require_group_id, submit_to_group
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import SyncGroup, SyncGroupResult
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE: Final = 5

Result = SyncGroupResponse | PendingResponse[SyncGroupResponse]


def sync_group(request: SyncGroupRequest, context: RequestContext) -> Result:
    names = (request.protocol_type, request.protocol_name)
    if context.version >= PROTOCOL_SINCE and None in names:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    require_group_id(request.group_id)
    command = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        *names,
        {member.member_id: bytes(member.assignment) for member in request.assignments},
    )
    try:
        return submit_to_group(context, request.group_id, command, _response)
    except BrokerError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        # The assignment is lost with the previous coordinator: the member must rejoin.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def _response(synced: SyncGroupResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def error_response(request: SyncGroupRequest, code: ErrorCode, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
