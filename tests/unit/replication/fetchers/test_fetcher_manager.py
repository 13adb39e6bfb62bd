"""Division of partitions among fetchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.replication.fetchers.scripted_leader import ORDERS, REFUNDS, append, new_log

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.fetchers.fetcher_manager import fetcher_number

Run = Callable[..., None]


@pytest.mark.parametrize(
    ("topic", "partition", "number"),
    [
        # 31 * "orders".hashCode() + partition, as Java computes it.
        ("", 0, 0),
        ("a", 0, (31 * 97) % 7),
        ("ab", 3, (31 * (97 * 31 + 98) + 3) % 7),
    ],
)
def test_fetcher_number_is_kafkas(topic: str, partition: int, number: int) -> None:
    assert fetcher_number(TopicPartition(topic, partition), 7) == number


def test_fetcher_number_is_in_range_for_any_name() -> None:
    for length in range(1, 60):
        for count in (1, 3, 8):
            assert 0 <= fetcher_number(TopicPartition("z" * length, length), count) < count


def test_one_fetcher_per_leader_and_hash(run: Run) -> None:
    async def body(fixture: Any) -> None:
        for leader_id, leader in fixture.leaders.items():
            for number in range(8):
                partition = TopicPartition("orders", leader_id * 10 + number)
                log = new_log(partition)
                leader.lead(log)
                fixture.manager.add_partitions({partition: follower_of(fixture, log, leader_id)}, {})
        assert {(broker_id, name) for broker_id, name, _ in fixture.requests.channels} == {
            (1, "broker-7-fetcher-0"),
            (1, "broker-7-fetcher-1"),
            (2, "broker-7-fetcher-0"),
            (2, "broker-7-fetcher-1"),
        }
        assert len(fixture.requests.channels) == 4

    run(body, fetcher_count=2)


def follower_of(fixture: Any, log: Any, leader_id: int) -> Any:
    from odradek.replication.follower import Follower

    return Follower(log.topic_partition, log, leader_id, 0)


def test_idle_fetcher_is_closed(run: Run) -> None:
    async def body(fixture: Any) -> None:
        log, leader = new_log(), new_log()
        append(leader, 0)
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 1)
        fixture.manager.remove_partitions([ORDERS])
        [(_, _, channel)] = fixture.requests.channels
        await fixture.wait_for(lambda: channel.is_closed)
        append(leader, 0)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        assert len(fixture.requests.channels) == 2

    run(body)


def test_close_ends_all_fetchers(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader = new_log()
        fixture.leader.lead(leader)
        fixture.follow(new_log())
        await fixture.wait_ms(100)
        await fixture.manager.close()
        requests = len(fixture.leader.requests)
        await fixture.wait_ms(5000)
        assert len(fixture.leader.requests) == requests
        assert all(channel.is_closed for _, _, channel in fixture.requests.channels)

    run(body)


def test_nothing_is_fetched_after_close(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = new_log(), new_log()
        append(leader, 0)
        fixture.leader.lead(leader)
        await fixture.manager.close()
        fixture.follow(log)
        await fixture.wait_ms(5000)
        assert not fixture.requests.channels
        assert log.log_end_offset == 0

    run(body)


def test_close_right_after_a_removal(run: Run) -> None:
    async def body(fixture: Any) -> None:
        fixture.leader.is_reachable = False
        fixture.follow(new_log())
        fixture.follow(new_log(REFUNDS))
        await fixture.wait_ms(100)
        fixture.manager.remove_partitions([ORDERS])
        await fixture.manager.close()

    run(body)


def test_partitions_move_when_the_number_of_fetchers_changes(run: Run) -> None:
    async def body(fixture: Any) -> None:
        logs = []
        for number in range(6):
            partition = TopicPartition("orders", number)
            leader, log = new_log(partition), new_log(partition)
            fixture.leader.lead(leader)
            logs.append((leader, log))
            fixture.manager.add_partitions({partition: follower_of(fixture, log, 1)}, {})
        await fixture.wait_ms(100)
        fixture.settings = fixture.settings._replace(fetcher_count=3)
        fixture.manager.resize()
        assert len(fixture.requests.channels) == 3
        for leader, _ in logs:
            append(leader, 0)
        await fixture.wait_for(lambda: all(log.log_end_offset == 1 for _, log in logs))

    run(body)


def test_fenced_partition_stays_failed_when_the_number_of_fetchers_changes(run: Run) -> None:
    async def body(fixture: Any) -> None:
        partitions = [TopicPartition("orders", number) for number in range(6)]
        for partition in partitions:
            fixture.leader.lead(new_log(partition))
            fixture.leader.errors[partition] = ErrorCode.FENCED_LEADER_EPOCH
            fixture.manager.add_partitions({partition: follower_of(fixture, new_log(partition), 1)}, {})
        await fixture.wait_for(lambda: len(fixture.manager.failed_partitions) == 6)
        fixture.settings = fixture.settings._replace(fetcher_count=3)
        fixture.manager.resize()
        assert sorted(fixture.manager.failed_partitions) == partitions
        fixture.manager.remove_partitions(partitions)
        assert fixture.manager.failed_partitions == []

    run(body)


def test_lag_is_reported(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = new_log(), new_log()
        for _ in range(5):
            append(leader, 0, 10)
        leader.high_watermark = 50
        fixture.leader.lead(leader)
        fixture.settings = fixture.settings._replace(partition_bytes_max=1)
        seen: list[int] = []
        fixture.leader.on_response = lambda _: seen.append(fixture.manager.max_lag)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 50)
        assert seen[:3] == [0, 40, 30]
        assert fixture.manager.max_lag == 0

    run(body)
