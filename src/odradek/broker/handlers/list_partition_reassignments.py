"""ListPartitionReassignments, version 0: always empty, because reassignment is not supported yet."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    context.broker.membership.require_controller()
    return ListPartitionReassignmentsResponse()


def error_response(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
