"""Expired sessions, failed log directories and restarts of one of two brokers."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from tests.unit.broker.inter_broker.test_two_brokers import (
    ALTER_PARTITION,
    CONTROLLER_EPOCH,
    CONTROLLER_ID,
    LEADER_AND_ISR,
    TOPIC_ID,
    TwoBrokers,
    run_two_brokers,
)

from odradek.model.errors import ErrorCode
from odradek.store.broker_registration import BrokerIdTaken, read_brokers
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import decode_log_dir_event
from odradek.store.port import Unavailable
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)

FETCH = 1
SETTINGS = {"min.insync.replicas": "1"}


async def tell_roles(
    two: TwoBrokers, broker_id: int, *, leader: int, leader_epoch: int, broker_epoch: int = -1
) -> tuple[ErrorCode, ErrorCode]:
    """Send LeaderAndIsr to one broker; return the error of the request and of the partition."""
    state = LeaderAndIsrPartitionState(
        "orders", 0, CONTROLLER_EPOCH, leader, leader_epoch, [leader], leader_epoch, [1, 2]
    )
    request = LeaderAndIsrRequest(
        CONTROLLER_ID,
        controller_epoch=CONTROLLER_EPOCH,
        broker_epoch=broker_epoch,
        topic_states=[LeaderAndIsrTopicState("orders", TOPIC_ID, [state])],
    )
    client = await two.brokers[broker_id].connect()
    response = await client.request(LEADER_AND_ISR, 7, request)
    client.close()
    (entry,) = response.topics[0].partition_errors
    return ErrorCode(response.error_code), ErrorCode(entry.error_code)


async def fetch_error(two: TwoBrokers, broker_id: int) -> ErrorCode:
    client = await two.brokers[broker_id].connect()
    topic = FetchTopic("orders", TOPIC_ID, [FetchPartition(0, partition_max_bytes=1000)])
    response = await client.request(FETCH, 17, FetchRequest(max_wait_ms=0, topics=[topic]))
    client.close()
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def log_dir_events(two: TwoBrokers) -> list[int]:
    """Return the brokers in the notifications, in their order."""
    store = two.cluster.ensemble.connect()
    root = znode_paths.LOG_DIR_EVENT_NOTIFICATION
    paths = [f"{root}/{name}" for name in sorted(await store.children(root))]
    return [decode_log_dir_event(path, (await store.get(path))[0]) for path in paths]


async def fail_log_dir(two: TwoBrokers, broker_id: int) -> None:
    """Fail the next sync of the partition's log."""
    partition = two.brokers[broker_id].broker.replica_manager.get_partition("orders", 0)
    two.brokers[broker_id].files.fail_next_sync(errno.EIO, name_end=".log")
    with pytest.raises(Exception, match="sync"):
        await partition.log.flush()
    await asyncio.sleep(1)


# Sessions.


@pytest.mark.parametrize("expired", [1, 2])
def test_replication_goes_on_while_a_session_is_gone(expired: int) -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        session = two.brokers[expired]._session
        opened = session.open_session

        async def refuse() -> Any:
            raise Unavailable("zookeeper:2181", "connection refused")

        session.open_session = refuse
        await two.brokers[expired].expire_session()
        await asyncio.sleep(60)
        assert expired not in await read_brokers(two.cluster.ensemble.connect())
        assert await two.produce(1, b"first") == 0
        assert [two.log_end_offset(broker_id) for broker_id in (1, 2)] == [1, 1]
        session.open_session = opened
        await asyncio.sleep(60)
        assert expired in await read_brokers(two.cluster.ensemble.connect())
        assert await two.produce(1, b"second") == 0

    run_two_brokers(scenario)


def test_requests_for_the_expired_registration_are_refused() -> None:
    async def scenario(two: TwoBrokers) -> None:
        membership = two.brokers[2].broker._membership
        old_epoch = membership.broker_epoch
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        await two.brokers[2].expire_session()
        await asyncio.sleep(5)
        assert membership.broker_epoch > old_epoch
        refused = await tell_roles(two, 2, leader=2, leader_epoch=1, broker_epoch=old_epoch)
        assert refused == (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
        assert not two.brokers[2].broker.replica_manager.get_partition("orders", 0).is_leader
        accepted = await tell_roles(two, 2, leader=2, leader_epoch=1, broker_epoch=membership.broker_epoch)
        assert accepted == (ErrorCode.NONE, ErrorCode.NONE)

    run_two_brokers(scenario, SETTINGS)


def test_leader_changes_the_isr_under_its_new_broker_epoch() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        await two.brokers[1].expire_session()
        await asyncio.sleep(5)
        await two.brokers.pop(2).kill()
        assert await two.produce(1, b"first") == 0
        (request,) = two.controller.requests_of(ALTER_PARTITION)
        assert request.broker_epoch == two.brokers[1].broker._membership.broker_epoch
        assert two.isrs == [[1]]

    run_two_brokers(scenario, {**SETTINGS, "replica.lag.time.max.ms": "10000"})


# Restarts.


def test_broker_that_restarts_in_its_old_session_waits_for_the_expiry() -> None:
    """Until the node is gone, the controller does not know that the broker has failed."""

    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        killed = two.brokers[2]
        old_epoch = killed.broker._membership.broker_epoch
        await killed.kill(expires_session=False)
        with pytest.raises(BrokerIdTaken, match="session"):
            await two.cluster.start(SETTINGS, broker_id=2)
        assert (await read_brokers(two.cluster.ensemble.connect()))[2].broker_epoch == old_epoch
        await killed.expire_session()
        two.brokers[2] = await two.cluster.start(SETTINGS, broker_id=2)
        assert two.brokers[2].broker._membership.broker_epoch > old_epoch
        # Requests that the controller had queued for the broker before its failure.
        refused = await tell_roles(two, 2, leader=1, leader_epoch=0, broker_epoch=old_epoch)
        assert refused[0] is ErrorCode.STALE_BROKER_EPOCH
        await two.announce(leader=1, leader_epoch=1, isr=[1])
        assert await two.produce(1, b"second") == 0
        await asyncio.sleep(5)
        assert two.log_end_offset(2) == 2
        assert two.isrs[-1] == [1, 2]

    run_two_brokers(scenario, SETTINGS)


# Log directories.


@pytest.mark.parametrize("failed", [1, 2])
def test_failed_log_directory_is_notified_and_its_replica_offline(failed: int) -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        await fail_log_dir(two, failed)
        assert await log_dir_events(two) == [failed]
        # The controller then asks which replicas are offline, by sending the roles again.
        roles = await tell_roles(two, failed, leader=1, leader_epoch=0)
        assert roles == (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        assert await fetch_error(two, failed) is ErrorCode.KAFKA_STORAGE_ERROR
        if failed == 1:
            assert await two.produce(1, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await tell_roles(two, 2, leader=2, leader_epoch=1))[1] is ErrorCode.NONE
        survivor = 3 - failed
        assert await two.produce(survivor, b"second") == 0
        assert two.log_end_offset(survivor) == 2

    run_two_brokers(scenario, {**SETTINGS, "log.dirs": "/a,/b", "replica.lag.time.max.ms": "10000"})


def test_failed_log_directory_is_notified_once_the_session_is_back() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        session = two.brokers[2]._session
        opened = session.open_session

        async def refuse() -> Any:
            raise Unavailable("zookeeper:2181", "connection refused")

        session.open_session = refuse
        await two.brokers[2].expire_session()
        assert await two.produce(1, b"first") == 0
        await fail_log_dir(two, 2)
        assert await log_dir_events(two) == []
        session.open_session = opened
        await asyncio.sleep(60)
        assert await log_dir_events(two) == [2]

    run_two_brokers(scenario, {**SETTINGS, "log.dirs": "/a,/b"})
