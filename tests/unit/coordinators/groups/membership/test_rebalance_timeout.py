"""Rebalance timeout in the coordinator runtime."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from tests.unit.coordinators.runtime_fixture import RuntimeFixture, run_scenario

from odradek.coordinators.groups.commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from odradek.coordinators.groups.settings import GroupSettings
from odradek.coordinators.groups.shard import GroupCoordinatorShard
from odradek.coordinators.runtime import CoordinatorRuntime

PROTOCOLS = (("range", b""),)


def join(client_id: str, member_id: str = "") -> JoinGroup:
    return JoinGroup(
        "g", member_id, None, client_id, "/h", 10_000, 20_000, "consumer", PROTOCOLS, False, False
    )


def test_member_that_does_not_rejoin_is_removed_after_another_left_without_sync() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        ids = count()
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        runtime = CoordinatorRuntime(
            lambda number: GroupCoordinatorShard(lambda: settings, lambda: str(next(ids))),
            fixture.environment,
        )
        runtime.start()
        runtime.load(await fixture.become_leader_or_follower())
        while runtime.is_loading:
            await asyncio.sleep(0)

        def submit(command: Any) -> list[Any]:
            responses: list[Any] = []
            runtime.submit(0, command, responses.append)
            return responses

        joined = submit(join("a"))
        await fixture.clock.sleep_ms(1)
        first = joined[0].member_id
        joined = submit(join("b"))
        submit(join("a", first))
        await fixture.clock.sleep_ms(1)
        second, generation = joined[0].member_id, joined[0].generation
        submit(SyncGroup("g", generation, first, None, None, None, {first: b"x", second: b"y"}))
        submit(LeaveGroup("g", (LeavingMember(second, None),)))
        for _ in range(5):
            await fixture.clock.sleep_ms(5_000)
            submit(Heartbeat("g", generation, first, None))
        assert list(runtime.shard(0).groups["g"].members) == []
        await runtime.stop()

    run_scenario(scenario)
