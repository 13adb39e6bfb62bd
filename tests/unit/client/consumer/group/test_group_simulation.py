"""Random group histories: joins, leaves, crashes, partitions, stalls, new partitions, broker restarts.

Invariants: after the events every partition has exactly one owner; listeners are called for every revoked or
lost partition; two members of one generation never own the same partition.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.simulation.client_fixture import ClientFixture
from tests.support.simulation.group_members import GroupMember, GroupMembers

from odradek.model.ids import TopicPartition
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}
EVENTS = [
    "join",
    "join",
    "close",
    "die",
    "partition",
    "heal",
    "stall",
    "poll",
    "grow",
    "restart",
    "kill",
    "rejoin",
]

events = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 9), st.integers(0, 15_000)), max_size=14)
strategies = st.sampled_from(
    ["range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky"]
)


class History:
    """One random history of a group."""

    def __init__(self, fixture: ClientFixture, strategy: str) -> None:
        self.group = GroupMembers(fixture)
        self.fixture = fixture
        self.strategy = strategy
        self.members: list[GroupMember] = []
        self.stalled: set[GroupMember] = set()
        self.partition_count = 3
        self.names = 0
        self.generations_restarted = False

    async def play(self, event: str, number: int) -> None:
        reader = self.members[number % len(self.members)] if self.members else None
        if event == "join":
            await self.join()
        elif event == "grow":
            self.partition_count += 1
            await self.group.grow("t", self.partition_count)
        elif event in ("restart", "kill"):
            # A killed broker may lose the group, and its generations start again at 1.
            self.generations_restarted = self.generations_restarted or event == "kill"
            await (self.fixture.broker.stop() if event == "restart" else self.fixture.broker.kill())
            await asyncio.sleep(number)
            self.fixture.broker = await self.fixture.memory.start(BROKER)
        elif event == "heal":
            self.fixture.network.heal()
        elif reader is not None:
            await getattr(self, f"_{event}")(reader)

    async def join(self) -> None:
        if len(self.members) < 4:
            self.names += 1
            options = {"partition_assignment_strategy": self.strategy, "enable_auto_commit": True}
            self.members.append(await self.group.polling(f"m{self.names}", "t", **options))

    async def _close(self, reader: GroupMember) -> None:
        self.members.remove(reader)
        await reader.close(5000)

    async def _die(self, reader: GroupMember) -> None:
        self.members.remove(reader)
        await reader.die()

    async def _partition(self, reader: GroupMember) -> None:
        self.fixture.network.partition(reader.name, "broker")

    async def _stall(self, reader: GroupMember) -> None:
        self.stalled.add(reader)
        await reader.stop_polling()

    async def _poll(self, reader: GroupMember) -> None:
        if reader in self.stalled:
            self.stalled.remove(reader)
            reader.keep_polling()

    async def _rejoin(self, reader: GroupMember) -> None:
        reader.coordinator.request_rejoin("test")

    async def finish(self) -> None:
        self.fixture.network.heal()
        for reader in self.stalled & set(self.members):
            reader.keep_polling()
        if not self.members:
            await self.join()
        partitions = [TopicPartition("t", index) for index in range(self.partition_count)]
        await self.group.until_shared(self.members, partitions)

    def check_owners(self) -> None:
        """Check that members of the same generation own different partitions."""
        owners: dict[tuple[int, TopicPartition], str] = {}
        for member in self.members:
            generation = member.coordinator.group_metadata().generation_id
            if generation < 0 or member.is_rebalancing or self.generations_restarted:
                continue
            for partition in member.assigned:
                owner = owners.setdefault((generation, partition), member.name)
                assert owner == member.name, f"{owner} and {member.name} own {partition} in {generation}"

    def check_callbacks(self) -> None:
        """Check that the callbacks of each member add up to its assignment."""
        for member in self.members:
            owned: set[TopicPartition] = set()
            for event, partitions in member.heard:
                if event == "assigned":
                    assert not owned & set(partitions), "assigned twice"
                    owned |= set(partitions)
                else:
                    assert owned >= set(partitions), "revoked without being assigned"
                    owned -= set(partitions)
            assert owned == member.assigned
            assert member.failures == [], member.failures


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies, events, st.integers(0, 2**16))
def test_every_partition_has_one_owner_eventually(
    strategy: str, events: list[tuple[str, int, int]], seed: int
) -> None:
    async def main() -> None:
        memory = MemoryCluster(seed, delay_max_ms=20)
        fixture = ClientFixture(memory, await memory.start(BROKER))
        history = History(fixture, strategy)
        watch = asyncio.create_task(check_continuously(history))
        try:
            await history.group.create("t", 3)
            for event, number, pause_ms in events:
                await history.play(event, number)
                await asyncio.sleep(pause_ms / 1000)
                assert not watch.done(), watch.exception()
            await history.finish()
            history.check_callbacks()
            watch.cancel()
            await history.group.close()
            await fixture.close()
        finally:
            watch.cancel()
            await fixture.broker.stop()
            await memory.close()

    run_virtually(main)


async def check_continuously(history: History) -> Any:
    while True:
        history.check_owners()
        await asyncio.sleep(0.03)
