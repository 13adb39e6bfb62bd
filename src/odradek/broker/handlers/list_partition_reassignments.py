"""ListPartitionReassignments, version 0: replicas do not move between brokers, so none is listed."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()


def refuse(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
