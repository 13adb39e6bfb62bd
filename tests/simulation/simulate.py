"""One simulation: a cluster, clients and faults from a seed; the invariants are checked throughout."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

from tests.simulation.faults import BrokerFaults, FaultInjector
from tests.simulation.workload import Consumer, Producer

import odradek.controller.machine.turns as controller_turns
from odradek.log.log import Log
from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.replication.isr import alter_partition_manager
from odradek.testing.clock import run_virtually
from odradek.testing.cluster import ClusterOfBrokers, SimulatedCluster
from odradek.testing.entropy import SeededEntropy
from odradek.testing.invariants import Violation
from odradek.timers import turns

TOPIC = "events"
GARBAGE_THRESHOLD = 1_000_000
"""More than a simulation leaves; keeps the memory of far longer ones bounded."""
DISK_DELAY_MAX_MS = 50
"""Longest sync in half of the seeds."""
TURN_SIZES = (1, 2, turns.TURN_ITEMS)
"""Partitions per turn, one for each third of the seeds: there are too few for the usual size to matter."""
FAULTS = 15
ATTEMPTS_MAX = 50
RECOVERY_S = 120.0
"""Virtual time in which everything must be in sync again after the last fault."""

SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": "2000",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
}
DURABLE = {"log.flush.interval.messages": "1"}
"""With every append synced, even a power failure of all brokers may lose nothing acknowledged."""


@dataclass
class Result:
    """Figures of a simulation without violations."""

    seed: int
    acknowledged: int
    checks: int
    virtual_ms: int
    digest: int
    history: list[str]


class SimulationFailed(AssertionError):
    """A violation with the seed and the faults that led to it."""

    def __init__(self, seed: int, error: BaseException, history: list[str]) -> None:
        name = error.name if isinstance(error, Violation) else type(error).__name__
        super().__init__("\n".join([f"seed {seed}: {error}", *history]))
        self.seed = seed
        self.name = name
        self.error = error


def simulate(seed: int, brokers: int = 3, faults: int = FAULTS) -> Result:
    """Run one simulation; raise ``SimulationFailed`` if an invariant is violated."""
    with less_overhead(), turns_of(seed):
        return run_virtually(lambda: ScriptedSimulation(seed, brokers, faults).run())


@contextmanager
def less_overhead() -> Iterator[None]:
    """Write no log, and collect garbage at the end: together a fifth of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        gc.set_threshold(*thresholds)
        gc.collect(0)  # what the simulation has left is young; the modules are not traversed


@contextmanager
def turns_of(seed: int) -> Iterator[None]:
    """Let work on many partitions give other work a turn as often as this seed says."""
    size = TURN_SIZES[seed % len(TURN_SIZES)]
    with ExitStack() as patches:
        for module, name in (
            (turns, "TURN_ITEMS"),
            (controller_turns, "TURN_PARTITIONS"),
            (alter_partition_manager, "RESULTS_PER_TURN"),
            (alter_partition_manager, "CHANGES_PER_REQUEST"),
        ):
            patches.enter_context(mock.patch.object(module, name, size))
        yield


class Simulation:
    """A scenario on a cluster, under faults. Subclasses say which."""

    def __init__(self, seed: int, brokers: int, faults: int) -> None:
        entropy = SeededEntropy(seed)
        self._seed = seed
        self._fault_count = faults
        is_durable = entropy.below(2) == 0
        settings = {**SETTINGS, **DURABLE} if is_durable else SETTINGS
        disk_delay_max_ms = DISK_DELAY_MAX_MS * entropy.below(2)
        self._entropy = entropy
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cluster = self._make_cluster(entropy.below(1 << 30), brokers, settings, disk_delay_max_ms)
        self._cluster.on_violation = self._fail
        self._faults = self._make_faults(SeededEntropy(entropy.below(1 << 30)), power_failures=is_durable)

    def _make_cluster(
        self, seed: int, brokers: int, settings: Mapping[str, str], disk_delay_max_ms: int
    ) -> ClusterOfBrokers:
        raise NotImplementedError

    def _make_faults(self, entropy: Entropy, *, power_failures: bool) -> BrokerFaults:
        raise NotImplementedError

    async def _scenario(self) -> None:
        raise NotImplementedError

    async def run(self) -> Result:
        cluster = self._cluster
        try:
            await cluster.start()
            await self._until_failure(self._scenario())
        except BaseException as error:
            raise SimulationFailed(self._seed, error, self._faults.history) from error
        finally:
            await cluster.stop()
        return Result(
            self._seed,
            cluster.checker.acknowledged_count,
            cluster.checker.check_count,
            cluster.clock.monotonic_ms(),
            cluster.digest,
            self._faults.history,
        )

    async def _until_failure(self, work: Coroutine[None, None, None]) -> None:
        """Run work until it ends or an invariant is violated."""
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, self._failure], return_when=asyncio.FIRST_COMPLETED)
        if self._failure.done():
            task.cancel()
            self._failure.result()
        await task

    async def _produce_to_all(self, partitions: Sequence[TopicPartition]) -> None:
        """Write to each partition; first attempts may go to a former leader, or to one that was paused."""
        entropy = SeededEntropy(self._entropy.below(1 << 30))
        producer = Producer(self._cluster, "last", partitions, entropy, self._key_of)
        for partition in partitions:
            for _ in range(ATTEMPTS_MAX):
                if await producer.produce(partition):
                    break
                await asyncio.sleep(0.2)
            else:
                raise Violation("not-recovered", f"{partition} accepts no records: {self._describe()}")

    def _key_of(self, partition: TopicPartition) -> TopicPartition:
        """Return the key of a partition that the invariants know."""
        return partition

    def _on_client_done(self, client: asyncio.Future[None]) -> None:
        if not client.cancelled() and (error := client.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + RECOVERY_S
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("not-recovered", f"{what} within {RECOVERY_S} s: {self._describe()}")
            await asyncio.sleep(0.1)

    def _is_replicated(self) -> bool:
        logs = self._logs()
        return all(
            len({log.log_end_offset for _, log in replicas} | {log.high_watermark for _, log in replicas})
            == 1
            for replicas in logs.values()
        )

    def _logs(self) -> dict[TopicPartition, list[tuple[int, Log]]]:
        logs: dict[TopicPartition, list[tuple[int, Log]]] = {}
        for broker in self._cluster.running():
            assert broker.broker is not None
            for partition in broker.broker.replica_manager:
                logs.setdefault(partition.topic_partition, []).append((broker.broker_id, partition.log))
        return logs

    def _describe(self) -> str:
        """Describe states and logs, for a violation."""
        lines = [f"{p}: {s}" for p, s in self._stored_states().items()]
        for partition, replicas in self._logs().items():
            ends = {broker_id: (log.high_watermark, log.log_end_offset) for broker_id, log in replicas}
            lines.append(f"{partition}: high watermark and log end by broker {ends}")
        return "; ".join(lines)

    def _stored_states(self) -> Mapping[TopicPartition, object]:
        raise NotImplementedError


class ScriptedSimulation(Simulation):
    """A cluster under a scripted controller."""

    _cluster: SimulatedCluster

    def _make_cluster(
        self, seed: int, brokers: int, settings: Mapping[str, str], disk_delay_max_ms: int
    ) -> ClusterOfBrokers:
        cluster = SimulatedCluster(seed, brokers, settings, disk_delay_max_ms=disk_delay_max_ms)
        cluster.controller.on_failure = self._fail
        return cluster

    def _make_faults(self, entropy: Entropy, *, power_failures: bool) -> BrokerFaults:
        return FaultInjector(self._cluster, entropy, power_failures=power_failures)

    async def _scenario(self) -> None:
        cluster = self._cluster
        await self._wait_for(
            lambda: len(cluster.controller.state.brokers) == len(cluster.brokers) + 1, "start"
        )
        factor = min(3, len(cluster.brokers))
        await cluster.create_topic(TOPIC, 2, factor)
        partitions = cluster.partitions()
        producers = [
            Producer(cluster, f"p{number}", partitions, SeededEntropy(self._entropy.below(1 << 30)))
            for number in range(3)
        ]
        consumers = [
            Consumer(cluster, partition, SeededEntropy(self._entropy.below(1 << 30)), number)
            for number, partition in enumerate(partitions)
        ]
        clients = [
            *(asyncio.ensure_future(producer.run()) for producer in producers),
            *(asyncio.ensure_future(consumer.run()) for consumer in consumers),
        ]
        for client in clients:
            client.add_done_callback(self._on_client_done)
        await self._faults.run(self._fault_count)
        if self._entropy.below(2):
            # Replicas must become equal without new records, too.
            for client in clients[: len(producers)]:
                client.cancel()
        await self._faults.repair()
        await self._wait_for(self._is_in_sync, "every partition in sync")
        await self._produce_to_all(partitions)
        for client in clients[: len(producers)]:
            client.cancel()
        await self._wait_for(lambda: self._is_in_sync() and self._is_replicated(), "equal replicas")
        await self._wait_for(
            lambda: all(
                consumer.position >= cluster.checker.committed_end(consumer.key) for consumer in consumers
            ),
            "consumers at the end",
        )
        for client in clients:
            client.cancel()
        cluster.checker.check()
        cluster.checker.check_final(self._logs())

    def _is_in_sync(self) -> bool:
        state = self._cluster.controller.state
        return all(
            stored.leader in state.brokers and set(stored.isr) == set(state.replicas[partition])
            for partition, stored in state.states.items()
        )

    def _stored_states(self) -> Mapping[TopicPartition, object]:
        return self._cluster.controller.state.states
