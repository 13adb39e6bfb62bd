"""A runtime on replicas in memory and on virtual time, with a machine that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from odradek.broker.clockwork import Clockwork
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage
from odradek.coordinators.effects import Append, Arm, Disarm, Effects, Entry, Now, Perform, Reply, Stamp
from odradek.coordinators.hosted import RuntimeSettings, Surroundings
from odradek.coordinators.runtime import Runtime
from odradek.log.directories import LogDirectories
from odradek.log.directory import LogDirectory
from odradek.log.settings import LogConfig
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.partition import Leadership, Partition
from odradek.replication.replicas import Replicas
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
        self.open: dict[int, list[Entry]] = {}
        self.waiting: list[Any] = []
        self.fired_at: list[tuple[Hashable, int]] = []
        self.loads = 0

    def handle(self, command: Any, to: Any, now: Now) -> Effects:
        what, *given = command
        if what in ("set", "set twice"):
            self.waiting.append(to)
            name, number = given[:2]
            value = None if number is None else b"%d" % number
            stamp = Stamp(given[2], 0) if len(given) > 2 else None
            append = Append((Entry(name, value),), (to, what == "set twice" and name), stamp)
            return [append, Arm("idle", 60_000)]
        if what == "arm":
            return [Arm(given[0], given[1]), Reply(to, "armed")]
        if what == "disarm":
            return [Disarm(given[0]), Reply(to, "disarmed")]
        if what == "perform":
            return [Perform(given[0]), Reply(to, "asked")]
        raise RuntimeError("no such command")

    def committed(self, note: Any, now: Now) -> Effects:
        to, again = note
        if again:
            return [Append((Entry(again, b"%d" % (self.totals[again] + 1)),), (to, False))]
        self.waiting.remove(to)
        return [Reply(to, "done")]

    def refused(self, note: Any, code: ErrorCode, now: Now) -> Effects:
        self.waiting.remove(note[0])
        return [Reply(note[0], code)]

    def fired(self, timer: Hashable, now: Now) -> Effects:
        if timer == "broken":
            raise RuntimeError("a machine with a fault")
        self.fired_at.append((timer, now.monotonic_ms))
        return []

    def apply(self, entry: Entry, producer_id: int = -1) -> None:
        if producer_id >= 0:
            self.open.setdefault(producer_id, []).append(entry)
        elif entry.value is None:
            self.totals.pop(entry.key, None)
        else:
            self.totals[entry.key] = int(entry.value)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        for entry in self.open.pop(producer_id, []):
            if commits:
                self.apply(entry)

    def loaded(self, now: Now) -> Effects:
        self.loads += 1
        return []

    def unloaded(self) -> Effects:
        waiting, self.waiting = self.waiting, []
        return [
            Arm("too late", 1),
            Perform("too late"),
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
        self.settings = RuntimeSettings(TIMEOUT_MS, 1 << 20)
        self.image = ClusterImage()
        self.image.apply(
            ClusterDelta({number: BrokerImage(number, {}) for number in (BROKER_ID, FOLLOWER_ID)})
        )
        self.clockwork = Clockwork(self.clock)
        self.performed: list[tuple[int, Any]] = []
        self.partition: Partition

    async def open(self) -> None:
        directory = LogDirectory.open(self.files, "/data", SeededEntropy())
        await directory.load(lambda topic: self.config, 0)
        wheel, arm = self.clockwork.wheel, self.clockwork.arm
        self.replicas = Replicas(
            BROKER_ID,
            LogDirectories([directory]),
            self.image,
            lambda topic: (self.config, self.min_isr),
            self.clock,
            wheel,
            arm,
            lambda: 10_000,
            InlineWorkers(),
        )
        self.around = Surroundings(
            self.replicas, self.clock, wheel, arm, lambda: self.settings, self._perform
        )
        self.runtime: Runtime[Counter] = Runtime(lambda number: Counter(), self.around)

    def _perform(self, number: int, task: Any) -> None:
        self.performed.append((number, task))

    async def obey(self, *isr: int, leader: int = BROKER_ID, epoch: int = 0) -> Partition:
        """The controller says who leads and who is in sync; broker 2 is a replica if it is told of once."""
        isr = isr or (BROKER_ID,)
        replicas = (BROKER_ID, FOLLOWER_ID) if FOLLOWER_ID in isr else isr
        order = Leadership(leader, epoch, isr, replicas, epoch)
        await self.replicas.obey({TopicPartition(TOPIC, 0): (TOPIC_ID, order)})
        found = self.replicas.find(TOPIC, 0)
        assert found is not None
        self.partition = found
        return found

    async def serve(self, *isr: int) -> Counter:
        """Lead, load and be ready."""
        self.runtime.start()
        self.runtime.lead(await self.obey(*isr))
        await self.loaded()
        return self.runtime.machine(0)

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
        other: Runtime[Counter] = Runtime(lambda number: Counter(), self.around)
        other.start()
        other.lead(self.partition)
        while other.is_loading:
            await asyncio.sleep(0)
        machine = other.machine(0)
        await other.stop()
        return machine


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
            await desk.replicas.settle_flushes()
            desk.clockwork.stop()

    run_virtually(main)
