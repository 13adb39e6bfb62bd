"""Fetch: waiting, limits, isolation, sessions, ids."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

FETCH, DELETE_TOPICS = 1, 20


def parts(harness, *partitions, offset=0, topic="orders", max_bytes=1 << 20):
    requested = [FetchPartition(n, fetch_offset=offset, partition_max_bytes=max_bytes) for n in partitions]
    return [FetchTopic(topic, harness.topic_id(topic), requested)]


def test_fetch_waits_for_an_append(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders")
        other = await harness.memory_broker.connect()
        request = harness.fetch_request("orders", max_wait_ms=10_000)
        task = other.send(FETCH, 17, request)
        await asyncio.sleep(3)
        assert not task.done()
        await harness.produce("orders", b"new")
        await asyncio.sleep(0.001)
        assert task.done(), "woken at once, not at its deadline"
        [record] = read_records(task.result().responses[0].partitions[0].records)
        assert record.value == b"new"

    run_scenario(scenario)


def test_fetch_returns_empty_at_max_wait(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        began_ms = harness.cluster.clock.monotonic_ms()
        entry = await harness.fetch("orders", max_wait_ms=500)
        assert bytes(entry.records) == b""
        assert entry.error_code == 0
        assert harness.cluster.clock.monotonic_ms() - began_ms == 500

    run_scenario(scenario)


def test_min_bytes_counts_all_partitions(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders", 3)
        other = await harness.memory_broker.connect()
        request = FetchRequest(
            max_wait_ms=60_000, min_bytes=150, max_bytes=1 << 20, topics=parts(harness, 0, 1, 2)
        )
        task = other.send(FETCH, 17, request)
        await harness.produce("orders", b"x", partition=0)
        await asyncio.sleep(1)
        assert not task.done(), "one batch of some 70 bytes is not enough"
        await harness.produce("orders", b"y", partition=2)
        await asyncio.sleep(1)
        assert not task.done()
        await harness.produce("orders", b"z", partition=2)
        response = await task
        entries = response.responses[0].partitions
        assert [len(read_records(entry.records)) for entry in entries] == [1, 0, 2]

    run_scenario(scenario)


def test_fetch_returns_fewer_than_min_bytes_at_max_wait(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders")
        other = await harness.memory_broker.connect()
        task = other.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=1000, min_bytes=10_000))
        await harness.produce("orders", b"little")
        response = await task
        assert [record.value for record in read_records(response.responses[0].partitions[0].records)] == [
            b"little"
        ]
        assert harness.cluster.clock.monotonic_ms() >= 1000

    run_scenario(scenario)


def test_partition_error_completes_the_fetch_at_once(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        began_ms = harness.cluster.clock.monotonic_ms()
        entry = await harness.fetch("orders", 77, max_wait_ms=10_000)
        assert entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert harness.cluster.clock.monotonic_ms() == began_ms

    run_scenario(scenario)


def test_topic_deletion_completes_the_fetch(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        other = await harness.memory_broker.connect()
        task = other.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=600_000))
        await asyncio.sleep(1)
        await harness.request(DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        response = await task
        code = response.responses[0].partitions[0].error_code
        assert code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert harness.cluster.clock.monotonic_ms() < 100_000

    run_scenario(scenario)


def test_disconnect_of_a_waiting_client_is_handled(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        other = await harness.memory_broker.connect()
        task = other.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=5000))
        await asyncio.sleep(1)
        other.close()
        await asyncio.gather(task, return_exceptions=True)
        assert (await harness.produce("orders", b"x")).error_code == 0
        await asyncio.sleep(10)
        assert await harness.values("orders") == [b"x"]

    run_scenario(scenario)


def test_first_batch_is_returned_whole_beyond_the_limits(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders", 2)
        for partition in (0, 1):
            await harness.produce("orders", b"x" * 5000, partition=partition)
        request = FetchRequest(max_bytes=10, topics=parts(harness, 0, 1, max_bytes=10))
        first, second = (await harness.request(FETCH, 17, request)).responses[0].partitions
        assert len(read_records(first.records)) == 1
        assert bytes(second.records) == b"", "max_bytes of the whole response is used up"

    run_scenario(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_partition_returns_its_first_batch_without_max_bytes(run_scenario, version, read_records):
    async def scenario(harness):
        await harness.create("orders", 2)
        for partition in (0, 1):
            await harness.produce("orders", b"x" * 5000, partition=partition)
        request = FetchRequest(topics=parts(harness, 0, 1, max_bytes=10))
        entries = (await harness.request(FETCH, version, request)).responses[0].partitions
        assert [len(read_records(entry.records)) for entry in entries] == [1, 1]

    run_scenario(scenario)


def test_fetch_max_bytes_limits_the_response(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        for _ in range(5):
            await harness.produce("orders", b"x" * 1000)
        entry = await harness.fetch("orders")
        assert 1000 < len(entry.records) <= 2000

    run_scenario(scenario, {"fetch.max.bytes": "2000"})


def test_current_leader_epoch_is_checked(run_scenario):
    async def scenario(harness):
        await harness.create("orders")

        async def request(epoch):
            request = harness.fetch_request("orders")
            request.topics[0].partitions[0].current_leader_epoch = epoch
            return (await harness.request(FETCH, 17, request)).responses[0].partitions[0].error_code

        assert await request(0) == 0
        assert await request(-1) == 0
        assert await request(1) == ErrorCode.UNKNOWN_LEADER_EPOCH

    run_scenario(scenario)


def test_recreated_topic_has_a_new_id_and_the_old_one_is_unknown(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        request = harness.fetch_request("orders")
        await harness.request(DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState("orders")], [], 5000))
        await harness.create("orders")
        old = (await harness.request(FETCH, 17, request)).responses[0].partitions[0]
        assert old.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await harness.fetch("orders")).error_code == 0

    run_scenario(scenario)


def test_fetch_session_returns_only_changed_partitions(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders", 3)
        first = await harness.request(
            FETCH, 17, FetchRequest(session_epoch=0, topics=parts(harness, 0, 1, 2))
        )
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 3
        again = FetchRequest(session_id=first.session_id, session_epoch=1)
        assert (await harness.request(FETCH, 17, again)).responses == []
        await harness.produce("orders", b"x", partition=1)
        again.session_epoch = 2
        response = await harness.request(FETCH, 17, again)
        [entry] = response.responses[0].partitions
        assert entry.partition_index == 1
        assert [record.value for record in read_records(entry.records)] == [b"x"]

    run_scenario(scenario)


def test_forgotten_partition_leaves_its_fetch_session(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        first = await harness.request(FETCH, 17, FetchRequest(session_epoch=0, topics=parts(harness, 0, 1)))
        forgotten = ForgottenTopic("orders", harness.topic_id("orders"), [0])
        again = FetchRequest(
            session_id=first.session_id, session_epoch=1, forgotten_topics_data=[forgotten], min_bytes=1
        )
        await harness.produce("orders", b"x", partition=0)
        assert (await harness.request(FETCH, 17, again)).responses == []

    run_scenario(scenario)


def test_unknown_fetch_session_is_rejected(run_scenario):
    async def scenario(harness):
        response = await harness.request(FETCH, 17, FetchRequest(session_id=4711, session_epoch=5))
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert response.responses == []

    run_scenario(scenario)


async def fetch_as(harness, replica_id, version, leader_epoch=-1):
    request = harness.fetch_request("orders", version=version)
    request.topics[0].partitions[0].current_leader_epoch = leader_epoch
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id, 1)
    return (await harness.request(FETCH, version, request)).responses[0].partitions[0]


@pytest.mark.parametrize("version", [4, 14, 17])
def test_replica_fetch_reads_to_the_log_end_offset(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", assignments={0: [harness.broker.broker_id, 5]})
        await harness.produce("orders", b"x", acks=1)
        entry = await fetch_as(harness, 5, version)
        assert entry.error_code == 0
        assert len(entry.records)

    run_scenario(scenario)


@pytest.mark.parametrize("version", [0, 4, 9, 14, 17])
def test_fetch_with_an_unknown_replica_id_is_rejected(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"x")
        for replica_id in (5, harness.broker.broker_id):
            entry = await fetch_as(harness, replica_id, version)
            assert (entry.error_code, len(entry.records)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
            if version >= 9:
                entry = await fetch_as(harness, replica_id, version, leader_epoch=0)
                assert (entry.error_code, len(entry.records)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)
                entry = await fetch_as(harness, replica_id, version, leader_epoch=9)
                assert entry.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run_scenario(scenario)


def test_zstd_topic_is_rejected_for_old_fetch_versions(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"compression.type": "zstd"})
        await harness.produce("orders", b"x" * 100)
        assert (await harness.fetch("orders", version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await harness.fetch("orders", version=10)).error_code == 0

    run_scenario(scenario)


def test_pipelined_fetch_and_produce_responses_are_in_order(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        waits = harness.client.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=1000))
        quick = harness.client.send(FETCH, 17, harness.fetch_request("orders"))
        order = []
        waits.add_done_callback(lambda _: order.append("waits"))
        quick.add_done_callback(lambda _: order.append("quick"))
        await asyncio.gather(waits, quick)
        assert order == ["waits", "quick"]

    run_scenario(scenario)


def test_old_fetch_versions_are_rejected_with_down_conversion_disabled(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"message.downconversion.enable": "false"})
        await harness.produce("orders", b"new")
        for version, code in ((3, ErrorCode.UNSUPPORTED_VERSION), (4, ErrorCode.NONE)):
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=parts(harness, 0))
            response = await harness.request(FETCH, version, request)
            assert response.responses[0].partitions[0].error_code == code

    run_scenario(scenario)
