"""Log events of rebalances and their reasons."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from tests.support.simulation.group_simulation import GroupSimulation

from odradek.coordinators.effects import Effect, LogEvent
from odradek.coordinators.groups.commands import (
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from odradek.coordinators.groups.event_context import EventContext
from odradek.coordinators.groups.membership.rebalance import (
    JoinTimer,
    SyncTimer,
    on_sync_expired,
    prepare_rebalance,
)

PROTOCOLS = (("range", b""),)


class LoggingSimulation(GroupSimulation):
    """Simulation that records the log events of the shard."""

    def __init__(self) -> None:
        super().__init__(initial_rebalance_delay_ms=0)
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.on_effect = self._record

    def _record(self, effect: Effect) -> None:
        if isinstance(effect, LogEvent):
            self.logged.append((effect.event, dict(effect.fields)))

    def join(self, client_id: str, member_id: str = "", reason: str | None = None) -> str:
        """Join the group and return the member id."""
        command = JoinGroup(
            group_id="g",
            member_id=member_id,
            instance_id=None,
            client_id=client_id,
            client_host="h",
            rebalance_timeout_ms=20_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=PROTOCOLS,
            requires_known_member_id=False,
            supports_skipping_assignment=False,
            reason=reason,
        )
        self.submit(command, client_id)
        self.wait(1)
        results = [each for each in self.answers_to(client_id) if isinstance(each, JoinGroupResult)]
        return results[-1].member_id if results else ""

    def sync(self, member_id: str, generation: int) -> None:
        command = SyncGroup("g", generation, member_id, None, "consumer", "range", {member_id: b"a"})
        self.submit(command, member_id)
        self.commit_all()

    def reasons(self) -> list[str]:
        return [fields["reason"] for event, fields in self.logged if event == "rebalance_started"]


@pytest.fixture
def simulation() -> LoggingSimulation:
    return LoggingSimulation()


def test_first_rebalance_is_logged(simulation: LoggingSimulation) -> None:
    member_id = simulation.join("a", reason="subscribed")
    assert simulation.logged == [
        (
            "rebalance_started",
            {
                "group": "g",
                "generation": 0,
                "members": 1,
                "reason": f"member {member_id} joined: subscribed",
            },
        ),
        ("rebalance_completed", {"group": "g", "generation": 1, "members": 1, "protocol": "range"}),
    ]


def test_leaving_member_is_logged_as_reason(simulation: LoggingSimulation) -> None:
    member_id = simulation.join("a")
    simulation.sync(member_id, 1)
    simulation.submit(LeaveGroup("g", (LeavingMember(member_id, None, "closed"),)), "a")
    assert simulation.reasons()[1:] == [f"member {member_id} left: closed"]
    assert simulation.logged[-1] == (
        "rebalance_completed",
        {"group": "g", "generation": 2, "members": 0, "protocol": None},
    )


def test_expired_session_is_logged_as_reason(simulation: LoggingSimulation) -> None:
    member_id = simulation.join("a")
    simulation.sync(member_id, 1)
    simulation.wait(10_000)
    assert simulation.reasons()[1:] == [f"session of member {member_id} expired"]


def test_missing_sync_is_logged_as_reason(simulation: LoggingSimulation) -> None:
    member_id = simulation.join("a")
    for _ in range(4):
        simulation.wait(5_000)
        simulation.submit(Heartbeat("g", 1, member_id, None), "heartbeat")
    assert simulation.reasons()[1:] == ["1 of 1 members did not sync in time"]


def test_rejoining_leader_is_logged_as_reason(simulation: LoggingSimulation) -> None:
    member_id = simulation.join("a")
    simulation.sync(member_id, 1)
    simulation.join("a", member_id, reason="topics changed")
    assert simulation.reasons()[1:] == [f"member {member_id} rejoined: topics changed"]


def test_timers_of_a_deleted_group_are_ignored(simulation: LoggingSimulation) -> None:
    for timer in (JoinTimer("unknown"), SyncTimer("unknown")):
        assert simulation.shard.on_timer(timer, simulation.now) == []


def test_sync_timer_removes_no_member_if_all_synced_or_during_a_rebalance(
    simulation: LoggingSimulation,
) -> None:
    member_id = simulation.join("a")
    simulation.sync(member_id, 1)
    simulation.wait(100)
    assert simulation.shard.on_timer(SyncTimer("g"), simulation.now) == []
    assert len(simulation.reasons()) == 1
    group = simulation.shard.groups["g"]
    context = EventContext(simulation.now, lambda: simulation.settings, str, {}, deque())
    prepare_rebalance(group, "test", context)
    group.pending_sync_members.add(member_id)
    context.effects.clear()
    on_sync_expired(group, context)
    assert (context.effects, list(group.members)) == ([], [member_id])


@pytest.mark.parametrize(("members_max", "rebalances"), [(1, 1), (2, 0), (3, 0)])
def test_loaded_group_rebalances_if_it_exceeds_the_maximum_size(
    simulation: LoggingSimulation, members_max: int, rebalances: int
) -> None:
    first = simulation.join("a")
    second = simulation.join("b")
    simulation.join("a", first)
    for member_id in (first, second):
        simulation.sync(member_id, 2)
    simulation.logged.clear()
    simulation.set(members_max=members_max)
    simulation.move()
    assert len(simulation.shard.groups["g"].members) == 2
    assert len(simulation.reasons()) == rebalances
