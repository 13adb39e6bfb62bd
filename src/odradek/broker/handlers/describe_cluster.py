"""DescribeCluster, versions 0 and 1: brokers, controller and cluster id. v1 adds the endpoint type."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import CLUSTER_NAME, AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise BrokerError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this endpoint is a broker, not a controller quorum"
        )
    if request.endpoint_type != BROKERS:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type must be 1 or 2, got {request.endpoint_type}"
        )
    broker = context.broker
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata_cache.controller_id,
        brokers=[
            DescribeClusterBroker(node.id, endpoint.host, endpoint.port, node.rack)
            for node, endpoint in broker.metadata_cache.nodes(context.session.listener_name)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def cluster_operations(context: RequestContext) -> int:
    """Return the bit field of what the sender may do with the cluster; 0 if it may not describe it."""
    if not context.is_allowed_on_cluster(AclOperation.DESCRIBE):
        return 0
    return context.authorized_operations(AclResourceType.CLUSTER, CLUSTER_NAME)


def error_response(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type
    )
