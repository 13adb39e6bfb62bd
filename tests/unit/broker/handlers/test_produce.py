"""Produce: acks, errors per partition, closed connections."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE = 0


def request(*parts, acks=-1, topic="orders"):
    return ProduceRequest(None, acks, 1000, [TopicProduceData(topic, list(parts))])


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_are_consecutive(run_scenario, acks):
    async def scenario(harness):
        await harness.create("orders")
        offsets = [(await harness.produce("orders", b"a", b"b", acks=acks)).base_offset for _ in range(3)]
        assert offsets == [0, 2, 4]
        assert await harness.values("orders") == [b"a", b"b"] * 3

    run_scenario(scenario)


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_invalid_acks_are_rejected_for_every_partition(run_scenario, acks, make_batch):
    async def scenario(harness):
        await harness.create("orders", 2)
        parts = [PartitionProduceData(n, make_batch(b"x")) for n in range(2)]
        response = await harness.request(PRODUCE, 11, request(*parts, acks=acks))
        codes = [
            partition_respons.error_code for partition_respons in response.responses[0].partition_responses
        ]
        assert codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
        assert await harness.values("orders") == []

    run_scenario(scenario)


def test_acks_0_gets_no_response_and_the_next_request_gets_its_own(run_scenario, make_batch):
    async def scenario(harness):
        await harness.create("orders")
        for number in range(3):
            data = request(PartitionProduceData(0, make_batch(b"%d" % number)), acks=0)
            harness.client.send_oneway(PRODUCE, 11, data)
        entry = await harness.produce("orders", b"3", acks=1)
        assert entry.base_offset == 3
        assert await harness.values("orders") == [b"0", b"1", b"2", b"3"]

    run_scenario(scenario)


def test_acks_0_error_closes_the_connection(run_scenario, make_batch):
    async def scenario(harness):
        other = await harness.memory_broker.connect()
        other.send_oneway(
            PRODUCE, 11, request(PartitionProduceData(0, make_batch(b"x")), acks=0, topic="nowhere")
        )
        assert await other.lost is None
        await harness.create("orders")
        assert (await harness.produce("orders", b"x")).error_code == 0, "others are served"

    run_scenario(scenario)


def test_partitions_succeed_or_fail_independently(run_scenario, make_batch):
    async def scenario(harness):
        await harness.create("orders", 2)
        damaged = make_batch(b"damaged")
        damaged[-1] ^= 0xFF
        parts = [
            PartitionProduceData(0, make_batch(b"good")),
            PartitionProduceData(1, damaged),
            PartitionProduceData(2, make_batch(b"nowhere")),
        ]
        response = await harness.request(PRODUCE, 11, request(*parts))
        codes = [
            partition_respons.error_code for partition_respons in response.responses[0].partition_responses
        ]
        assert codes == [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await harness.values("orders") == [b"good"]
        assert await harness.values("orders", partition=1) == []

    run_scenario(scenario)


def test_batch_above_max_message_bytes_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"max.message.bytes": "1000"})
        assert (await harness.produce("orders", bytes(2000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await harness.produce("orders", bytes(500))).error_code == 0

    run_scenario(scenario)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_reject_producers(run_scenario, topic, make_batch):
    async def scenario(harness):
        await harness.create(topic)
        entry = await harness.produce(topic, b"x")
        assert entry.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        admin = await harness.memory_broker.connect("__admin_client")
        data = request(PartitionProduceData(0, make_batch(b"x")), acks=1, topic=topic)
        response = await admin.request(PRODUCE, 11, data)
        assert response.responses[0].partition_responses[0].error_code == 0

    run_scenario(scenario)


def test_repeated_sequence_is_appended_once(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        options = {"producer_id": 7, "producer_epoch": 0}
        first = await harness.produce("orders", b"a", base_sequence=0, **options)
        twice = await harness.produce("orders", b"a", base_sequence=0, **options)
        assert (first.base_offset, twice.base_offset, twice.error_code) == (0, 0, 0)
        ahead = await harness.produce("orders", b"c", base_sequence=5, **options)
        assert ahead.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await harness.produce("orders", b"b", base_sequence=1, **options)).base_offset == 1
        assert await harness.values("orders") == [b"a", b"b"]

    run_scenario(scenario)


def test_acks_all_below_min_isr_is_rejected_without_waiting(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"min.insync.replicas": "2"})
        entry = await harness.produce("orders", b"x")
        assert entry.error_code == 0, "one of one replicas is in sync"

    run_scenario(scenario)


def test_many_pipelining_clients_get_their_own_responses(run_scenario, make_batch):
    async def scenario(harness):
        await harness.create("orders", 2)
        clients = [await harness.memory_broker.connect(f"c{number}") for number in range(4)]
        tasks = []
        for turn in range(30):
            for number, client in enumerate(clients):
                value = b"%d-%d" % (number, turn)
                part = PartitionProduceData(number % 2, make_batch(value))
                tasks.append(client.send(PRODUCE, 11, request(part)))
        responses = await asyncio.gather(*tasks)
        assert all(respons.responses[0].partition_responses[0].error_code == 0 for respons in responses)
        for partition in (0, 1):
            values = await harness.values("orders", partition=partition)
            for number in (partition, partition + 2):
                own = [value for value in values if value.startswith(b"%d-" % number)]
                assert own == [b"%d-%d" % (number, turn) for turn in range(30)]

    run_scenario(scenario, delay_max_ms=20, splits=True)


def test_recreated_topic_starts_empty(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"old")
        await harness.request(20, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        assert (await harness.produce("orders", b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await harness.create("orders")
        assert (await harness.produce("orders", b"new")).base_offset == 0
        assert await harness.values("orders") == [b"new"]

    run_scenario(scenario)


def test_concurrent_init_producer_id_returns_distinct_ids(run_scenario):
    async def scenario(harness):
        clients = [await harness.memory_broker.connect() for _ in range(5)]
        requested = [client.send(22, 5, InitProducerIdRequest(None, 1000)) for client in clients * 300]
        ids = [response.producer_id for response in await asyncio.gather(*requested)]
        assert len(set(ids)) == len(ids) == 1500

    run_scenario(scenario)
