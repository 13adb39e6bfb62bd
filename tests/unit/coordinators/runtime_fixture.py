"""Fixture for the coordinator runtime: in-memory replicas, virtual time and a shard of counters."""

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
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import ErrorCode
from odradek.replication.leader import IsrChangeResult
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.workers import InlineWorkers
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

TOPIC = "__counters"
TOPIC_ID = b"c" * 16
BROKER_ID, FOLLOWER_ID = 1, 2
TIMEOUT_MS = 5_000


class Counter:
    """Shard with a number per name. Its commands are tuples, its responses strings and error codes."""

    def __init__(self) -> None:
        self.totals: dict[bytes, int] = {}
        self.open: dict[int, list[CoordinatorRecord]] = {}
        self.waiting: list[Any] = []
        self.fired_at: list[tuple[Hashable, int]] = []
        self.loads = 0
        self.replayed_count = 0

    def handle(self, command: Any, to: Any, now: Now) -> Effects:
        operation, *arguments = command
        if operation in ("set", "set twice"):
            self.waiting.append(to)
            name, number = arguments[:2]
            value = None if number is None else b"%d" % number
            producer = ProducerIdAndEpoch(arguments[2], 0) if len(arguments) > 2 else None
            completion = (to, operation == "set twice" and name)
            append = AppendRecords((CoordinatorRecord(name, value),), completion, producer)
            return [append, ScheduleTimer("idle", 60_000)]
        if operation == "set with content":
            self.waiting.append(to)
            records = tuple([CoordinatorRecord(name, b"%d" % total) for name, total in arguments[0].items()])
            return [AppendRecords(records, (to, False), content=arguments[0])]
        if operation == "schedule":
            return [ScheduleTimer(arguments[0], arguments[1]), Reply(to, "scheduled")]
        if operation == "cancel":
            return [CancelTimer(arguments[0]), Reply(to, "cancelled")]
        if operation == "start task":
            return [StartTask(arguments[0]), Reply(to, "started")]
        raise RuntimeError(f"unknown operation {operation}")

    def on_append_committed(self, completion: Any, now: Now) -> Effects:
        to, name = completion
        if name:
            record = CoordinatorRecord(name, b"%d" % (self.totals[name] + 1))
            return [AppendRecords((record,), (to, False))]
        self.waiting.remove(to)
        return [Reply(to, "done")]

    def on_append_failed(self, completion: Any, code: ErrorCode, now: Now) -> Effects:
        self.waiting.remove(completion[0])
        return [Reply(completion[0], code)]

    def on_timer(self, timer: Hashable, now: Now) -> Effects:
        if timer == "broken":
            raise RuntimeError("timer handler failed")
        self.fired_at.append((timer, now.monotonic_ms))
        return []

    def replay(self, record: CoordinatorRecord | dict[bytes, int], producer_id: int = -1) -> None:
        self.replayed_count += 1
        if isinstance(record, dict):
            self.totals.update(record)
        elif producer_id >= 0:
            self.open.setdefault(producer_id, []).append(record)
        elif record.value is None:
            self.totals.pop(record.key, None)
        else:
            self.totals[record.key] = int(record.value)

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        for record in self.open.pop(producer_id, []):
            if commits:
                self.replay(record)

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


class RuntimeFixture:
    """Broker 1 with one partition of the topic, and a simulated follower."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.config = LogConfig()
        self.min_isr = 1
        self.settings = CoordinatorRuntimeSettings(TIMEOUT_MS, 1 << 20)
        self.metadata = MetadataCache()
        self.metadata.apply(
            MetadataUpdate({number: BrokerMetadata(number, {}) for number in (BROKER_ID, FOLLOWER_ID)})
        )
        self.timer_driver = TimerDriver(self.clock)
        self.started_tasks: list[tuple[int, Any]] = []
        self.partition: Partition

    async def open(self) -> None:
        directory = LogDirectory.open(self.files, "/data", SeededEntropy())
        await directory.load(lambda topic: self.config, 0)
        wheel, arm = self.timer_driver.wheel, self.timer_driver.arm
        self.replicas = ReplicaManager(
            BROKER_ID,
            LogManager([directory]),
            self.metadata,
            lambda topic: (self.config, self.min_isr),
            self.clock,
            wheel,
            arm,
            lambda: 10_000,
            InlineWorkers(),
        )
        self.environment = CoordinatorEnvironment(
            self.replicas, self.clock, wheel, arm, lambda: self.settings, self._start_task
        )
        self.runtime: CoordinatorRuntime[Counter] = CoordinatorRuntime(
            lambda number: Counter(), self.environment
        )

    def _start_task(self, number: int, task: Any) -> None:
        self.started_tasks.append((number, task))

    async def become_leader_or_follower(
        self, *isr: int, leader: int = BROKER_ID, epoch: int = 0
    ) -> Partition:
        """Set leader and ISR; broker 2 is a replica if it is in the ISR."""
        isr = isr or (BROKER_ID,)
        replicas = (BROKER_ID, FOLLOWER_ID) if FOLLOWER_ID in isr else isr
        state = LeaderAndIsrPartitionState(
            leader=leader,
            leader_epoch=epoch,
            isr=list(isr),
            partition_epoch=epoch,
            replicas=list(replicas),
        )
        topic_state = LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [state])
        await self.replicas.become_leader_or_follower(
            LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic_state])
        )
        partition = self.replicas.get_partition(TOPIC, 0)
        assert partition is not None
        self.partition = partition
        return partition

    async def serve(self, *isr: int) -> Counter:
        """Become leader, load the partition and return its shard."""
        self.runtime.start()
        self.runtime.load(await self.become_leader_or_follower(*isr))
        await self.wait_until_loaded()
        return self.runtime.shard(0)

    async def wait_until_loaded(self) -> None:
        while self.runtime.is_loading:
            await asyncio.sleep(0)

    def submit(self, *command: Any) -> list[Any]:
        """Submit a command; the response is added to the returned list."""
        responses: list[Any] = []
        self.runtime.submit(0, command, responses.append)
        return responses

    def fetch_as_follower(self, offset: int) -> None:
        """Move the follower's log end offset."""
        self.replicas.record_follower_fetch(self.partition, FOLLOWER_ID, offset, 0)

    def shrink_isr(self) -> None:
        """Remove the follower from the ISR."""
        partition, isr = self.partition, (BROKER_ID,)
        assert partition.leader_state is not None
        change = partition.leader_state.propose_isr(isr)
        partition.complete_isr_change(
            change,
            IsrChangeResult(ErrorCode.NONE, isr, partition.leader_epoch, partition.partition_epoch + 1),
        )

    async def stop_replica(self) -> None:
        """Stop the replica and delete its log."""
        state = StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, -2, True)])
        await self.replicas.stop_replicas(StopReplicaRequest(controller_epoch=1, topic_states=[state]))

    async def reload(self) -> Counter:
        """Load the partition in another runtime and return its shard."""
        other: CoordinatorRuntime[Counter] = CoordinatorRuntime(lambda number: Counter(), self.environment)
        other.start()
        other.load(self.partition)
        while other.is_loading:
            await asyncio.sleep(0)
        shard = other.shard(0)
        await other.stop()
        return shard


def run_scenario(scenario: Callable[[RuntimeFixture], Awaitable[None]], **attributes: Any) -> None:
    """Run a scenario on a new fixture with these attributes."""

    async def main() -> None:
        fixture = RuntimeFixture()
        for name, value in attributes.items():
            setattr(fixture, name, value)
        await fixture.open()
        try:
            await scenario(fixture)
        finally:
            await fixture.runtime.stop()
            await fixture.replicas.drain_flushes()
            fixture.timer_driver.stop()

    run_virtually(main)
