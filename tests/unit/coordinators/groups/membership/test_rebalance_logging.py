"""Every rebalance is logged, with its reason."""

from __future__ import annotations

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
from odradek.coordinators.groups.membership.rebalance import JoinTimer, SyncTimer, prepare, sync_ended

PROTOCOLS = (("range", b""),)


class World(GroupSimulation):
    """Keeps the events of the shard."""

    def __init__(self) -> None:
        super().__init__(initial_rebalance_delay_ms=0)
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.on_effect = self._keep

    def _keep(self, effect: Effect) -> None:
        if isinstance(effect, LogEvent):
            self.logged.append((effect.event, dict(effect.fields)))

    def join(self, who: str, member: str = "", reason: str | None = None, **other: Any) -> str:
        """JoinGroup; return the member's id."""
        command = JoinGroup(
            group="g",
            member=member,
            instance=None,
            client_id=who,
            client_host="h",
            rebalance_timeout_ms=20_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=other.get("protocols", PROTOCOLS),
            requires_known_member_id=False,
            supports_skipping_assignment=False,
            reason=reason,
        )
        self.submit(command, who)
        self.wait(1)
        answers = [one for one in self.answers_to(who) if isinstance(one, JoinGroupResult)]
        return answers[-1].member if answers else ""

    def sync(self, member: str, generation: int) -> None:
        self.submit(SyncGroup("g", generation, member, None, "consumer", "range", {member: b"a"}), member)
        self.commit_all()

    def reasons(self) -> list[str]:
        return [fields["reason"] for event, fields in self.logged if event == "rebalance_started"]


@pytest.fixture
def world() -> World:
    return World()


def test_a_first_rebalance_is_logged_from_its_start_to_its_generation(world: World) -> None:
    member = world.join("a", reason="subscribed")
    assert world.logged == [
        (
            "rebalance_started",
            {
                "group": "g",
                "generation": 0,
                "members": 1,
                "reason": f"member {member} joined: subscribed",
            },
        ),
        ("rebalance_completed", {"group": "g", "generation": 1, "members": 1, "protocol": "range"}),
    ]


def test_a_member_that_leaves_is_the_reason(world: World) -> None:
    member = world.join("a")
    world.sync(member, 1)
    world.submit(LeaveGroup("g", (LeavingMember(member, None, "closed"),)), "a")
    assert world.reasons()[1:] == [f"member {member} left: closed"]
    assert world.logged[-1] == (
        "rebalance_completed",
        {"group": "g", "generation": 2, "members": 0, "protocol": None},
    )


def test_a_member_that_is_not_heard_of_is_the_reason(world: World) -> None:
    member = world.join("a")
    world.sync(member, 1)
    world.wait(10_000)
    assert world.reasons()[1:] == [f"session of member {member} expired"]


def test_a_member_that_does_not_sync_is_the_reason(world: World) -> None:
    member = world.join("a")
    for _ in range(4):
        world.wait(5_000)
        world.submit(Heartbeat("g", 1, member, None), "beat")
    assert world.reasons()[1:] == ["1 of 1 members did not sync in time"]


def test_a_leader_that_joins_again_is_the_reason(world: World) -> None:
    member = world.join("a")
    world.sync(member, 1)
    world.join("a", member, reason="topics changed")
    assert world.reasons()[1:] == [f"member {member} rejoined: topics changed"]


def test_timers_of_a_group_that_is_gone_do_nothing(world: World) -> None:
    for timer in (JoinTimer("nobody"), SyncTimer("nobody")):
        assert world.shard.on_timer(timer, world.now) == []


def test_a_sync_that_ends_with_everybody_synced_or_during_a_rebalance_dismisses_nobody(world: World) -> None:
    member = world.join("a")
    world.sync(member, 1)
    world.wait(100)
    assert world.shard.on_timer(SyncTimer("g"), world.now) == []
    assert len(world.reasons()) == 1
    group = world.shard.groups["g"]
    prepare(group, "for a test", turn := EventContext(world.now, lambda: world.settings, str, {}))
    group.unsynced.add(member)
    turn.effects.clear()
    sync_ended(group, turn)
    assert (turn.effects, list(group.members)) == ([], [member])


@pytest.mark.parametrize(("members_max", "rebalances"), [(1, 1), (2, 0), (3, 0)])
def test_a_loaded_group_rebalances_if_it_is_larger_than_it_may_be_now(
    world: World, members_max: int, rebalances: int
) -> None:
    first = world.join("a")
    second = world.join("b")
    world.join("a", first)
    for member in (first, second):
        world.sync(member, 2)
    world.logged.clear()
    world.set(members_max=members_max)
    world.move()
    assert len(world.shard.groups["g"].members) == 2
    assert len(world.reasons()) == rebalances
