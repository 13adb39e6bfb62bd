"""Random lives of a group: members come, go, die, fall silent, do not poll; topics grow; brokers restart.

Whatever happens, once it is quiet every partition has exactly one reader; what a member gave up or lost, it
was told; and at no time do two members of one generation read the same partition.
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
    "silence",
    "hear",
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
    """One life of a group."""

    def __init__(self, stage: ClientFixture, strategy: str) -> None:
        self.group = GroupMembers(stage)
        self.stage = stage
        self.strategy = strategy
        self.living: list[GroupMember] = []
        self.stalled: set[GroupMember] = set()
        self.partition_count = 3
        self.names = 0
        self.counts_anew = False

    async def play(self, what: str, which: int) -> None:
        reader = self.living[which % len(self.living)] if self.living else None
        if what == "join":
            await self.join()
        elif what == "grow":
            self.partition_count += 1
            await self.group.grow("t", self.partition_count)
        elif what in ("restart", "kill"):
            # Without power the group may be forgotten, and its generations begin again with 1.
            self.counts_anew = self.counts_anew or what == "kill"
            await (self.stage.broker.stop() if what == "restart" else self.stage.broker.kill())
            await asyncio.sleep(which)
            self.stage.broker = await self.stage.memory.start(BROKER)
        elif what == "hear":
            self.stage.network.heal()
        elif reader is not None:
            await getattr(self, f"_{what}")(reader)

    async def join(self) -> None:
        if len(self.living) < 4:
            self.names += 1
            how = {"partition_assignment_strategy": self.strategy, "enable_auto_commit": True}
            self.living.append(await self.group.polling(f"m{self.names}", "t", **how))

    async def _close(self, reader: GroupMember) -> None:
        self.living.remove(reader)
        await reader.close(5000)

    async def _die(self, reader: GroupMember) -> None:
        self.living.remove(reader)
        await reader.die()

    async def _silence(self, reader: GroupMember) -> None:
        self.stage.network.part(reader.name, "broker")

    async def _stall(self, reader: GroupMember) -> None:
        self.stalled.add(reader)
        await reader.stop_polling()

    async def _poll(self, reader: GroupMember) -> None:
        if reader in self.stalled:
            self.stalled.remove(reader)
            reader.keep_polling()

    async def _rejoin(self, reader: GroupMember) -> None:
        reader.coordinator.request_rejoin("just so")

    async def settle(self) -> None:
        self.stage.network.heal()
        for reader in self.stalled & set(self.living):
            reader.keep_polling()
        if not self.living:
            await self.join()
        wanted = [TopicPartition("t", index) for index in range(self.partition_count)]
        await self.group.until_shared(self.living, wanted)

    def check(self) -> None:
        """Those who have taken over the same generation share nothing."""
        readers: dict[tuple[int, TopicPartition], str] = {}
        for one in self.living:
            generation = one.coordinator.group_metadata().generation_id
            if generation < 0 or one.is_rebalancing or self.counts_anew:
                continue
            for partition in one.assigned:
                other = readers.setdefault((generation, partition), one.name)
                assert other == one.name, f"{other} and {one.name} both read {partition} in {generation}"

    def check_told(self) -> None:
        for one in self.living:
            told: set[TopicPartition] = set()
            for word, partitions in one.heard:
                if word == "assigned":
                    assert not told & set(partitions), "nothing is assigned twice"
                    told |= set(partitions)
                else:
                    assert told >= set(partitions), "only what was assigned can go"
                    told -= set(partitions)
            assert told == one.assigned
            assert one.failures == [], one.failures


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies, events, st.integers(0, 2**16))
def test_once_it_is_quiet_every_partition_has_one_reader(
    strategy: str, played: list[tuple[str, int, int]], seed: int
) -> None:
    async def main() -> None:
        memory = MemoryCluster(seed, delay_max_ms=20)
        stage = ClientFixture(memory, await memory.start(BROKER))
        history = History(stage, strategy)
        watch = asyncio.create_task(watching(history))
        try:
            await history.group.create("t", 3)
            for what, which, pause_ms in played:
                await history.play(what, which)
                await asyncio.sleep(pause_ms / 1000)
                assert not watch.done(), watch.exception()
            await history.settle()
            history.check_told()
            watch.cancel()
            await history.group.close()
            await stage.close()
        finally:
            watch.cancel()
            await stage.broker.stop()
            await memory.close()

    run_virtually(main)


async def watching(history: History) -> Any:
    while True:
        history.check()
        await asyncio.sleep(0.03)
