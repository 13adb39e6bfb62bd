"""Fetches of a follower that has everything: only changed partitions are read, and all of them count."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.handlers.controller_client import FOLLOWER, ControllerClient, FollowerClient
from tests.unit.broker.handlers.test_follower_fetch import make_replicated

from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition

PARTITIONS = [TopicPartition("orders", number) for number in range(20)]
A, B = PARTITIONS[:2]
LAG_S = 30


@pytest.fixture
def reads(monkeypatch):
    """Partitions that were read."""
    seen = []
    read = Partition.read

    def note(self, *arguments):
        seen.append(self.topic_partition)
        return read(self, *arguments)

    monkeypatch.setattr(Partition, "read", note)
    return seen


async def settle(harness):
    """Return a follower whose session has all partitions and nothing to fetch."""
    await make_replicated(harness, partitions=len(PARTITIONS))
    follower = await FollowerClient.connect(harness)
    await follower.fetch(dict.fromkeys(PARTITIONS, 0))
    await follower.fetch({})
    return follower


def test_idle_fetch_reads_nothing(run_scenario, reads):
    async def scenario(harness):
        follower = await settle(harness)
        reads.clear()
        began_ms = harness.cluster.clock.monotonic_ms()
        assert await follower.fetch({}, max_wait_ms=500) == {}
        assert harness.cluster.clock.monotonic_ms() >= began_ms + 500, "it waits for records"
        assert reads == []

    run_scenario(scenario)


def test_waiting_fetch_reads_the_partition_that_changed(run_scenario, reads):
    async def scenario(harness):
        follower = await settle(harness)
        reads.clear()
        waiting = asyncio.ensure_future(follower.fetch({}, max_wait_ms=10_000))
        await asyncio.sleep(0.01)
        await harness.produce("orders", b"a", acks=1)
        assert list(await waiting) == [A]
        assert set(reads) == {A}
        committed = await follower.fetch({A: 1}, max_wait_ms=10)
        assert [entry.high_watermark for entry in committed.values()] == [1]
        assert await follower.fetch({}) == {}

    run_scenario(scenario)


def test_partition_that_changed_between_fetches_is_in_the_next_response(run_scenario):
    async def scenario(harness):
        follower = await settle(harness)
        await harness.produce("orders", b"a", acks=1)
        assert list(await follower.fetch({}, max_wait_ms=10_000)) == [A]
        # Not acknowledged: the records are sent again.
        assert list(await follower.fetch({}, max_wait_ms=10_000)) == [A]

    run_scenario(scenario)


def test_settled_follower_is_in_sync_at_the_first_append_after_a_long_time(run_scenario):
    """Its fetches are not recorded one by one, but it must not leave the ISR before it can fetch."""

    async def scenario(harness):
        follower = await settle(harness)
        for _ in range(3 * LAG_S):
            await follower.fetch({}, max_wait_ms=1000)
        await harness.produce("orders", b"a", acks=1)
        replica_manager = harness.broker._replica_manager
        leader = replica_manager.get_partition(*A).leader_state
        now_ms = harness.cluster.clock.monotonic_ms()
        assert leader.replica(FOLLOWER).last_caught_up_ms >= now_ms - 2000
        assert leader.maybe_shrink_isr(1) is None
        await asyncio.sleep(LAG_S + 2)
        assert leader.maybe_shrink_isr(1) == (leader.leader_id,)

    run_scenario(scenario)


def test_new_leader_epoch_is_not_confirmed_by_fetches_before_it(run_scenario):
    async def scenario(harness):
        follower = await settle(harness)
        await asyncio.sleep(1)
        await follower.fetch({})
        await ControllerClient(harness).set_leader("orders", leader_epoch=2, isr=(harness.broker.broker_id,))
        replica_manager = harness.broker._replica_manager
        await replica_manager.shrink_isrs()
        replica = replica_manager.get_partition(*A).leader_state.replica(FOLLOWER)
        assert replica.last_caught_up_ms < 0, "a replica outside the ISR has not fetched in this epoch"

    run_scenario(scenario)


def test_log_start_offset_of_a_settled_partition_is_sent(run_scenario):
    async def scenario(harness):
        follower = await settle(harness)
        replica_manager = harness.broker._replica_manager
        await harness.produce("orders", b"a", acks=1)
        await follower.fetch({})
        for _ in range(2):
            await follower.fetch({A: 1})
        assert await follower.fetch({}) == {}
        replica_manager.get_partition(*A).log.advance_log_start_offset(1)
        replica_manager.on_log_start_changed(A)
        assert [entry.log_start_offset for entry in (await follower.fetch({})).values()] == [1]

    run_scenario(scenario)


def test_session_that_ends_is_not_watched(run_scenario):
    async def scenario(harness):
        follower = await settle(harness)
        purgatory = harness.broker._replica_manager._fetches
        assert len(purgatory._watchers) == len(PARTITIONS)
        follower._session_epoch = -1
        await follower.fetch({A: 0})
        assert purgatory._watchers == {}

    run_scenario(scenario)
