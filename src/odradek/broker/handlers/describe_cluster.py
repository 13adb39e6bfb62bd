"""DescribeCluster, versions 0 and 1: brokers, controller and cluster id. v1 asks for a kind of endpoint."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.acl_operations import CLUSTER_OPERATIONS
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise BrokerError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint, not a controller quorum's"
        )
    if request.endpoint_type != BROKERS:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type} is unknown"
        )
    broker = call.broker
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.image.controller_id,
        brokers=[
            DescribeClusterBroker(node.id, endpoint.host, endpoint.port, node.rack)
            for node, endpoint in broker.image.nodes(call.session.listener_name)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def refuse(request: DescribeClusterRequest, code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type
    )
