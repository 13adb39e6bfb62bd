"""StopReplica, versions 0 to 4: stop replicas, and delete their logs, on behalf of the controller.

Up to version 2 there is one delete flag for all partitions. From version 3 on each partition has its own, and
a leader epoch: an older one than the partition's is fenced.
"""

from __future__ import annotations

from collections.abc import Coroutine

from odradek.broker.requests.broker_epoch import is_broker_epoch_stale
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

Result = StopReplicaResponse | Coroutine[None, None, StopReplicaResponse]


def stop_replica(request: StopReplicaRequest, context: RequestContext) -> Result:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if is_broker_epoch_stale(request.broker_epoch, context.broker.broker_epoch()):
        return error_response(request, ErrorCode.STALE_BROKER_EPOCH, None)
    return _apply(request, context)


async def _apply(request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    error, partition_errors = await context.broker.replica_manager.stop_replicas(request)
    return StopReplicaResponse(
        error,
        [
            StopReplicaPartitionError(topic, number, code)
            for (topic, number), code in partition_errors.items()
        ],
    )


def error_response(request: StopReplicaRequest, code: ErrorCode, message: str | None) -> StopReplicaResponse:
    return StopReplicaResponse(code)
