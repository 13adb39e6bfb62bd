"""LeaderAndIsr, StopReplica and UpdateMetadata over the wire, in every version."""

from __future__ import annotations

import pytest
from tests.unit.broker.handlers.controller_client import (
    CONTROLLER_EPOCH,
    FOLLOWER,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControllerClient,
)

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
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
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

LEADER_AND_ISR_EPOCH_SINCE, STOP_REPLICA_EPOCH_SINCE, UPDATE_METADATA_EPOCH_SINCE = 2, 1, 5


def leader_and_isr(harness, version, *, number=0, leader_epoch=1, **fields):
    broker_id = harness.broker.broker_id
    state = LeaderAndIsrPartitionState(
        "orders", number, 1, broker_id, leader_epoch, [broker_id], 1, [broker_id], is_new=version >= 1
    )
    request = LeaderAndIsrRequest(controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH, **fields)
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [LeaderAndIsrTopicState("orders", harness.topic_id("orders"), [state])]
    return request


def leader_and_isr_errors(harness, version, response):
    if version < 5:
        assert response.topics == []
        return {
            TopicPartition(entry.topic_name, entry.partition_index): entry.error_code
            for entry in response.partition_errors
        }
    assert response.partition_errors == []
    return {
        TopicPartition("orders", entry.partition_index): entry.error_code
        for topic in response.topics
        if topic.topic_id == harness.topic_id("orders")
        for entry in topic.partition_errors
    }


def stop_replica(version, leader_epoch=1, *, delete=True, **fields):
    request = StopReplicaRequest(controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH, **fields)
    if version == 0:
        request.ungrouped_partitions = [StopReplicaPartitionV0("orders", 0)]
    elif version < 3:
        request.topics = [StopReplicaTopicV1("orders", [0])]
    else:
        states = [StopReplicaPartitionState(0, leader_epoch, delete)]
        request.topic_states = [StopReplicaTopicState("orders", states)]
    request.delete_partitions = delete and version < 3
    return request


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_version(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        request = leader_and_isr(harness, version, number=5)
        response = await harness.request(LEADER_AND_ISR, version, request)
        expected = {TopicPartition("orders", 5): ErrorCode.NONE}
        assert (response.error_code, leader_and_isr_errors(harness, version, response)) == (0, expected)
        partition = harness.broker._replica_manager.get_leader_partition("orders", 5)
        assert partition.topic_id == (harness.topic_id("orders") if version >= 5 else bytes(16))
        again = await harness.request(LEADER_AND_ISR, version, request)
        expected = {TopicPartition("orders", 5): ErrorCode.STALE_CONTROLLER_EPOCH}
        assert (again.error_code, leader_and_isr_errors(harness, version, again)) == (0, expected)

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_of_an_outdated_controller(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await ControllerClient(harness).announce_brokers()
        request = leader_and_isr(harness, version)
        request.controller_epoch = CONTROLLER_EPOCH - 1
        response = await harness.request(LEADER_AND_ISR, version, request)
        stale = ErrorCode.STALE_CONTROLLER_EPOCH
        assert response.error_code == stale
        assert leader_and_isr_errors(harness, version, response) == {TopicPartition("orders", 0): stale}

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica_version(run_scenario, version, delete):
    async def scenario(harness):
        await harness.create("orders")
        response = await harness.request(STOP_REPLICA, version, stop_replica(version, delete=delete))
        assert response.error_code == 0
        (entry,) = response.partition_errors
        assert (entry.topic_name, entry.partition_index, entry.error_code) == ("orders", 0, 0)
        assert (harness.broker._replica_manager.get_partition("orders", 0) is None) is delete

    run_scenario(scenario)


def test_stop_replica_of_an_older_leader_epoch(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await harness.request(LEADER_AND_ISR, 7, leader_and_isr(harness, 7, leader_epoch=4))
        response = await harness.request(STOP_REPLICA, 4, stop_replica(4, leader_epoch=3))
        assert response.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert harness.broker._replica_manager.get_partition("orders", 0) is not None

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_version(run_scenario, version):
    async def scenario(harness):
        request = UpdateMetadataRequest(controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH)
        assert (await harness.request(UPDATE_METADATA, version, request)).error_code == 0
        assert harness.broker.metadata_cache.brokers == {}
        assert harness.broker.metadata_cache.controller_id == FOLLOWER
        request.controller_epoch -= 1
        response = await harness.request(UPDATE_METADATA, version, request)
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH

    run_scenario(scenario)


@pytest.mark.parametrize(("difference", "is_stale"), [(-1, True), (0, False), (1, False)])
def test_requests_for_an_earlier_registration_are_stale(run_scenario, difference, is_stale):
    async def scenario(harness):
        await harness.create("orders")
        epoch = harness.broker._membership.broker_epoch + difference
        expected = ErrorCode.STALE_BROKER_EPOCH if is_stale else ErrorCode.NONE
        metadata = UpdateMetadataRequest(
            controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH, broker_epoch=epoch
        )
        for api_key, version, request in (
            (LEADER_AND_ISR, 7, leader_and_isr(harness, 7, broker_epoch=epoch)),
            (STOP_REPLICA, 4, stop_replica(4, broker_epoch=epoch)),
            (UPDATE_METADATA, 8, metadata),
        ):
            assert (await harness.request(api_key, version, request)).error_code == expected
        partition = harness.broker._replica_manager.get_partition("orders", 0)
        assert (partition is not None) is is_stale, "a stale request deletes nothing"

    run_scenario(scenario)
