"""Fetch: waiting, limits, isolation, sessions, ids."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

FETCH, DELETE_TOPICS = 1, 20


def parts(town, *partitions, offset=0, topic="orders", max_bytes=1 << 20):
    asked = [FetchPartition(n, fetch_offset=offset, partition_max_bytes=max_bytes) for n in partitions]
    return [FetchTopic(topic, town.topic_id(topic), asked)]


def test_a_fetch_waits_until_something_is_appended(play, read_records):
    async def scenario(town):
        await town.create("orders")
        other = await town.memory.connect()
        request = town.fetch_request("orders", max_wait_ms=10_000)
        task = other.begin(FETCH, 17, request)
        await asyncio.sleep(3)
        assert not task.done()
        await town.produce("orders", b"news")
        await asyncio.sleep(0.001)
        assert task.done(), "woken at once, not at its deadline"
        [record] = read_records(task.result().responses[0].partitions[0].records)
        assert record.value == b"news"

    play(scenario)


def test_a_fetch_ends_with_nothing_at_its_deadline(play):
    async def scenario(town):
        await town.create("orders")
        began_ms = town.cluster.clock.monotonic_ms()
        entry = await town.fetch("orders", max_wait_ms=500)
        assert bytes(entry.records) == b""
        assert entry.error_code == 0
        assert town.cluster.clock.monotonic_ms() - began_ms == 500

    play(scenario)


def test_min_bytes_add_up_over_partitions(play, read_records):
    async def scenario(town):
        await town.create("orders", 3)
        other = await town.memory.connect()
        request = FetchRequest(
            max_wait_ms=60_000, min_bytes=150, max_bytes=1 << 20, topics=parts(town, 0, 1, 2)
        )
        task = other.begin(FETCH, 17, request)
        await town.produce("orders", b"x", partition=0)
        await asyncio.sleep(1)
        assert not task.done(), "one batch of some 70 bytes is not enough"
        await town.produce("orders", b"y", partition=2)
        await asyncio.sleep(1)
        assert not task.done()
        await town.produce("orders", b"z", partition=2)
        response = await task
        entries = response.responses[0].partitions
        assert [len(read_records(entry.records)) for entry in entries] == [1, 0, 2]

    play(scenario)


def test_what_is_there_at_the_deadline_is_given_though_it_is_not_enough(play, read_records):
    async def scenario(town):
        await town.create("orders")
        other = await town.memory.connect()
        task = other.begin(FETCH, 17, town.fetch_request("orders", max_wait_ms=1000, min_bytes=10_000))
        await town.produce("orders", b"little")
        response = await task
        assert [one.value for one in read_records(response.responses[0].partitions[0].records)] == [b"little"]
        assert town.cluster.clock.monotonic_ms() >= 1000

    play(scenario)


def test_an_error_ends_the_wait_at_once(play):
    async def scenario(town):
        await town.create("orders")
        began_ms = town.cluster.clock.monotonic_ms()
        entry = await town.fetch("orders", 77, max_wait_ms=10_000)
        assert entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert town.cluster.clock.monotonic_ms() == began_ms

    play(scenario)


def test_deleting_the_topic_ends_the_wait(play):
    async def scenario(town):
        await town.create("orders")
        other = await town.memory.connect()
        task = other.begin(FETCH, 17, town.fetch_request("orders", max_wait_ms=600_000))
        await asyncio.sleep(1)
        await town.ask(DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        response = await task
        code = response.responses[0].partitions[0].error_code
        assert code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert town.cluster.clock.monotonic_ms() < 100_000

    play(scenario)


def test_a_client_that_leaves_while_it_waits_disturbs_nobody(play):
    async def scenario(town):
        await town.create("orders")
        other = await town.memory.connect()
        task = other.begin(FETCH, 17, town.fetch_request("orders", max_wait_ms=5000))
        await asyncio.sleep(1)
        other.close()
        await asyncio.gather(task, return_exceptions=True)
        assert (await town.produce("orders", b"x")).error_code == 0
        await asyncio.sleep(10)
        assert await town.values("orders") == [b"x"]

    play(scenario)


def test_the_first_batch_is_given_whole_however_small_the_limits(play, read_records):
    async def scenario(town):
        await town.create("orders", 2)
        for partition in (0, 1):
            await town.produce("orders", b"x" * 5000, partition=partition)
        request = FetchRequest(max_bytes=10, topics=parts(town, 0, 1, max_bytes=10))
        first, second = (await town.ask(FETCH, 17, request)).responses[0].partitions
        assert len(read_records(first.records)) == 1
        assert bytes(second.records) == b"", "the bound of the whole answer is used up"

    play(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_without_a_bound_on_the_whole_each_partition_gives_its_first_batch(play, version, read_records):
    async def scenario(town):
        await town.create("orders", 2)
        for partition in (0, 1):
            await town.produce("orders", b"x" * 5000, partition=partition)
        request = FetchRequest(topics=parts(town, 0, 1, max_bytes=10))
        entries = (await town.ask(FETCH, version, request)).responses[0].partitions
        assert [len(read_records(entry.records)) for entry in entries] == [1, 1]

    play(scenario)


def test_the_broker_bounds_an_answer_too(play):
    async def scenario(town):
        await town.create("orders")
        for _ in range(5):
            await town.produce("orders", b"x" * 1000)
        entry = await town.fetch("orders")
        assert 1000 < len(entry.records) <= 2000

    play(scenario, {"fetch.max.bytes": "2000"})


def test_a_consumer_that_fences_by_epoch_is_told_where_it_stands(play):
    async def scenario(town):
        await town.create("orders")

        async def ask(epoch):
            request = town.fetch_request("orders")
            request.topics[0].partitions[0].current_leader_epoch = epoch
            return (await town.ask(FETCH, 17, request)).responses[0].partitions[0].error_code

        assert await ask(0) == 0
        assert await ask(-1) == 0
        assert await ask(1) == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(scenario)


def test_a_topic_made_again_has_another_id_and_the_old_one_is_unknown(play):
    async def scenario(town):
        await town.create("orders")
        request = town.fetch_request("orders")
        await town.ask(DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        await town.create("orders")
        old = (await town.ask(FETCH, 17, request)).responses[0].partitions[0]
        assert old.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await town.fetch("orders")).error_code == 0

    play(scenario)


def test_a_session_answers_only_what_has_news(play, read_records):
    async def scenario(town):
        await town.create("orders", 3)
        first = await town.ask(FETCH, 17, FetchRequest(session_epoch=0, topics=parts(town, 0, 1, 2)))
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 3
        again = FetchRequest(session_id=first.session_id, session_epoch=1)
        assert (await town.ask(FETCH, 17, again)).responses == []
        await town.produce("orders", b"x", partition=1)
        again.session_epoch = 2
        news = await town.ask(FETCH, 17, again)
        [entry] = news.responses[0].partitions
        assert entry.partition_index == 1
        assert [one.value for one in read_records(entry.records)] == [b"x"]

    play(scenario)


def test_a_forgotten_partition_leaves_its_session(play):
    async def scenario(town):
        await town.create("orders", 2)
        first = await town.ask(FETCH, 17, FetchRequest(session_epoch=0, topics=parts(town, 0, 1)))
        forgotten = ForgottenTopic("orders", town.topic_id("orders"), [0])
        again = FetchRequest(
            session_id=first.session_id, session_epoch=1, forgotten_topics_data=[forgotten], min_bytes=1
        )
        await town.produce("orders", b"x", partition=0)
        assert (await town.ask(FETCH, 17, again)).responses == []

    play(scenario)


def test_a_session_nobody_knows_is_refused(play):
    async def scenario(town):
        answer = await town.ask(FETCH, 17, FetchRequest(session_id=4711, session_epoch=5))
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert answer.responses == []

    play(scenario)


async def fetch_as(town, replica_id, version, leader_epoch=-1):
    request = town.fetch_request("orders", version=version)
    request.topics[0].partitions[0].current_leader_epoch = leader_epoch
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id, 1)
    return (await town.ask(FETCH, version, request)).responses[0].partitions[0]


@pytest.mark.parametrize("version", [4, 14, 17])
def test_a_replica_reads_to_the_end_of_the_log(play, version):
    async def scenario(town):
        await town.create("orders", assignments={0: [town.broker.broker_id, 5]})
        await town.produce("orders", b"x", acks=1)
        entry = await fetch_as(town, 5, version)
        assert entry.error_code == 0
        assert len(entry.records)

    play(scenario)


@pytest.mark.parametrize("version", [0, 4, 9, 14, 17])
def test_a_fetch_in_the_name_of_no_replica_is_refused(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"x")
        for replica_id in (5, town.broker.broker_id):
            entry = await fetch_as(town, replica_id, version)
            assert (entry.error_code, len(entry.records)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
            if version >= 9:
                entry = await fetch_as(town, replica_id, version, leader_epoch=0)
                assert (entry.error_code, len(entry.records)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)
                entry = await fetch_as(town, replica_id, version, leader_epoch=9)
                assert entry.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(scenario)


def test_zstd_topics_are_closed_to_readers_too_old_for_them(play):
    async def scenario(town):
        await town.create("orders", settings={"compression.type": "zstd"})
        await town.produce("orders", b"x" * 100)
        assert (await town.fetch("orders", version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await town.fetch("orders", version=10)).error_code == 0

    play(scenario)


def test_pipelined_fetches_and_produces_are_answered_in_order(play):
    async def scenario(town):
        await town.create("orders")
        waits = town.client.begin(FETCH, 17, town.fetch_request("orders", max_wait_ms=1000))
        quick = town.client.begin(FETCH, 17, town.fetch_request("orders"))
        order = []
        waits.add_done_callback(lambda _: order.append("waits"))
        quick.add_done_callback(lambda _: order.append("quick"))
        await asyncio.gather(waits, quick)
        assert order == ["waits", "quick"]

    play(scenario)


def test_old_fetchers_are_refused_where_conversion_is_switched_off(play):
    async def scenario(town):
        await town.create("orders", settings={"message.downconversion.enable": "false"})
        await town.produce("orders", b"news")
        for version, code in ((3, ErrorCode.UNSUPPORTED_VERSION), (4, ErrorCode.NONE)):
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=parts(town, 0))
            response = await town.ask(FETCH, version, request)
            assert response.responses[0].partitions[0].error_code == code

    play(scenario)
