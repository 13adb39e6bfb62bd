"""Decisions of the controller on AlterPartition, broker epochs and controlled shutdowns."""

from __future__ import annotations

import pytest

from odradek.controller import broker_epochs
from odradek.controller.alter_partition import IsrChange, decide
from odradek.controller.controller_context import ControllerContext
from odradek.controller.live_broker import LiveBroker
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicAssignment,
)

ORDERS = TopicPartition("orders", 0)
SINGLE = TopicPartition("single", 0)


def make_context(*, is_recovering: bool = False) -> ControllerContext:
    """Broker 1 leads ``orders`` (replicas 1, 2, 3; broker 3 is dead) and ``single`` (replica 1)."""
    isr = (1,) if is_recovering else (1, 2)
    registration = BrokerRegistration((), 0)
    return ControllerContext(
        controller_epoch=5,
        brokers={1: LiveBroker(registration, 100), 2: LiveBroker(registration, 200)},
        topics={
            "orders": TopicAssignment(b"o" * 16, {0: ReplicaAssignment((1, 2, 3))}),
            "single": TopicAssignment(b"s" * 16, {0: ReplicaAssignment((1,))}),
        },
        partitions={
            ORDERS: VersionedLeaderAndIsr(LeaderIsrAndControllerEpoch(1, 7, isr, 5, is_recovering), 3),
            SINGLE: VersionedLeaderAndIsr(LeaderIsrAndControllerEpoch(1, 0, (1,), 5), 0),
        },
    )


@pytest.mark.parametrize(
    ("change", "error", "is_change"),
    [
        (IsrChange(7, 3, [1], False), ErrorCode.NONE, True),
        (IsrChange(8, 3, [1], False), ErrorCode.NOT_CONTROLLER, False),
        (IsrChange(7, 4, [1], False), ErrorCode.NOT_CONTROLLER, False),
        (IsrChange(6, 3, [1], False), ErrorCode.FENCED_LEADER_EPOCH, False),
        (IsrChange(6, 3, [1, 2], False), ErrorCode.FENCED_LEADER_EPOCH, False),
        (IsrChange(7, 3, [1, 2], False), ErrorCode.NONE, False),
        (IsrChange(7, 2, [1, 2], False), ErrorCode.NONE, False),
        (IsrChange(7, 2, [1], False), ErrorCode.INVALID_UPDATE_VERSION, False),
        (IsrChange(7, 2, [1, 2, 3], False), ErrorCode.INVALID_UPDATE_VERSION, False),
        (IsrChange(7, 3, [1, 2], True), ErrorCode.INVALID_REQUEST, False),
        (IsrChange(7, 3, [1], True), ErrorCode.INVALID_REQUEST, False),
        (IsrChange(7, 3, [1, 2, 3], False), ErrorCode.INELIGIBLE_REPLICA, False),
    ],
)
def test_isr_change_is_checked_in_order(change: IsrChange, error: ErrorCode, is_change: bool) -> None:
    decision = decide(make_context(), ORDERS, change)
    assert (decision.error, decision.is_change) == (error, is_change)


@pytest.mark.parametrize(
    ("change", "error", "is_change"),
    [
        (IsrChange(7, 3, [1], False), ErrorCode.NONE, True),
        (IsrChange(7, 3, [1], True), ErrorCode.NONE, False),
        (IsrChange(7, 3, [1, 2], True), ErrorCode.INVALID_REQUEST, False),
        (IsrChange(7, 3, [1, 2], False), ErrorCode.NONE, True),
    ],
)
def test_recovering_leader_stays_alone_in_the_isr(
    change: IsrChange, error: ErrorCode, is_change: bool
) -> None:
    decision = decide(make_context(is_recovering=True), ORDERS, change)
    assert (decision.error, decision.is_change) == (error, is_change)


def test_unknown_partition() -> None:
    decision = decide(make_context(), TopicPartition("orders", 9), IsrChange(0, 0, [1], False))
    assert decision.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [
        (1, 100, ErrorCode.NONE),
        (1, 99, ErrorCode.STALE_BROKER_EPOCH),
        (1, 101, ErrorCode.STALE_BROKER_EPOCH),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
        (3, 100, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_broker_epoch_must_be_equal(broker_id: int, epoch: int, error: ErrorCode) -> None:
    assert broker_epochs.check_equal(make_context(), broker_id, epoch) == error


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [
        (1, 100, ErrorCode.NONE),
        (1, 99, ErrorCode.STALE_BROKER_EPOCH),
        (1, 101, ErrorCode.NONE),
        (1, -1, ErrorCode.NONE),
        (3, 100, ErrorCode.BROKER_NOT_AVAILABLE),
    ],
)
def test_controlled_shutdown_refuses_smaller_epochs_only(
    broker_id: int, epoch: int, error: ErrorCode
) -> None:
    assert broker_epochs.check_controlled_shutdown(make_context(), broker_id, epoch) == error


def test_only_replicated_partitions_remain() -> None:
    assert broker_epochs.remaining_partitions(make_context(), 1) == [ORDERS]
    assert broker_epochs.remaining_partitions(make_context(), 2) == []
