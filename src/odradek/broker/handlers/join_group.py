"""JoinGroup, versions 0 to 9: join the next generation of a group. The response waits for the rebalance.

v1 adds the rebalance timeout (before, the session timeout serves as both), v4 MEMBER_ID_REQUIRED, v5 static
members, v7 the protocol type in the response, where a missing protocol is null instead of empty, v8 the
reason, v9 skip_assignment.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import require_group_id, submit_to_group
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import JoinGroup, JoinGroupResult
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

REBALANCE_TIMEOUT_SINCE: Final = 1
MEMBER_ID_ROUND_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7
SKIPPED_ASSIGNMENT_SINCE: Final = 9

Result = JoinGroupResponse | PendingResponse[JoinGroupResponse]


def join_group(request: JoinGroupRequest, context: RequestContext) -> Result:
    try:
        context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
        require_group_id(request.group_id)
        return submit_to_group(
            context,
            request.group_id,
            _command(request, context),
            lambda joined: _response(joined, context.version),
        )
    except BrokerError as error:
        return _response(JoinGroupResult(error.code, request.member_id), context.version)


def _command(request: JoinGroupRequest, context: RequestContext) -> JoinGroup:
    has_own_timeout = context.version >= REBALANCE_TIMEOUT_SINCE
    return JoinGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        context.client_id or "",
        # Java's text form of an address without a host name, which tools display.
        f"/{context.session.peer_host}",
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms,
        request.protocol_type,
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        requires_known_member_id=context.version >= MEMBER_ID_ROUND_SINCE
        and request.group_instance_id is None,
        supports_skipping_assignment=context.version >= SKIPPED_ASSIGNMENT_SINCE,
        reason=request.reason,
    )


def _response(joined: JoinGroupResult, version: int) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and version < NULL_PROTOCOL_SINCE:
        protocol = ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[JoinGroupResponseMember(*member) for member in joined.members],
    )


def error_response(request: JoinGroupRequest, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    return _response(JoinGroupResult(code, request.member_id, protocol=""), NULL_PROTOCOL_SINCE)
