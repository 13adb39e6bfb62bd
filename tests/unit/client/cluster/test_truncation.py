"""Truncation of a log after an unclean election, as consumers detect it (KIP-320)."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.consumer.consumer import Consumer
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import LogTruncation
from odradek.model.ids import TopicPartition

from .client_cluster import CLIENT_PORT, ClientCluster, Scenario, numbers_of, play, read_until, write

TOPIC, GROUP = "drafts", "editors"
OLD_LEADER, NEW_LEADER = 0, 1
COMMON_END, OLD_END = 10, 20
FIRST_NEW, NEW_END = 100, 105
"""Numbers of the records that the new leader writes at ``COMMON_END``."""


def play_unclean(scenario: Scenario) -> None:
    play(scenario, {"min.insync.replicas": "1"})


async def write_diverging(fixture: ClientCluster) -> TopicPartition:
    """Return a partition whose leader has ten more records than its follower, committed by itself alone."""
    partition = await fixture.create(TOPIC, [(OLD_LEADER, NEW_LEADER)])
    await write(fixture, partition, range(COMMON_END))
    await fixture.until_in_sync(partition)
    fixture.cluster.network.partition("broker0", "broker1")
    # Acknowledged when the follower leaves the ISR.
    await write(fixture, partition, range(COMMON_END, OLD_END))
    assert fixture.leader_isr(partition) == {OLD_LEADER}
    return partition


async def elect_uncleanly(fixture: ClientCluster, partition: TopicPartition) -> None:
    """Kill the only ISR member, elect the other replica, and write to it."""
    await fixture.kill(OLD_LEADER)
    fixture.cluster.network.heal()
    controller = fixture.controller
    await controller.run(lambda: controller.elect_uncleanly(partition, NEW_LEADER))
    await fixture.until_led(partition)
    await write(fixture, partition, range(FIRST_NEW, NEW_END))


async def poll_until_raised(consumer: Consumer, limit_s: float = 30.0) -> LogTruncation:
    deadline = asyncio.get_running_loop().time() + limit_s
    while asyncio.get_running_loop().time() < deadline:
        try:
            assert await consumer.poll(0.5) == []
        except LogTruncation as error:
            return error
    raise AssertionError(f"no truncation within {limit_s} s")


def test_consumer_without_reset_policy_gets_the_diverging_offset() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await write_diverging(fixture)
        consumer = fixture.consumer(partition, auto_offset_reset="none")
        consumer.seek(partition, 0)
        assert numbers_of(await read_until(consumer, OLD_END)) == list(range(OLD_END))
        await elect_uncleanly(fixture, partition)
        error = await poll_until_raised(consumer)
        assert error.divergent_offsets == {partition: COMMON_END}
        assert f"diverges at offset {COMMON_END}" in str(error)
        # Again, until the application decides.
        assert (await poll_until_raised(consumer)).divergent_offsets == {partition: COMMON_END}
        consumer.seek(partition, error.divergent_offsets[partition])
        assert numbers_of(await read_until(consumer, 5)) == list(range(FIRST_NEW, NEW_END))

    play_unclean(scenario)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_consumer_with_a_reset_policy_continues_where_the_log_diverges(policy: str) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await write_diverging(fixture)
        consumer = fixture.consumer(partition, auto_offset_reset=policy)
        consumer.seek(partition, 0)
        assert numbers_of(await read_until(consumer, OLD_END)) == list(range(OLD_END))
        await elect_uncleanly(fixture, partition)
        assert numbers_of(await read_until(consumer, 5)) == list(range(FIRST_NEW, NEW_END))

    play_unclean(scenario)


def test_position_below_the_truncation_goes_on_without_an_error() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await write_diverging(fixture)
        consumer = fixture.consumer(partition, auto_offset_reset="none", max_poll_records=5)
        consumer.seek(partition, 0)
        assert numbers_of(await read_until(consumer, 5)) == list(range(5))
        await elect_uncleanly(fixture, partition)
        await asyncio.sleep(1)  # the consumer has fetched ahead, and learns of the new leader meanwhile
        expected = [*range(5, COMMON_END), *range(FIRST_NEW, NEW_END)]
        assert numbers_of(await read_until(consumer, len(expected))) == expected

    play_unclean(scenario)


def test_records_fetched_ahead_from_the_old_leader_are_not_returned() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await write_diverging(fixture)
        other = await fixture.create("other", [(2,)])
        await write(fixture, other, range(OLD_END))
        # Records of the other partition come first: nothing is consumed here, so no epoch can be compared.
        consumer = fixture.consumer(
            other, partition, bootstrap_servers=f"broker2:{CLIENT_PORT}", max_poll_records=1
        )
        consumer.seek(other, 0)
        consumer.seek(partition, 0)
        fixture.cluster.network.block("broker0", "client")
        numbers = numbers_of(await read_until(consumer, 1))
        fixture.cluster.network.heal()
        fixture.cluster.network.partition("broker0", "broker1")
        await fixture.until(lambda: partition in consumer._engine._buffer.buffered())
        await elect_uncleanly(fixture, partition)
        while len(numbers) < OLD_END:
            numbers += numbers_of(await consumer.poll(1.0))
            await asyncio.sleep(0.2)  # the consumer learns of the new leader meanwhile
        assert numbers == list(range(OLD_END))
        expected = [*range(COMMON_END), *range(FIRST_NEW, NEW_END)]
        assert numbers_of(await read_until(consumer, len(expected))) == expected

    play_unclean(scenario)


async def commit_all(fixture: ClientCluster, partition: TopicPartition) -> OffsetAndMetadata:
    """Read all records in the group, commit, and close the consumer."""
    consumer = fixture.consumer(partition, group_id=GROUP)
    assert numbers_of(await read_until(consumer, OLD_END)) == list(range(OLD_END))
    await consumer.commit()
    offset = (await consumer.committed(partition))[partition]
    await consumer.close()
    assert offset is not None
    return offset


def test_committed_epoch_reveals_a_truncation_to_the_next_consumer() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics((2,))
        partition = await write_diverging(fixture)
        offset = await commit_all(fixture, partition)
        assert (offset.offset, offset.leader_epoch) == (OLD_END, fixture.state(partition).leader_epoch)
        await elect_uncleanly(fixture, partition)
        consumer = fixture.consumer(partition, group_id=GROUP, auto_offset_reset="none")
        assert (await poll_until_raised(consumer)).divergent_offsets == {partition: COMMON_END}
        await consumer.close()
        for policy in ("earliest", "latest"):
            consumer = fixture.consumer(
                partition, group_id=GROUP, auto_offset_reset=policy, enable_auto_commit=False
            )
            assert numbers_of(await read_until(consumer, 5)) == list(range(FIRST_NEW, NEW_END))
            await consumer.close()

    play_unclean(scenario)


def test_seek_with_a_leader_epoch_is_validated() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await write_diverging(fixture)
        epoch = fixture.state(partition).leader_epoch
        await elect_uncleanly(fixture, partition)
        consumer = fixture.consumer(partition, auto_offset_reset="none")
        consumer.seek(partition, OffsetAndMetadata(12, "", epoch))
        assert (await poll_until_raised(consumer)).divergent_offsets == {partition: COMMON_END}
        consumer.seek(partition, 12)  # without an epoch there is nothing to compare
        assert numbers_of(await read_until(consumer, 3)) == [102, 103, 104]

    play_unclean(scenario)


@pytest.mark.parametrize("policy", ["none", "latest"])
def test_replaced_leader_that_does_not_know_the_committed_epoch_proves_no_truncation(policy: str) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics((2,))
        partition = await fixture.create(TOPIC, [(OLD_LEADER, NEW_LEADER)])
        await write(fixture, partition, range(COMMON_END))
        await fixture.until_in_sync(partition)
        # The old leader serves clients in its epoch, and does not hear of the next one.
        for host in ("broker1", "broker2", "controller"):
            fixture.cluster.network.partition("broker0", host)
        await fixture.broker(OLD_LEADER).expire_session()
        await fixture.until(lambda: fixture.leader(partition) == NEW_LEADER)
        await write(fixture, partition, range(COMMON_END, OLD_END))
        offset = await commit_all(fixture, partition)
        assert offset.leader_epoch == fixture.state(partition).leader_epoch
        await write(fixture, partition, range(OLD_END, OLD_END + 5))
        consumer = fixture.consumer(
            partition,
            bootstrap_servers="broker0:9093",
            group_id=GROUP,
            auto_offset_reset=policy,
            enable_auto_commit=False,
        )
        numbers = asyncio.create_task(read_until(consumer, 5))
        await asyncio.sleep(30)
        fixture.cluster.network.heal()
        assert numbers_of(await numbers) == list(range(OLD_END, OLD_END + 5))

    play_unclean(scenario)
