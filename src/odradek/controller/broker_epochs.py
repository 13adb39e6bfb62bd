"""Checks of broker epochs, and the leaderships left to a broker that shuts down. Pure."""

from __future__ import annotations

from odradek.controller.controller_context import ControllerContext
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

UNKNOWN_EPOCH = -1


def check_equal(context: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Check a request that only the current registration of a broker may send."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker.broker_epoch == broker_epoch else ErrorCode.STALE_BROKER_EPOCH


def check_controlled_shutdown(context: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Refuse an earlier registration of the broker; old versions send no epoch."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    is_stale = broker_epoch != UNKNOWN_EPOCH and broker_epoch < broker.broker_epoch
    return ErrorCode.STALE_BROKER_EPOCH if is_stale else ErrorCode.NONE


def remaining_partitions(context: ControllerContext, broker_id: int) -> list[TopicPartition]:
    """Return the replicated partitions that a broker leads. Others have no replica to move to."""
    return [
        partition
        for partition, stored in context.partitions.items()
        if stored.leader_and_isr.leader == broker_id
        and len(context.topics[partition.topic].partitions[partition.partition].replicas) > 1
    ]
