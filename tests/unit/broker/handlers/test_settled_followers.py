"""Fetches of a follower that has everything: only changed partitions are read, and all of them count."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.handlers.controller_client import FOLLOWER, ControllerClient, FollowerClient
from tests.unit.broker.handlers.test_follower_fetch import make_replicated

from odradek.broker.handlers import fetch
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.leader import IsrChangeResult
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


@pytest.mark.sources
def test_idle_fetch_reads_nothing(run_scenario, reads):
    async def scenario(harness):
        follower = await settle(harness)
        reads.clear()
        began_ms = harness.cluster.clock.monotonic_ms()
        assert await follower.fetch({}, max_wait_ms=500) == {}
        assert harness.cluster.clock.monotonic_ms() >= began_ms + 500, "it waits for records"
        assert reads == []

    run_scenario(scenario)


@pytest.mark.sources
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


@pytest.mark.sources
def test_first_fetch_of_a_session_looks_only_at_the_partition_that_changed(run_scenario, monkeypatch):
    """Otherwise the start of a follower would take time in proportion to the square of its partitions."""

    async def scenario(harness):
        await make_replicated(harness, partitions=len(PARTITIONS))
        follower = await FollowerClient.connect(harness)
        waiting = asyncio.ensure_future(follower.fetch(dict.fromkeys(PARTITIONS, 0), max_wait_ms=10_000))
        await asyncio.sleep(0.01)
        checked = []
        has_changed_since = Partition.has_changed_since

        def note(self, *arguments):
            checked.append(self.topic_partition)
            return has_changed_since(self, *arguments)

        monkeypatch.setattr(Partition, "has_changed_since", note)
        await harness.produce("orders", b"a", acks=1)
        response = await waiting
        assert len(response) == len(PARTITIONS)
        assert response[A].records
        assert set(checked) == {A}

    run_scenario(scenario)


@pytest.mark.sources
def test_waiting_fetch_is_indexed_once(run_scenario, monkeypatch):
    """Otherwise the return of a follower, which changes each ISR, takes the square of its partitions."""

    async def scenario(harness):
        await make_replicated(harness, partitions=len(PARTITIONS))
        follower = await FollowerClient.connect(harness)
        await follower.fetch({})
        indexed = []
        index_results = fetch._index_results

        def count(results):
            indexed.append(len(results))
            return index_results(results)

        monkeypatch.setattr(fetch, "_index_results", count)
        waiting = asyncio.ensure_future(
            follower.fetch(dict.fromkeys(PARTITIONS[:10], 0), max_wait_ms=10_000, min_bytes=800)
        )
        await asyncio.sleep(0.01)
        for number in range(10):
            assert not waiting.done()
            await harness.produce("orders", b"a", partition=number, acks=1)
        response = await waiting
        assert [partition for partition, entry in response.items() if entry.records]
        assert indexed == [10]

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


class Proposals:
    """Collects the ISR changes that the leader proposes to the controller."""

    def __init__(self):
        self.isrs = []

    def submit(self, topic_partition, topic_id, change, on_result):
        self.isrs.append(change.isr)


async def remove_from_isr(follower, partition, *, is_settled_before, complete):
    """Remove the follower from the ISR of a partition, whose change it fetches before or while pending."""
    leader = partition.leader_state
    if is_settled_before:
        change = leader.propose_isr((leader.leader_id,))
    else:
        await follower.fetch({A: 0})
        change = leader.propose_isr((leader.leader_id,))
        await follower.fetch({A: 0})
    result = IsrChangeResult(ErrorCode.NONE, change.isr, leader.leader_epoch, leader.partition_epoch + 1)
    complete(partition, change, result)
    assert leader.isr == (leader.leader_id,)


@pytest.mark.parametrize("is_settled_before", [True, False])
def test_follower_that_was_removed_from_the_isr_is_proposed_again(run_scenario, is_settled_before):
    """It fetches while its removal is pending, and has the whole log all the time."""

    async def scenario(harness):
        follower = await settle(harness)
        replica_manager = harness.broker._replica_manager
        proposals = replica_manager.isr_changes.alter_partition_manager = Proposals()
        # The removal must be noticed by the watch, or by the state of the partition alone.
        complete = (
            replica_manager.isr_changes.on_result if is_settled_before else Partition.complete_isr_change
        )
        partition = replica_manager.get_partition(*A)
        await remove_from_isr(follower, partition, is_settled_before=is_settled_before, complete=complete)
        assert proposals.isrs == []
        await follower.fetch({})
        assert proposals.isrs == [(partition.leader_state.leader_id, FOLLOWER)]

    run_scenario(scenario)


def test_choice_of_a_replica_knows_the_last_fetch_of_settled_followers(run_scenario):
    async def scenario(harness):
        follower = await settle(harness)
        for _ in range(10):
            await follower.fetch({}, max_wait_ms=1000)
        replica_manager = harness.broker._replica_manager
        views = []

        def select(client_rack, leader, followers):
            views.extend(followers)
            return leader

        replica_manager.replica_selector = select
        partition = replica_manager.get_partition(*A)
        replica_manager.find_preferred_read_replica(partition, 0, "rack", "PLAINTEXT")
        now_ms = harness.cluster.clock.monotonic_ms()
        caught_up_ms = [view.caught_up_ms for view in views if view.broker_id == FOLLOWER]
        assert len(caught_up_ms) == 1
        assert caught_up_ms[0] >= now_ms - 2000

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
