"""DeleteGroups, versions 0 to 2: delete empty groups and their offsets. v1 is as v0, v2 is flexible.

Groups succeed or fail independently; a duplicate is deleted once and returned once.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import DeleteGroup
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

Result = DeleteGroupsResponse | PendingResponse[DeleteGroupsResponse]


def delete_groups(request: DeleteGroupsRequest, context: RequestContext) -> Result:
    results = [DeletableGroupResult(group) for group in dict.fromkeys(request.groups_names)]
    response = DeleteGroupsResponse(results=results)
    if not results:
        return response
    pending: PendingResponse[DeleteGroupsResponse] = PendingResponse()
    remaining = len(results)

    def on_result(result: DeletableGroupResult, code: ErrorCode) -> None:
        nonlocal remaining
        remaining -= 1
        result.error_code = code
        if remaining == 0:
            pending.complete(response)

    for result in results:
        try:
            context.require(AclOperation.DELETE, AclResourceType.GROUP, result.group_id)
            context.broker.group_coordinator.submit(
                result.group_id, DeleteGroup(result.group_id), partial(on_result, result)
            )
        except BrokerError as error:
            on_result(result, error.code)
    return pending


def error_response(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group, code) for group in dict.fromkeys(request.groups_names)]
    )
