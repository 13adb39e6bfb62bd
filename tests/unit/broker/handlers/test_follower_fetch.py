"""Fetches of followers, and what they change for producers, consumers and the ISR."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.conftest import batch as make_batch
from tests.unit.broker.handlers.controller_client import (
    FOLLOWER,
    OTHER_FOLLOWER,
    ControllerClient,
    FollowerClient,
)

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FETCH, PRODUCE, LIST_OFFSETS, DELETE_RECORDS = 1, 0, 2, 21
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def make_replicated(harness, partitions=1, followers=(FOLLOWER,), **options):
    await harness.create("orders", partitions)
    controller = ControllerClient(harness)
    await controller.announce_brokers(FOLLOWER, OTHER_FOLLOWER)
    await controller.set_leader("orders", partitions=tuple(range(partitions)), followers=followers, **options)
    return controller


def test_follower_fetch_commits_what_it_has(run_scenario, read_records):
    async def scenario(harness):
        await make_replicated(harness)
        follower = await FollowerClient.connect(harness)
        assert list(await follower.fetch({A: 0})) == [A]
        produce = asyncio.ensure_future(harness.produce("orders", b"a", b"b"))
        await asyncio.sleep(0.01)
        assert not produce.done()
        fetched = (await follower.fetch({A: 0}))[A]
        assert [record.value for record in read_records(fetched.records)] == [b"a", b"b"]
        assert (fetched.high_watermark, produce.done()) == (0, False)
        await follower.fetch({A: 2})
        assert (await produce).error_code == 0
        assert await harness.values("orders") == [b"a", b"b"]
        entry = (await follower.fetch({}))[A]
        assert (entry.high_watermark, bytes(entry.records)) == (2, b"")

    run_scenario(scenario)


def test_fetch_of_broker_0_counts(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        controller = ControllerClient(harness)
        await controller.announce_brokers(0)
        await controller.set_leader("orders", followers=(0,))
        await harness.produce("orders", b"a", acks=1)
        follower = await FollowerClient.connect(harness, 0)
        waiting = follower.send({A: 1}, max_wait_ms=10_000)
        await asyncio.sleep(0.01)
        assert harness.broker._replica_manager.get_partition(*A).high_watermark == 1
        await harness.produce("orders", b"b", acks=1)
        await asyncio.sleep(0.01)
        assert bytes(waiting.result().responses[0].partitions[0].records)

    run_scenario(scenario, {"broker.id": "5"})


def test_partitions_of_the_session_count_although_not_named(run_scenario):
    async def scenario(harness):
        await make_replicated(harness, partitions=2, followers=(FOLLOWER, OTHER_FOLLOWER))
        follower, other = [
            await FollowerClient.connect(harness, number) for number in (FOLLOWER, OTHER_FOLLOWER)
        ]
        await other.fetch({A: 0, B: 0})
        await follower.fetch({A: 0, B: 0})
        clock = harness.cluster.clock
        replica = harness.broker._replica_manager.get_partition(*B).leader_state.replica(FOLLOWER)
        await clock.sleep_ms(1000)
        await follower.fetch({A: 0})
        assert replica.last_fetch_ms == clock.monotonic_ms()
        await clock.sleep_ms(1000)
        await follower.fetch({})
        await harness.broker._replica_manager.shrink_isrs()  # writes the times of fetches
        assert replica.last_caught_up_ms == clock.monotonic_ms()

    run_scenario(scenario)


def test_diverging_follower_gets_no_records_and_no_credit(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness, isr=(0,))
        broker_id = controller.broker_id
        await controller.set_leader("orders", leader_epoch=2, isr=(broker_id,))
        await harness.produce("orders", b"a", acks=1)
        await controller.set_leader("orders", leader_epoch=5, isr=(broker_id,))
        await harness.produce("orders", b"b", acks=1)
        follower = await FollowerClient.connect(harness)
        entry = (await follower.fetch({A: 2}, leader_epoch=5, last_epoch=2))[A]
        assert (entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset) == (2, 1)
        assert bytes(entry.records) == b""
        replica = harness.broker._replica_manager.get_partition(*A).leader_state.replica(FOLLOWER)
        assert replica.log_end_offset == -1
        await follower.fetch({A: 1}, leader_epoch=5, last_epoch=2)
        assert replica.log_end_offset == 1

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("broker_id", "leader_epoch", "code"),
    [
        (FOLLOWER, 1, ErrorCode.NONE),
        (FOLLOWER, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (FOLLOWER, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (OTHER_FOLLOWER, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (OTHER_FOLLOWER, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_only_followers_of_this_epoch_are_served(run_scenario, broker_id, leader_epoch, code):
    async def scenario(harness):
        await make_replicated(harness)
        follower = await FollowerClient.connect(harness, broker_id)
        entry = (await follower.fetch({A: 0}, leader_epoch=leader_epoch))[A]
        assert entry.error_code == code
        leader = harness.broker._replica_manager.get_partition(*A).leader_state
        assert leader.replica(FOLLOWER).log_end_offset == (0 if code == ErrorCode.NONE else -1)

    run_scenario(scenario)


@pytest.mark.parametrize("is_in_sync", [False, True])
def test_throttled_follower_gets_no_records_while_the_quota_is_exceeded(run_scenario, is_in_sync):
    async def scenario(harness):
        isr = (harness.broker.broker_id, FOLLOWER) if is_in_sync else (harness.broker.broker_id,)
        await make_replicated(harness, partitions=2, isr=isr)
        for number in range(2):
            await harness.produce("orders", b"a", b"b", partition=number, acks=1)
        clock = harness.cluster.clock
        quota = harness.broker.replica_manager.leader_quota = ReplicationQuotaManager(clock, 11, 1000)
        quota.bytes_per_second_max = 1
        quota.mark_throttled("orders", frozenset({0}))
        quota.record(1000)
        follower = await FollowerClient.connect(harness)
        fetched = await follower.fetch({A: 0, B: 0})
        assert bytes(fetched[B].records), "only listed partitions are throttled"
        assert bool(bytes(fetched[A].records)) is is_in_sync
        leader = harness.broker.replica_manager.get_partition(*A).leader_state
        assert (fetched[A].error_code, leader.replica(FOLLOWER).log_end_offset) == (0, 0)
        if not is_in_sync:
            waiting = follower.send({A: 0, B: 2}, max_wait_ms=500)
            begun_ms = clock.monotonic_ms()
            await waiting
            assert clock.monotonic_ms() - begun_ms == 500, "throttled bytes do not complete a fetch"
        await clock.sleep_ms(11_000)
        later = await FollowerClient.connect(harness)
        assert bytes((await later.fetch({A: 0}))[A].records)

    run_scenario(scenario)


def test_out_of_range_fetch_gives_no_credit(run_scenario):
    async def scenario(harness):
        await make_replicated(harness)
        follower = await FollowerClient.connect(harness)
        entry = (await follower.fetch({A: 5}))[A]
        assert entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        leader = harness.broker._replica_manager.get_partition(*A).leader_state
        assert leader.replica(FOLLOWER).log_end_offset == -1

    run_scenario(scenario)


def test_waiting_follower_is_woken_by_an_append(run_scenario):
    async def scenario(harness):
        await make_replicated(harness)
        follower = await FollowerClient.connect(harness)
        waiting = follower.send({A: 0}, max_wait_ms=10_000)
        await asyncio.sleep(1)
        assert not waiting.done()
        await harness.produce("orders", b"a", acks=1)
        await asyncio.sleep(0.001)
        (entry,) = waiting.result().responses[0].partitions
        assert bytes(entry.records)
        assert entry.high_watermark == 0

    run_scenario(scenario)


def test_waiting_follower_gets_the_high_watermark_at_its_deadline(run_scenario):
    async def scenario(harness):
        await make_replicated(harness, followers=(FOLLOWER, OTHER_FOLLOWER))
        await harness.produce("orders", b"a", acks=1)
        follower, other = [
            await FollowerClient.connect(harness, number) for number in (FOLLOWER, OTHER_FOLLOWER)
        ]
        waiting = follower.send({A: 1}, max_wait_ms=500)
        await asyncio.sleep(0.1)
        await other.fetch({A: 1})
        await asyncio.sleep(0.1)
        assert not waiting.done(), "the high watermark alone does not end the wait"
        await asyncio.sleep(0.5)
        (entry,) = waiting.result().responses[0].partitions
        assert entry.high_watermark == 1

    run_scenario(scenario)


def test_waiting_consumer_is_woken_by_the_high_watermark(run_scenario):
    async def scenario(harness):
        await make_replicated(harness)
        client = await harness.memory_broker.connect()
        waiting = client.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=10_000))
        await harness.produce("orders", b"a", acks=1)
        await asyncio.sleep(1)
        assert not waiting.done(), "not committed yet"
        follower = await FollowerClient.connect(harness)
        await follower.fetch({A: 1})
        await asyncio.sleep(0.001)
        (entry,) = waiting.result().responses[0].partitions
        assert (entry.high_watermark, bool(bytes(entry.records))) == (1, True)

    run_scenario(scenario)


def test_waiting_requests_end_with_the_leadership(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness, followers=(FOLLOWER, OTHER_FOLLOWER))
        follower = await FollowerClient.connect(harness)
        produce = asyncio.ensure_future(harness.produce("orders", b"a"))
        await asyncio.sleep(0.01)
        fetch = follower.send({A: 1}, max_wait_ms=60_000)
        other = await harness.memory_broker.connect()
        consumer = other.send(FETCH, 10, harness.fetch_request("orders", 0, version=10, max_wait_ms=60_000))
        await asyncio.sleep(0.01)
        assert [produce.done(), fetch.done(), consumer.done()] == [False] * 3
        await controller.set_leader("orders", FOLLOWER, leader_epoch=2, followers=(FOLLOWER, OTHER_FOLLOWER))
        await asyncio.sleep(0.01)
        assert produce.result().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetch.result().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        (entry,) = consumer.result().responses[0].partitions
        assert entry.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_scenario(scenario)


def test_new_epoch_of_the_same_leader_fences_waiting_followers(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness)
        follower = await FollowerClient.connect(harness)
        fetch = follower.send({A: 0}, max_wait_ms=60_000)
        await asyncio.sleep(0.01)
        await controller.set_leader("orders", leader_epoch=2)
        await asyncio.sleep(0.01)
        assert fetch.result().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH

    run_scenario(scenario)


@pytest.mark.parametrize(("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, 78)])
def test_latest_offset_waits_for_the_new_epoch(run_scenario, version, code):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a")
        controller = ControllerClient(harness)
        await controller.announce_brokers(FOLLOWER)
        await controller.set_leader("orders")
        await harness.produce("orders", b"b", acks=1)
        await controller.set_leader("orders", leader_epoch=2)

        async def latest():
            part = ListOffsetsPartition(0, -1, -1)
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", [part])])
            response = await harness.request(LIST_OFFSETS, version, request)
            (entry,) = response.topics[0].partitions
            return entry.error_code, entry.offset

        assert await latest() == (code, -1)
        await (await FollowerClient.connect(harness)).fetch({A: 2}, leader_epoch=2)
        assert await latest() == (0, 2)

    run_scenario(scenario)


def test_delete_records_waits_for_followers(run_scenario):
    async def scenario(harness):
        await make_replicated(harness)
        await harness.produce("orders", b"a", acks=1)
        follower = await FollowerClient.connect(harness)
        await follower.fetch({A: 1})

        def delete(timeout_ms):
            topic = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 1)])
            return harness.client.send(DELETE_RECORDS, 2, DeleteRecordsRequest([topic], timeout_ms))

        (entry,) = (await delete(100)).topics[0].partitions
        assert (entry.error_code, entry.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        waiting = delete(10_000)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await follower.fetch({A: 1}, log_start_offset=1)
        await asyncio.sleep(0.001)
        (entry,) = waiting.result().topics[0].partitions
        assert (entry.error_code, entry.low_watermark) == (0, 1)

    run_scenario(scenario)


# Reads from the closest replica (KIP-392).

RACK_AWARE = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.rack": "near",
}


@pytest.mark.parametrize(
    ("version", "rack", "preferred"),
    [
        (17, "far", FOLLOWER),
        (11, "far", FOLLOWER),
        (10, "", -1),
        (17, "near", -1),
        (17, "", -1),
        (17, "x", -1),
    ],
)
def test_consumer_is_sent_to_the_replica_in_its_rack(run_scenario, version, rack, preferred):
    async def scenario(harness):
        controller = await make_replicated(harness)
        racks = {controller.broker_id: "near", FOLLOWER: "far"}
        await controller.announce_brokers(FOLLOWER, racks=racks)
        await harness.produce("orders", b"a", acks=1)
        follower = await FollowerClient.connect(harness)
        await follower.fetch({A: 1})
        options = {"rack_id": rack, "version": version, "max_wait_ms": 60_000}
        entry = await harness.fetch("orders", **options)
        assert entry.preferred_read_replica == preferred
        assert bool(bytes(entry.records)) is (preferred == -1)
        assert entry.high_watermark == 1
        beyond = await harness.fetch("orders", 1, **{**options, "max_wait_ms": 1})
        assert beyond.preferred_read_replica == preferred, "the follower has everything"

    run_scenario(scenario, RACK_AWARE)


def test_replica_outside_the_isr_or_without_the_offset_is_not_preferred(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness)
        racks = {controller.broker_id: "near", FOLLOWER: "far"}
        await controller.announce_brokers(FOLLOWER, racks=racks)
        await harness.produce("orders", b"a", acks=1)
        follower = await FollowerClient.connect(harness)

        async def preferred(offset):
            return (await harness.fetch("orders", offset, rack_id="far")).preferred_read_replica

        assert await preferred(0) == -1, "it never fetched"
        await follower.fetch({A: 0})
        assert (await preferred(0), await preferred(1)) == (FOLLOWER, -1)
        await controller.set_leader("orders", leader_epoch=2, isr=(controller.broker_id,))
        await follower.fetch({A: 1}, leader_epoch=2)
        assert await preferred(0) == -1, "it left the ISR"

    run_scenario(scenario, RACK_AWARE)


def test_replica_without_the_clients_listener_is_not_preferred(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness)
        racks = {controller.broker_id: "near", FOLLOWER: "far"}
        await controller.announce_brokers(FOLLOWER, racks=racks, listener="OTHER")
        await (await FollowerClient.connect(harness)).fetch({A: 0})
        assert (await harness.fetch("orders", rack_id="far")).preferred_read_replica == -1

    run_scenario(scenario, RACK_AWARE)


def test_without_a_selector_consumers_read_the_leader(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness)
        await controller.announce_brokers(FOLLOWER, racks={FOLLOWER: "far"})
        follower = await FollowerClient.connect(harness)
        await follower.fetch({A: 0})
        assert (await harness.fetch("orders", rack_id="far")).preferred_read_replica == -1

    run_scenario(scenario)


def test_consumer_reads_a_follower_up_to_its_high_watermark(run_scenario, read_records):
    async def scenario(harness):
        controller = await make_replicated(harness)
        await harness.produce("orders", b"a", acks=1)
        await (await FollowerClient.connect(harness)).fetch({A: 1})
        await harness.produce("orders", b"b", acks=1)
        await controller.set_leader("orders", FOLLOWER, leader_epoch=2)
        entry = await harness.fetch("orders")
        assert [record.value for record in read_records(entry.records)] == [b"a"]
        assert entry.high_watermark == 1
        assert (await harness.fetch("orders", 2)).error_code == 0
        assert (await harness.fetch("orders", 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        old = await harness.fetch("orders", version=10)
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "a client that does not know of KIP-392"
        produced = await harness.produce("orders", b"c", acks=1)
        assert produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_scenario(scenario)


def test_consumer_that_waits_at_a_follower_is_woken_by_replication(run_scenario):
    async def scenario(harness):
        controller = await make_replicated(harness)
        await controller.set_leader("orders", FOLLOWER, leader_epoch=2)
        waiting = harness.client.send(FETCH, 17, harness.fetch_request("orders", max_wait_ms=60_000))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        replica_manager = harness.broker._replica_manager
        partition = replica_manager.get_partition(*A)
        partition.log.append_as_leader(bytearray(make_batch(b"a")), 2, 0)
        replica_manager.on_replica_appended(A)
        await asyncio.sleep(0.01)
        assert not waiting.done(), "not committed, as far as the follower knows"
        partition.log.high_watermark = 1
        replica_manager.on_replica_appended(A)
        await asyncio.sleep(0.01)
        assert bytes(waiting.result().responses[0].partitions[0].records)

    run_scenario(scenario)
