"""JoinGroup, versions 0 to 9: a member enters its group's next generation, and waits until that begins.

v1 adds the rebalance timeout (before, the session timeout counts for both), v4 the round in which a member is
given its id, v5 static members, v7 the protocol's type in the answer, where a missing protocol is null and no
longer empty, v8 the reason for joining, v9 a leader that need not assign.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.group_requests import ask_group, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import JoinGroup, JoinGroupResult
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

REBALANCE_TIMEOUT_SINCE: Final = 1
MEMBER_ID_ROUND_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7
SKIPPED_ASSIGNMENT_SINCE: Final = 9

Result = JoinGroupResponse | Pending[JoinGroupResponse]


def join_group(request: JoinGroupRequest, call: Call) -> Result:
    try:
        require_name(request.group_id)
        return ask_group(
            call, request.group_id, _command(request, call), lambda joined: _response(joined, call.version)
        )
    except BrokerError as refused:
        return _response(JoinGroupResult(refused.code, request.member_id), call.version)


def _command(request: JoinGroupRequest, call: Call) -> JoinGroup:
    has_own_timeout = call.version >= REBALANCE_TIMEOUT_SINCE
    return JoinGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        call.client_id or "",
        # As Java writes an address that it has no name for: tools show it as it is.
        f"/{call.session.peer_host}",
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms,
        request.protocol_type,
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        requires_known_member_id=call.version >= MEMBER_ID_ROUND_SINCE and request.group_instance_id is None,
        supports_skipping_assignment=call.version >= SKIPPED_ASSIGNMENT_SINCE,
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
        member_id=joined.member,
        members=[JoinGroupResponseMember(*member) for member in joined.members],
    )


def refuse(request: JoinGroupRequest, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    return _response(JoinGroupResult(code, request.member_id, protocol=""), NULL_PROTOCOL_SINCE)
