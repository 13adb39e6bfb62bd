"""Requests between brokers to the controller of an embedded store, and their place in ApiVersions."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

CONTROLLED_SHUTDOWN, API_VERSIONS, INIT_PRODUCER_ID = 7, 18, 22
ALTER_PARTITION, ALLOCATE_PRODUCER_IDS = 56, 67


def epoch_of(harness):
    return harness.broker._membership.broker_epoch


def test_inter_broker_apis_are_listed(run_scenario):
    async def scenario(harness):
        response = await harness.request(API_VERSIONS, 4, ApiVersionsRequest("odradek-test", "1.0"))
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert [ranges[key] for key in (7, 27, 56, 67)] == [(0, 3), (0, 1), (0, 3), (0, 0)]

    run_scenario(scenario)


def test_controller_allocates_blocks_that_no_other_broker_gets(run_scenario):
    async def scenario(harness):
        broker_id = harness.broker.broker_id
        blocks = [
            await harness.request(
                ALLOCATE_PRODUCER_IDS, 0, AllocateProducerIdsRequest(broker_id, epoch_of(harness))
            )
            for _ in range(2)
        ]
        assert [(b.error_code, b.producer_id_start, b.producer_id_len) for b in blocks] == [
            (0, 0, 1000),
            (0, 1000, 1000),
        ]
        own = await harness.request(INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
        assert own.producer_id == 2000

    run_scenario(scenario)


def test_block_is_refused_to_an_unknown_registration(run_scenario):
    async def scenario(harness):
        broker_id = harness.broker.broker_id
        for request, code in (
            (AllocateProducerIdsRequest(broker_id, epoch_of(harness) - 1), ErrorCode.STALE_BROKER_EPOCH),
            (AllocateProducerIdsRequest(broker_id + 1, 1), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ):
            response = await harness.request(ALLOCATE_PRODUCER_IDS, 0, request)
            assert response.error_code == code

    run_scenario(scenario)


def test_controlled_shutdown_has_nothing_to_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 3)
        broker_id = harness.broker.broker_id
        for version in range(4):
            request = ControlledShutdownRequest(broker_id, epoch_of(harness))
            response = await harness.request(CONTROLLED_SHUTDOWN, version, request)
            assert (response.error_code, response.remaining_partitions) == (0, [])
        stale = ControlledShutdownRequest(broker_id, epoch_of(harness) - 1)
        response = await harness.request(CONTROLLED_SHUTDOWN, 3, stale)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH

    run_scenario(scenario)


def alter_request(harness, version, isr, topic="orders"):
    part = AlterPartitionRequestPartitionData(0, leader_epoch=0, partition_epoch=0)
    if version >= 3:
        part.new_isr_with_epochs = [BrokerState(member) for member in isr]
    else:
        part.new_isr = isr
    topics = [AlterPartitionRequestTopicData("", harness.topic_id(topic), [part])]
    if version < 2:
        topics = [AlterPartitionRequestTopicData(topic, partitions=[part])]
    return AlterPartitionRequest(harness.broker.broker_id, epoch_of(harness), topics)


def test_unchanged_isr_is_confirmed_in_each_version(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        broker_id = harness.broker.broker_id
        for version in range(4):
            response = await harness.request(
                ALTER_PARTITION, version, alter_request(harness, version, [broker_id])
            )
            (part,) = response.topics[0].partitions
            assert (response.error_code, part.error_code) == (0, 0)
            assert (part.leader_id, part.leader_epoch, part.isr, part.partition_epoch) == (
                broker_id,
                0,
                [broker_id],
                0,
            )

    run_scenario(scenario)


def test_dead_broker_is_ineligible_for_the_isr(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        isr = [harness.broker.broker_id, 77]
        codes = []
        for version in range(4):
            response = await harness.request(ALTER_PARTITION, version, alter_request(harness, version, isr))
            codes.append(ErrorCode(response.topics[0].partitions[0].error_code))
        assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED] * 2 + [ErrorCode.INELIGIBLE_REPLICA] * 2

    run_scenario(scenario)


def test_isr_change_needs_the_broker_epoch(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        request = alter_request(harness, 3, [harness.broker.broker_id])
        request.broker_epoch -= 1
        response = await harness.request(ALTER_PARTITION, 3, request)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = AlterPartitionRequestTopicData("", b"x" * 16, [AlterPartitionRequestPartitionData(0)])
        request = AlterPartitionRequest(harness.broker.broker_id, epoch_of(harness), [unknown])
        response = await harness.request(ALTER_PARTITION, 3, request)
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run_scenario(scenario)
