"""Produce: acks, refusals per partition, what closes a connection."""

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
def test_offsets_follow_each_other(play, acks):
    async def scenario(town):
        await town.create("orders")
        offsets = [(await town.produce("orders", b"a", b"b", acks=acks)).base_offset for _ in range(3)]
        assert offsets == [0, 2, 4]
        assert await town.values("orders") == [b"a", b"b"] * 3

    play(scenario)


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_acks_nobody_knows_are_refused_for_every_partition(play, acks, make_batch):
    async def scenario(town):
        await town.create("orders", 2)
        parts = [PartitionProduceData(n, make_batch(b"x")) for n in range(2)]
        response = await town.ask(PRODUCE, 11, request(*parts, acks=acks))
        codes = [one.error_code for one in response.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
        assert await town.values("orders") == []

    play(scenario)


def test_without_acks_there_is_no_answer_and_the_next_request_gets_its_own(play, make_batch):
    async def scenario(town):
        await town.create("orders")
        for number in range(3):
            data = request(PartitionProduceData(0, make_batch(b"%d" % number)), acks=0)
            town.client.tell(PRODUCE, 11, data)
        entry = await town.produce("orders", b"3", acks=1)
        assert entry.base_offset == 3
        assert await town.values("orders") == [b"0", b"1", b"2", b"3"]

    play(scenario)


def test_without_acks_an_error_closes_the_connection(play, make_batch):
    async def scenario(town):
        other = await town.memory.connect()
        other.tell(PRODUCE, 11, request(PartitionProduceData(0, make_batch(b"x")), acks=0, topic="nowhere"))
        assert await other.lost is None
        await town.create("orders")
        assert (await town.produce("orders", b"x")).error_code == 0, "others are served as before"

    play(scenario)


def test_each_partition_succeeds_or_fails_alone(play, make_batch):
    async def scenario(town):
        await town.create("orders", 2)
        damaged = make_batch(b"damaged")
        damaged[-1] ^= 0xFF
        parts = [
            PartitionProduceData(0, make_batch(b"good")),
            PartitionProduceData(1, damaged),
            PartitionProduceData(2, make_batch(b"nowhere")),
        ]
        response = await town.ask(PRODUCE, 11, request(*parts))
        codes = [one.error_code for one in response.responses[0].partition_responses]
        assert codes == [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await town.values("orders") == [b"good"]
        assert await town.values("orders", partition=1) == []

    play(scenario)


def test_a_batch_that_is_too_large_is_refused(play):
    async def scenario(town):
        await town.create("orders", settings={"max.message.bytes": "1000"})
        assert (await town.produce("orders", bytes(2000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await town.produce("orders", bytes(500))).error_code == 0

    play(scenario)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_topics_of_the_brokers_are_closed_to_producers(play, topic, make_batch):
    async def scenario(town):
        await town.create(topic)
        entry = await town.produce(topic, b"x")
        assert entry.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        admin = await town.memory.connect("__admin_client")
        data = request(PartitionProduceData(0, make_batch(b"x")), acks=1, topic=topic)
        response = await admin.request(PRODUCE, 11, data)
        assert response.responses[0].partition_responses[0].error_code == 0

    play(scenario)


def test_a_sequence_is_appended_once(play):
    async def scenario(town):
        await town.create("orders")
        how = {"producer_id": 7, "producer_epoch": 0}
        first = await town.produce("orders", b"a", base_sequence=0, **how)
        twice = await town.produce("orders", b"a", base_sequence=0, **how)
        assert (first.base_offset, twice.base_offset, twice.error_code) == (0, 0, 0)
        ahead = await town.produce("orders", b"c", base_sequence=5, **how)
        assert ahead.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await town.produce("orders", b"b", base_sequence=1, **how)).base_offset == 1
        assert await town.values("orders") == [b"a", b"b"]

    play(scenario)


def test_with_fewer_replicas_than_acks_all_needs_nothing_is_lost_to_the_wait(play):
    async def scenario(town):
        await town.create("orders", settings={"min.insync.replicas": "2"})
        entry = await town.produce("orders", b"x")
        assert entry.error_code == 0, "one replica of one is all there are"

    play(scenario)


def test_many_clients_pipelining_lose_and_mix_nothing(play, make_batch):
    async def scenario(town):
        await town.create("orders", 2)
        clients = [await town.memory.connect(f"c{number}") for number in range(4)]
        tasks = []
        for turn in range(30):
            for number, client in enumerate(clients):
                value = b"%d-%d" % (number, turn)
                part = PartitionProduceData(number % 2, make_batch(value))
                tasks.append(client.begin(PRODUCE, 11, request(part)))
        responses = await asyncio.gather(*tasks)
        assert all(one.responses[0].partition_responses[0].error_code == 0 for one in responses)
        for partition in (0, 1):
            values = await town.values("orders", partition=partition)
            for number in (partition, partition + 2):
                own = [value for value in values if value.startswith(b"%d-" % number)]
                assert own == [b"%d-%d" % (number, turn) for turn in range(30)]

    play(scenario, delay_max_ms=20, splits=True)


def test_a_topic_deleted_and_made_again_starts_empty(play):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"old")
        await town.ask(20, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        assert (await town.produce("orders", b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await town.create("orders")
        assert (await town.produce("orders", b"new")).base_offset == 0
        assert await town.values("orders") == [b"new"]

    play(scenario)


def test_producer_ids_are_given_once_however_many_ask(play):
    async def scenario(town):
        clients = [await town.memory.connect() for _ in range(5)]
        asked = [client.begin(22, 5, InitProducerIdRequest(None, 1000)) for client in clients * 300]
        ids = [response.producer_id for response in await asyncio.gather(*asked)]
        assert len(set(ids)) == len(ids) == 1500

    play(scenario)
