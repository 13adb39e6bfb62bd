"""ListGroups, versions 0 to 5: the groups this broker coordinates.

v4 can ask for some states and tells each group's, v5 the same for types, of which there is one. Filters do
not mind the spelling. While some groups are being loaded the others are listed, with an error that says so.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import CLASSIC
from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    groups = call.broker.groups
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if groups.is_loading else ErrorCode.NONE
    types = {wanted.lower() for wanted in request.types_filter}
    if types and CLASSIC not in types:
        return ListGroupsResponse(error_code=code)
    found = [one for shard in groups.shards() for one in shard.listing(request.states_filter)]
    return ListGroupsResponse(
        error_code=code,
        groups=[ListedGroup(one.group, one.protocol_type, one.state, CLASSIC) for one in found],
    )


def refuse(request: ListGroupsRequest, code: ErrorCode, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)
