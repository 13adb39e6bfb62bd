"""Actions of the controller as requests: grouping by topic, offline replicas, deletions, broker epochs."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaState,
)
from odradek.controller.control_requests import (
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from odradek.controller.live_broker import LiveBroker
from odradek.model.ids import EPOCH_DURING_DELETE, ZERO_TOPIC_ID, TopicPartition
from odradek.store.layout.znodes import BrokerRegistration, RegisteredEndpoint
from odradek.wire.message_codecs import decoder, encoder

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID_A, ID_B = b"a" * 16, b"b" * 16
DELETED = StopReplicaState(EPOCH_DURING_DELETE, True)
STATES = {
    A1: PartitionStateUpdate(
        ID_A, 2, 5, (2, 1), (1, 2, 3), 9, True, (), 4, adding=(3,), removing=(1,), is_recovering=True
    ),
    B0: PartitionStateUpdate(ID_B, 1, 0, (1,), (1, 2), 0, offline_replicas=(2,)),
    A0: PartitionStateUpdate(ID_A, 1, 4, (1,), (1, 2), 8),
}


def live_broker(number: int) -> LiveBroker:
    endpoints = (
        RegisteredEndpoint("INNER", "PLAINTEXT", f"host{number}", 9092),
        RegisteredEndpoint("OUTER", "SASL_SSL", f"host{number}", 9093),
    )
    return LiveBroker(BrokerRegistration(endpoints, 0, f"rack{number}"), 70 + number)


LIVE = {1: live_broker(1), 2: live_broker(2)}


def through(request: Any, version: int) -> Any:
    """Encode and decode a request."""
    cls: Any = type(request)
    return decoder(cls, version)(memoryview(encoder(cls, version)(request)), 0)[0]


@pytest.mark.parametrize("version", range(2, 8))
def test_leader_and_isr_groups_partition_states_by_topic(version: int) -> None:
    action = SendLeaderAndIsr(2, 6, STATES, LIVE)
    request = through(leader_and_isr_request(action, 1, 72, version=version, listener_name="OUTER"), version)
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 6, 72)
    topics = [(topic.topic_name, topic.topic_id) for topic in request.topic_states]
    ids = (ID_A, ID_B) if version >= 5 else (ZERO_TOPIC_ID, ZERO_TOPIC_ID)
    assert topics == [("a", ids[0]), ("b", ids[1])]
    first, second = request.topic_states[0].partition_states
    assert (first.partition_index, second.partition_index) == (1, 0)
    assert (first.controller_epoch, first.leader, first.leader_epoch, first.partition_epoch) == (4, 2, 5, 9)
    reassigning = ([3], [1]) if version >= 3 else ([], [])
    assert (first.adding_replicas, first.removing_replicas) == reassigning
    assert (first.leader_recovery_state, second.leader_recovery_state) == (int(version >= 6), 0)
    leaders = [(leader.broker_id, leader.host_name, leader.port) for leader in request.live_leaders]
    assert leaders == [(1, "host1", 9093), (2, "host2", 9093)]
    assert (first.isr, first.replicas) == ([2, 1], [1, 2, 3])
    assert (first.is_new, second.is_new) == (True, False)


@pytest.mark.parametrize("version", range(5, 9))
def test_update_metadata_has_live_brokers_and_offline_replicas(version: int) -> None:
    request = through(update_metadata_request(SendUpdateMetadata([2], 6, LIVE, STATES), 1, 72), version)
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 6, 72)
    offline = {
        (topic.topic_name, state.partition_index): state.offline_replicas
        for topic in request.topic_states
        for state in topic.partition_states
    }
    assert offline == {A1: [], A0: [], B0: [2]}
    state = request.topic_states[0].partition_states[0]
    assert (state.controller_epoch, state.leader, state.leader_epoch, state.zk_version) == (4, 2, 5, 9)
    assert (state.isr, state.replicas) == ([2, 1], [1, 2, 3])
    broker = request.live_brokers[1]
    assert (broker.id, broker.rack) == (2, "rack2")
    assert [(end.listener, end.host, end.port, end.security_protocol) for end in broker.endpoints] == [
        ("INNER", "host2", 9092, 0),
        ("OUTER", "host2", 9093, 3),
    ]


@pytest.mark.parametrize("version", range(3, 5))
def test_stop_replica_deletes_whatever_the_leader_epoch_is(version: int) -> None:
    request = through(
        stop_replica_request(SendStopReplica(2, 6, dict.fromkeys((A1, B0, A0), DELETED)), 1, 72), version
    )
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 6, 72)
    stops = [
        (topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert stops == [
        ("a", 1, EPOCH_DURING_DELETE, True),
        ("a", 0, EPOCH_DURING_DELETE, True),
        ("b", 0, EPOCH_DURING_DELETE, True),
    ]


def test_unknown_broker_epoch_is_not_checked() -> None:
    assert leader_and_isr_request(SendLeaderAndIsr(1, 6, STATES), 1).broker_epoch == -1
    assert update_metadata_request(SendUpdateMetadata([1], 6, LIVE, STATES), 1).broker_epoch == -1
    assert stop_replica_request(SendStopReplica(1, 6, {A0: DELETED}), 1).broker_epoch == -1
