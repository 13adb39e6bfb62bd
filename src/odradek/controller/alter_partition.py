"""Decision on an AlterPartition request: the checks of the controller, in Kafka's order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.controller.controller_context import ControllerContext
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr


class IsrChange(NamedTuple):
    """A proposed ISR. ``partition_epoch`` is the znode version that the leader knows."""

    leader_epoch: int
    partition_epoch: int
    isr: Sequence[int]
    is_recovering: bool


class IsrDecision(NamedTuple):
    """``is_change`` says that a state must be written; without one and without an error it is already so."""

    error: ErrorCode
    stored: VersionedLeaderAndIsr | None = None
    is_change: bool = False


def decide(context: ControllerContext, partition: TopicPartition, change: IsrChange) -> IsrDecision:
    """Decide on one partition. The caller answers INELIGIBLE_REPLICA as its version allows."""
    stored = context.partitions.get(partition)
    if stored is None or partition.topic not in context.topics:
        return IsrDecision(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current = stored.leader_and_isr
    if change.leader_epoch > current.leader_epoch or change.partition_epoch > stored.version:
        # The leader knows a later state: it comes from a later controller.
        return IsrDecision(ErrorCode.NOT_CONTROLLER, stored)
    if change.leader_epoch < current.leader_epoch:
        return IsrDecision(ErrorCode.FENCED_LEADER_EPOCH, stored)
    # A retry of a change that was written has an older partition epoch.
    if tuple(change.isr) == current.isr and change.is_recovering == current.is_recovering:
        return IsrDecision(ErrorCode.NONE, stored)
    if change.partition_epoch < stored.version:
        return IsrDecision(ErrorCode.INVALID_UPDATE_VERSION, stored)
    if change.is_recovering and len(change.isr) > 1:
        return IsrDecision(ErrorCode.INVALID_REQUEST, stored)
    if change.is_recovering and not current.is_recovering:
        return IsrDecision(ErrorCode.INVALID_REQUEST, stored)
    if any(replica not in context.brokers for replica in change.isr):
        return IsrDecision(ErrorCode.INELIGIBLE_REPLICA, stored)
    return IsrDecision(ErrorCode.NONE, stored, is_change=True)
