"""ListGroups, versions 0 to 5: the groups this broker coordinates.

v4 adds states and a filter by state, v5 the same for types, of which there is one. Filters are case
insensitive. While some groups are loading the others are listed, with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import CLASSIC
from odradek.broker.requests.authorization import NO_NAMES
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def list_groups(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    coordinator = context.broker.group_coordinator
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.is_loading else ErrorCode.NONE
    types = {name.lower() for name in request.types_filter}
    if types and CLASSIC not in types:
        return ListGroupsResponse(error_code=code)
    listings = [listing for shard in coordinator.shards() for listing in shard.listing(request.states_filter)]
    denied = NO_NAMES
    if not context.is_allowed_on_cluster(AclOperation.DESCRIBE, log_if_denied=False):
        names = (listing.group_id for listing in listings)
        denied = context.denied(AclOperation.DESCRIBE, AclResourceType.GROUP, names, log_if_denied=False)
    return ListGroupsResponse(
        error_code=code,
        groups=[
            ListedGroup(listing.group_id, listing.protocol_type, listing.state, CLASSIC)
            for listing in listings
            if listing.group_id not in denied
        ],
    )


def error_response(request: ListGroupsRequest, code: ErrorCode, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)
