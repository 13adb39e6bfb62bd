"""Faults of a simulated cluster, drawn from a seed: what breaks, when, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.simulation.storms import Storms

from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.testing.cluster import ClusterOfBrokers, SimulatedBroker, SimulatedCluster
from odradek.testing.scripted_controller import CONTROLLER_HOST

SESSION_TIMEOUT_S = 6.0
STORM_WEIGHT = 6
"""Storms among 21 faults."""
REPLAYED_REQUESTS = 4

Fault = Callable[[], Awaitable[str | None]]
"""Injects a fault; returns its description, or None if it does not apply now."""


class BrokerFaults:
    """Injects random faults of brokers and their network one after the other; some last while others come."""

    def __init__(self, cluster: ClusterOfBrokers, entropy: Entropy, *, power_failures: bool) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._power_failures = power_failures
        self._restarts: set[asyncio.Task[None]] = set()
        self._may_restart = asyncio.Event()
        self._may_restart.set()
        self._faults: Sequence[Fault] = ()
        self.history: list[str] = []

    async def run(self, count: int) -> None:
        """Inject ``count`` faults."""
        for _ in range(count):
            await asyncio.sleep((100 + self._entropy.below(4_000)) / 1000)
            description = await self._faults[self._entropy.below(len(self._faults))]()
            if description is not None:
                self._record(description)

    async def repair(self) -> None:
        """End all faults and start all brokers."""
        self._record("repair")
        self._repair_links()
        self._may_restart.set()
        if self._restarts:
            await asyncio.gather(*self._restarts)
        for broker in self._cluster.brokers.values():
            if not broker.is_running:
                await broker.start()

    def _repair_links(self) -> None:
        self._cluster.network.heal()
        for broker in self._cluster.brokers.values():
            if broker.is_paused:
                broker.resume()

    def _record(self, description: str) -> None:
        self.history.append(f"{self._cluster.clock.monotonic_ms():>7} {description}")

    def _broker(self) -> SimulatedBroker | None:
        """Return a random running broker."""
        running = [broker for broker in self._cluster.running() if not broker.is_paused]
        return running[self._entropy.below(len(running))] if running else None

    def _host(self) -> str:
        hosts = self._hosts()
        return hosts[self._entropy.below(len(hosts))]

    def _hosts(self) -> list[str]:
        return [broker.host for broker in self._cluster.brokers.values()]

    async def _kill(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        await self._kill_and_restart(broker)
        return f"killed {broker.host}"

    async def _kill_and_restart(self, broker: SimulatedBroker) -> None:
        power_failure = self._power_failures and self._entropy.below(2) == 0
        self._record(f"kill {broker.host}{' with power failure' if power_failure else ''}")
        await broker.kill(power_failure=power_failure)
        self._restart_later(broker, was_killed=True)

    async def _stop(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        self._record(f"stop {broker.host}")
        await broker.stop()
        self._restart_later(broker, was_killed=False)
        return f"stopped {broker.host}"

    def _restart_later(self, broker: SimulatedBroker, *, was_killed: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._restart(broker, was_killed=was_killed))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _restart(self, broker: SimulatedBroker, *, was_killed: bool) -> None:
        if was_killed:
            await asyncio.sleep(self._entropy.below(int(SESSION_TIMEOUT_S * 1000)) / 1000)
            await broker.expire_session()
        # At once in half of the cases: the controller may then see the old and the new session in one change.
        await asyncio.sleep(self._entropy.below(8_000) / 1000 if self._entropy.below(2) else 0)
        await self._may_restart.wait()
        if not broker.is_running:
            await self._start(broker)

    async def _start(self, broker: SimulatedBroker) -> None:
        await broker.start()
        self._record(f"started {broker.host}")

    async def _pause(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        duration_ms = 100 + self._entropy.below(15_000)
        broker.pause()
        asyncio.get_running_loop().create_task(self._resume_later(broker, duration_ms))
        return f"pause {broker.host} for {duration_ms} ms"

    async def _resume_later(self, broker: SimulatedBroker, duration_ms: int) -> None:
        if duration_ms > SESSION_TIMEOUT_S * 1000:
            await asyncio.sleep(SESSION_TIMEOUT_S)
            duration_ms -= int(SESSION_TIMEOUT_S * 1000)
            if broker.is_paused:
                self._record(f"expire {broker.host}")
                await broker.expire_session()
        await asyncio.sleep(duration_ms / 1000)
        if broker.is_paused:
            broker.resume()
            self._record(f"resume {broker.host}")

    async def _partition(self) -> str | None:
        first, other = self._host(), self._host()
        if first == other:
            return None
        self._cluster.network.partition(first, other)
        return f"partition {first} and {other}"

    async def _block(self) -> str | None:
        first, other = self._host(), self._host()
        if first == other:
            return None
        self._cluster.network.block(first, other)
        return f"block {first} to {other}"

    async def _heal(self) -> str | None:
        self._cluster.network.heal()
        return "heal"

    async def _expire(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        await broker.expire_session()
        return f"expire {broker.host}"

    async def _reset(self) -> str | None:
        connections = sorted(self._cluster.network.connections, key=lambda c: (c.host, c.peer))
        if not connections:
            return None
        connection = connections[self._entropy.below(len(connections))]
        connection.reset()
        return f"reset {connection.host} to {connection.peer}"

    async def _step_clock(self) -> str | None:
        broker = self._broker()
        if broker is None:
            return None
        by_ms = self._entropy.below(7_200_000) - 3_600_000
        broker.clock.move_wall(by_ms)
        return f"step the clock of {broker.host} by {by_ms} ms"


class FaultInjector(BrokerFaults):
    """Faults of a cluster under a scripted controller."""

    def __init__(self, cluster: SimulatedCluster, entropy: Entropy, *, power_failures: bool) -> None:
        super().__init__(cluster, entropy, power_failures=power_failures)
        self._controller = cluster.controller
        self._storms = Storms(cluster, entropy, self._record, self._kill_and_restart)
        self._faults = [
            self._kill,
            self._stop,
            self._pause,
            self._partition,
            self._block,
            self._heal,
            self._heal,
            self._expire,
            self._move_leader,
            self._move_leader,
            self._bump_epoch,
            self._fail_over,
            self._replay,
            self._reset,
            self._step_clock,
            *[self._storms.run] * STORM_WEIGHT,
        ]

    def _hosts(self) -> list[str]:
        return [*super()._hosts(), CONTROLLER_HOST]

    async def _start(self, broker: SimulatedBroker) -> None:
        await super()._start(broker)
        if self._entropy.below(2):
            # Retries of a controller that has not noticed the restart.
            self._controller.replay_latest(broker.broker_id, REPLAYED_REQUESTS)

    def _partition_at_random(self) -> TopicPartition:
        partitions = sorted(self._controller.state.states)
        return partitions[self._entropy.below(len(partitions))]

    async def _move_leader(self) -> str | None:
        partition = self._partition_at_random()
        controller = self._controller
        replicas = controller.state.replicas[partition]
        leader = replicas[self._entropy.below(len(replicas))]
        await controller.run(lambda: controller.move_leader(partition, leader))
        return f"move {partition} to broker {leader}"

    async def _bump_epoch(self) -> str | None:
        partition = self._partition_at_random()
        controller = self._controller
        await controller.run(lambda: controller.bump_leader_epoch(partition))
        return f"new leader epoch of {partition}"

    async def _fail_over(self) -> str | None:
        await self._controller.run(self._controller.fail_over)
        return "controller failover"

    async def _replay(self) -> str | None:
        return "replay an old request" if self._controller.replay() else None
