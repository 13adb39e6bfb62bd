"""A runtime on replicas in memory and on virtual time, with a shard that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from odradek.broker.timer_driver import TimerDriver
from odradek.cluster.metadata_cache import BrokerMetadata, MetadataCache, MetadataUpdate
from odradek.coordinators.coordinator_context import CoordinatorEnvironment, CoordinatorRuntimeSettings
from odradek.coordinators.effects import (
    AppendRecords,
    CancelTimer,
    CoordinatorRecord,
    Effects,
    Now,
    ProducerIdAndEpoch,
    Reply,
    ScheduleTimer,
    StartTask,
)
from odradek.coordinators.runtime import CoordinatorRuntime
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.partition import LeaderAndIsr, Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.workers import InlineWorkers

TOPIC = "__counters"
TOPIC_ID = b"c" * 16
BROKER_ID, FOLLOWER_ID = 1, 2
TIMEOUT_MS = 5_000


class Counter:
    """Keeps a number under each name. Its commands are tuples, its answers texts and error codes."""

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}
        self.open: dict[int, list[CoordinatorRecord]] = {}
        self.waiting: list[Any] = []
        self.fired_at: list[tuple[Hashable, int]] = []
        self.loads = 0

    def handle(self, command: Any, to: Any, now: Now) -> Effects:
        what, *given = command
        if what in ("set", "set twice"):
            self.waiting.append(to)
            name, number = given[:2]
            value = None if number is None else b"%d" % number
            producer = ProducerIdAndEpoch(given[2], 0) if len(given) > 2 else None
            append = AppendRecords(
                (CoordinatorRecord(name, value),), (to, what == "set twice" and name), producer
            )
            return [append, ScheduleTimer("idle", 60_000)]
        if what == "arm":
            return [ScheduleTimer(given[0], given[1]), Reply(to, "armed")]
        if what == "disarm":
            return [CancelTimer(given[0]), Reply(to, "disarmed")]
        if what == "perform":
            return [StartTask(given[0]), Reply(to, "asked")]
        raise RuntimeError("no such command")

    def on_append_committed(self, completion: Any, now: Now) -> Effects:
        to, again = completion
        if again:
            return [AppendRecords((CoordinatorRecord(again, b"%d" % (self.totals[again] + 1)),), (to, False))]
        self.waiting.remove(to)
        return [Reply(to, "done")]

    def on_append_failed(self, completion: Any, code: ErrorCode, now: Now) -> Effects:
        self.waiting.remove(completion[0])
        return [Reply(completion[0], code)]

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        if timer == "broken":
            raise RuntimeError("a shard with a fault")
        self.fired_at.append((timer, now.monotonic_ms))
        return []

    def replay(self, entry: CoordinatorRecord, producer_id: int = -1) -> None:
        if producer_id >= 0:
            self.open.setdefault(producer_id, []).append(entry)
        elif entry.value is None:
            self.totals.pop(entry.key, None)
        else:
            self.totals[entry.key] = int(entry.value)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        for entry in self.open.pop(producer_id, []):
            if commits:
                self.replay(entry)

    def on_loaded(self, now: Now) -> Effects:
        self.loads += 1
        return []

    def on_unloaded(self) -> Effects:
        waiting, self.waiting = self.waiting, []
        return [
            ScheduleTimer("too late", 1),
            StartTask("too late"),
            *(Reply(to, ErrorCode.NOT_COORDINATOR) for to in waiting),
        ]

    @property
    def durable(self) -> tuple[object, object]:
        return self.totals, self.open


class Desk:
    """Broker 1 with one partition of the topic, and a follower played by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.config = LogConfig()
        self.min_isr = 1
        self.settings = CoordinatorRuntimeSettings(TIMEOUT_MS, 1 << 20)
        self.image = MetadataCache()
        self.image.apply(
            MetadataUpdate({number: BrokerMetadata(number, {}) for number in (BROKER_ID, FOLLOWER_ID)})
        )
        self.timer_driver = TimerDriver(self.clock)
        self.performed: list[tuple[int, Any]] = []
        self.partition: Partition

    async def open(self) -> None:
        directory = LogDirectory.open(self.files, "/data", SeededEntropy())
        await directory.load(lambda topic: self.config, 0)
        wheel, arm = self.timer_driver.wheel, self.timer_driver.arm
        self.replicas = ReplicaManager(
            BROKER_ID,
            LogManager([directory]),
            self.image,
            lambda topic: (self.config, self.min_isr),
            self.clock,
            wheel,
            arm,
            lambda: 10_000,
            InlineWorkers(),
        )
        self.around = CoordinatorEnvironment(
            self.replicas, self.clock, wheel, arm, lambda: self.settings, self._perform
        )
        self.runtime: CoordinatorRuntime[Counter] = CoordinatorRuntime(lambda number: Counter(), self.around)

    def _perform(self, number: int, task: Any) -> None:
        self.performed.append((number, task))

    async def become_leader_or_follower(
        self, *isr: int, leader: int = BROKER_ID, epoch: int = 0
    ) -> Partition:
        """The controller says who leads and who is in sync; broker 2 is a replica if it is told of once."""
        isr = isr or (BROKER_ID,)
        replicas = (BROKER_ID, FOLLOWER_ID) if FOLLOWER_ID in isr else isr
        order = LeaderAndIsr(leader, epoch, isr, replicas, epoch)
        await self.replicas.become_leader_or_follower({TopicPartition(TOPIC, 0): (TOPIC_ID, order)})
        found = self.replicas.find(TOPIC, 0)
        assert found is not None
        self.partition = found
        return found

    async def serve(self, *isr: int) -> Counter:
        """Lead, load and be ready."""
        self.runtime.start()
        self.runtime.load(await self.become_leader_or_follower(*isr))
        await self.loaded()
        return self.runtime.shard(0)

    async def loaded(self) -> None:
        while self.runtime.is_loading:
            await asyncio.sleep(0)

    def ask(self, *command: Any) -> list[Any]:
        """Give a command; what it is answered with appears in the list."""
        answers: list[Any] = []
        self.runtime.submit(0, command, answers.append)
        return answers

    def follow(self, offset: int) -> None:
        """The follower has fetched up to an offset."""
        progress = self.partition._progress
        assert progress is not None
        follower = progress.follower(FOLLOWER_ID)
        assert follower is not None
        now_ms = self.clock.monotonic_ms()
        follower.fetched(offset, 0, self.partition.log.log_end_offset, now_ms)
        self.partition._advance_high_watermark(now_ms)
        self.replicas.changed(self.partition)

    def shrink(self) -> None:
        """The follower leaves the in-sync set."""
        progress = self.partition._progress
        assert progress is not None
        progress.commit((BROKER_ID,))

    async def reload(self) -> Counter:
        """The same partition on another runtime, which knows nothing but the log."""
        other: CoordinatorRuntime[Counter] = CoordinatorRuntime(lambda number: Counter(), self.around)
        other.start()
        other.load(self.partition)
        while other.is_loading:
            await asyncio.sleep(0)
        shard = other.shard(0)
        await other.stop()
        return shard


def play(scenario: Callable[[Desk], Awaitable[None]], **how: Any) -> None:
    """Run a scenario on a desk of its own; ``how`` sets what it has."""

    async def main() -> None:
        desk = Desk()
        for name, value in how.items():
            setattr(desk, name, value)
        await desk.open()
        try:
            await scenario(desk)
        finally:
            await desk.runtime.stop()
            await desk.replicas.drain_flushes()
            desk.timer_driver.stop()

    run_virtually(main)
