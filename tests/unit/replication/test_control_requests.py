"""Decisions about the controller's requests, and their form in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE, ZERO_TOPIC_ID, TopicPartition
from odradek.replication.control_requests import (
    NO_EPOCH,
    RequestedRole,
    RequestedStop,
    RoleDecision,
    decide_role,
    is_stop_fenced,
    requested_roles,
    requested_stops,
)
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)

ORDERS = TopicPartition("orders", 3)
ID, OTHER, NONE = b"i" * 16, b"o" * 16, ZERO_TOPIC_ID
APPLIES = RoleDecision(True)
INCONSISTENT = RoleDecision(False, ErrorCode.INCONSISTENT_TOPIC_ID)
STALE = RoleDecision(False, ErrorCode.STALE_CONTROLLER_EPOCH)
NOT_A_REPLICA = RoleDecision(False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
ASSIGNS = RoleDecision(False, assigns_topic_id=True)
ASSIGNS_TO_FOLLOWER = RoleDecision(False, assigns_topic_id=True, updates_fetcher=True)
DROPS = RoleDecision(False, updates_fetcher=True)


@pytest.mark.parametrize(
    ("leader_epoch", "topic_id", "leader", "replicas", "current_epoch", "current_id", "decision"),
    [
        (0, ID, 1, (1, 2), -1, NONE, APPLIES),  # a new partition
        (5, ID, 1, (1, 2), 4, ID, APPLIES),
        (5, NONE, 1, (1, 2), 4, ID, APPLIES),  # a controller that does not know topic ids
        (5, ID, 2, (1, 2), 4, NONE, APPLIES),
        (5, OTHER, 1, (1, 2), 4, ID, INCONSISTENT),
        (4, OTHER, 1, (1, 2), 4, ID, INCONSISTENT),
        (3, OTHER, 1, (1, 2), 4, ID, INCONSISTENT),
        (5, ID, 2, (2, 3), 4, ID, NOT_A_REPLICA),
        (4, ID, 1, (1, 2), 4, ID, STALE),
        (3, ID, 1, (1, 2), 4, ID, STALE),
        (3, ID, 1, (1, 2), 4, NONE, STALE),
        (4, NONE, 1, (1, 2), 4, NONE, STALE),
        (4, ID, 1, (1, 2), 4, NONE, ASSIGNS),
        (4, ID, 2, (1, 2), 4, NONE, ASSIGNS_TO_FOLLOWER),
        (4, NONE, 2, (1, 2), 4, ID, DROPS),
        (4, NONE, 1, (1, 2), 4, ID, STALE),
    ],
)
def test_decision_about_a_role(
    leader_epoch: int,
    topic_id: bytes,
    leader: int,
    replicas: tuple[int, ...],
    current_epoch: int,
    current_id: bytes,
    decision: RoleDecision,
) -> None:
    state = LeaderAndIsrPartitionState(leader=leader, leader_epoch=leader_epoch, replicas=list(replicas))
    assert decide_role(RequestedRole(ORDERS, topic_id, state), 1, current_epoch, current_id) == decision


@pytest.mark.parametrize(
    ("requested", "current", "fenced"),
    [
        (EPOCH_DURING_DELETE, 7, False),
        (NO_EPOCH, 7, False),
        (6, 7, True),
        (7, 7, False),
        (8, 7, False),
        (0, -1, False),
    ],
)
def test_stop_is_fenced_by_a_later_leader_epoch(requested: int, current: int, fenced: bool) -> None:
    assert is_stop_fenced(requested, current) is fenced


def through(request: Any, version: int) -> Any:
    """Encode and decode a request."""
    cls: Any = type(request)
    encoded = encoder(cls, version)(request)
    return decoder(cls, version)(memoryview(encoded), 0)[0]


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_in_every_version(version: int) -> None:
    state = LeaderAndIsrPartitionState(
        "orders", 3, 1, 2, 4, [1, 2], 5, [1, 2], [2] if version >= 3 else [], [], version >= 1
    )
    request = LeaderAndIsrRequest(
        controller_id=1,
        ungrouped_partition_states=[state] if version < 2 else [],
        topic_states=[LeaderAndIsrTopicState("orders", ID, [state])] if version >= 2 else [],
    )
    ((topic_partition, topic_id, decoded),) = requested_roles(through(request, version))
    assert (topic_partition, topic_id) == (ORDERS, ID if version >= 5 else NONE)
    assert (decoded.leader, decoded.leader_epoch, decoded.partition_epoch) == (2, 4, 5)
    assert (decoded.isr, decoded.replicas, decoded.is_new) == ([1, 2], [1, 2], version >= 1)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica_in_every_version(version: int, delete: bool) -> None:
    request = StopReplicaRequest(controller_id=1, delete_partitions=delete if version < 3 else False)
    if version == 0:
        request.ungrouped_partitions = [StopReplicaPartitionV0("orders", 3)]
    elif version < 3:
        request.topics = [StopReplicaTopicV1("orders", [3])]
    else:
        request.topic_states = [StopReplicaTopicState("orders", [StopReplicaPartitionState(3, 7, delete)])]
    stops = list(requested_stops(through(request, version)))
    assert stops == [RequestedStop(ORDERS, 7 if version >= 3 else NO_EPOCH, delete)]
