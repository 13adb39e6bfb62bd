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
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

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


@pytest.mark.parametrize(
    ("topic", "number", "code"),
    [
        ("no/slash", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 249, 2**31 - 1, ErrorCode.INVALID_TOPIC_EXCEPTION),  # too long for a directory
        ("orders", -1, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_partition_without_a_possible_directory_is_refused(run_scenario, topic, number, code):
    """The log directory would fail, and the broker stop."""

    async def scenario(harness):
        broker_id = harness.broker.broker_id
        state = LeaderAndIsrPartitionState(topic, number, 1, broker_id, 1, [broker_id], 1, [broker_id])
        request = LeaderAndIsrRequest(
            controller_id=FOLLOWER, controller_epoch=CONTROLLER_EPOCH, ungrouped_partition_states=[state]
        )
        response = await harness.request(LEADER_AND_ISR, 1, request)
        assert [entry.error_code for entry in response.partition_errors] == [code]
        assert harness.broker.replica_manager.get_partition(topic, number) is None

    run_scenario(scenario)


def test_last_state_counts_of_a_partition_named_twice(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        request = leader_and_isr(harness, 7, number=5)
        request.topic_states *= 2
        request.topic_states[1] = leader_and_isr(harness, 7, number=5, leader_epoch=3).topic_states[0]
        response = await harness.request(LEADER_AND_ISR, 7, request)
        assert leader_and_isr_errors(harness, 7, response) == {TopicPartition("orders", 5): 0}
        assert harness.broker.replica_manager.get_leader_partition("orders", 5).leader_epoch == 3

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


@pytest.mark.parametrize("protocol", [-1, 4, 32_767])
def test_update_metadata_with_an_unknown_security_protocol_is_refused(run_scenario, protocol):
    async def scenario(harness):
        endpoint = UpdateMetadataEndpoint(9092, "h", "PLAINTEXT", protocol)
        request = UpdateMetadataRequest(
            controller_epoch=CONTROLLER_EPOCH, live_brokers=[UpdateMetadataBroker(8, endpoints=[endpoint])]
        )
        response = await harness.request(UPDATE_METADATA, 8, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert list(harness.broker.metadata_cache.brokers) == [harness.broker.broker_id]

    run_scenario(scenario)


@pytest.mark.parametrize("name", ["no/slash", "", "x" * 250])
def test_update_metadata_with_an_illegal_topic_name_is_refused(run_scenario, name):
    async def scenario(harness):
        states = [UpdateMetadataPartitionState("", 0, 1, 1, 1, [1], 1, [1], [])]
        request = UpdateMetadataRequest(
            controller_epoch=CONTROLLER_EPOCH,
            topic_states=[UpdateMetadataTopicState(name, b"i" * 16, states)],
        )
        response = await harness.request(UPDATE_METADATA, 8, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert harness.broker.metadata_cache.topic(name) is None

    run_scenario(scenario)
