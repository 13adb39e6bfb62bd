"""Fetches of a follower under a replication quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.replication.fetchers.scripted_leader import ORDERS, REFUNDS, append, new_log

from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager

Run = Callable[..., None]


def throttle(fixture: Any, rate: int) -> ReplicationQuotaManager:
    quota = ReplicationQuotaManager(fixture.clock, 11, 1000)
    quota.bytes_per_second_max = rate
    quota.mark_throttled(ORDERS.topic, None)
    fixture.manager._ports = fixture.manager._ports._replace(quota=quota)
    return quota


def test_throttled_partition_waits_alone(run: Run) -> None:
    async def body(fixture: Any) -> None:
        quota = throttle(fixture, 1)
        quota.record(1000)
        leaders, logs = {}, {}
        for partition in (ORDERS, REFUNDS):
            leaders[partition], logs[partition] = new_log(partition), new_log(partition)
            append(leaders[partition], 0, 5)
            leaders[partition].high_watermark = 5
            fixture.leader.lead(leaders[partition])
            fixture.follow(logs[partition])
        await fixture.wait_for(lambda: logs[REFUNDS].log_end_offset == 5)
        await fixture.wait_ms(9000)
        assert logs[ORDERS].log_end_offset == 0
        requests = len(fixture.leader.requests)
        assert requests < 60, "no busy loop while it waits"
        # The sample has expired: one more fetch is allowed, and it is in sync then.
        await fixture.wait_for(lambda: logs[ORDERS].log_end_offset == 5)
        assert quota.is_exceeded
        append(leaders[ORDERS], 0, 5)
        await fixture.wait_ms(1000)
        assert logs[ORDERS].log_end_offset == 10, "a replica in sync does not wait"

    run(body)


def test_only_bytes_of_throttled_partitions_count(run: Run) -> None:
    async def body(fixture: Any) -> None:
        quota = throttle(fixture, 0)
        leader, log = new_log(REFUNDS), new_log(REFUNDS)
        append(leader, 0, 5)
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 5)
        assert not quota.is_exceeded

    run(body)
