"""Heartbeat, versions 0 to 4: keep a member's session alive. v3 adds static members.

While the group is loading the response has no error, as in Kafka: the session restarts once it is loaded.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import require_group_id, submit_to_group
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import Heartbeat
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Result = HeartbeatResponse | PendingResponse[HeartbeatResponse]


def heartbeat(request: HeartbeatRequest, context: RequestContext) -> Result:
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    require_group_id(request.group_id)
    command = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    try:
        return submit_to_group(context, request.group_id, command, _response)
    except BrokerError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return _response(ErrorCode.NONE)


def _response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def error_response(request: HeartbeatRequest, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    return _response(code)
