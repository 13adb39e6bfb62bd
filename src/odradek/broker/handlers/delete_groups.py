"""DeleteGroups, versions 0 to 2: forget groups without members, and their offsets. v1 is as v0, v2 flexible.

Each group succeeds or fails alone; one that is named twice is deleted once and answered once.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import DeleteGroup
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

Result = DeleteGroupsResponse | Pending[DeleteGroupsResponse]


def delete_groups(request: DeleteGroupsRequest, call: Call) -> Result:
    results = [DeletableGroupResult(group) for group in dict.fromkeys(request.groups_names)]
    response = DeleteGroupsResponse(results=results)
    if not results:
        return response
    pending: Pending[DeleteGroupsResponse] = Pending()
    left = len(results)

    def told(result: DeletableGroupResult, code: ErrorCode) -> None:
        nonlocal left
        left -= 1
        result.error_code = code
        if left == 0:
            pending.complete(response)

    for result in results:
        try:
            call.broker.groups.submit(result.group_id, DeleteGroup(result.group_id), partial(told, result))
        except BrokerError as refused:
            told(result, refused.code)
    return pending


def refuse(request: DeleteGroupsRequest, code: ErrorCode, message: str | None) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group, code) for group in dict.fromkeys(request.groups_names)]
    )
