"""Faults of a simulated cluster under our own controller: of the controller, the store and administration."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine, Sequence

from tests.simulation.admin_requests import Admin
from tests.simulation.controller_storms import ControllerStorms
from tests.simulation.faults import SESSION_TIMEOUT_S, BrokerFaults, Fault

from odradek.model.errors import BrokerError, ConfigError
from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.store.layout.znodes import ControllerRegistration, encode_controller
from odradek.store.port import StoreError
from odradek.testing.cluster import SimulatedBroker
from odradek.testing.own_controller.cluster import OwnControllerCluster

START_ATTEMPTS = 20
STORM_WEIGHT = 8
PARTITIONS_MAX = 4
AWAY_MAX_MS = 12_000
"""Twice the session timeout."""


class ControllerFaults(BrokerFaults):
    """``topic`` is never deleted; topics of ``recreated`` are."""

    def __init__(
        self,
        cluster: OwnControllerCluster,
        entropy: Entropy,
        *,
        power_failures: bool,
        topic: str,
        recreated: Sequence[str],
    ) -> None:
        super().__init__(cluster, entropy, power_failures=power_failures)
        self._own = cluster
        self._admin = Admin(cluster, entropy)
        self._topic = topic
        self._recreated = recreated
        self._background: set[asyncio.Task[None]] = set()
        self._with_failed_directory: dict[int, int] = {}
        """Incarnation in which a log directory of a broker fails with the next write."""
        self._of_controller: Sequence[Fault] = [
            self._kill,
            self._stop,
            self._pause,
            self._expire,
            self._delete_controller,
            self._overwrite_controller,
            self._lose_store,
            self._cut_controller,
        ]
        self._of_admin: Sequence[Fault] = [
            self._create_topic,
            self._delete_topic,
            self._delete_topic,
            self._recreate_topic,
            self._grow_topic,
            self._reassign,
            self._reassign,
            self._cancel_reassignment,
            self._reassign_by_node,
            self._elect_preferred,
            self._elect_preferred_by_node,
        ]
        self._storms = ControllerStorms(
            cluster,
            entropy,
            self._admin,
            self._record,
            self._kill_and_restart,
            self._start,
            self._of_admin,
            recreated,
            power_failures=power_failures,
        )
        self._faults = [
            *self._of_controller,
            *self._of_admin,
            self._partition,
            self._block,
            self._heal,
            self._heal,
            self._reset,
            self._step_clock,
            self._lose_store_everywhere,
            self._fail_directory,
            *[self._interrupt] * 8,
            *[self._storms.run] * STORM_WEIGHT,
        ]

    async def repair_all_but_dead(self) -> None:
        """End all faults, but start no broker: some are down, and their sessions have expired."""
        self._record("repair all but dead brokers")
        self._may_restart.clear()
        self._repair_links()
        for broker in self._own.brokers.values():
            if not broker.is_running:
                await broker.expire_session()

    def live_brokers(self) -> set[int]:
        """Return the brokers that run and can use their disks."""
        return {b.broker_id for b in self._own.running() if not self._has_failing_directory(b)}

    def _repair_links(self) -> None:
        super()._repair_links()
        for link in self._own.links.values():
            link.catch_up()
            if not link.is_up:
                link.reconnect()

    async def run_last(self) -> None:
        """Let the controller fail once more, in a healthy cluster."""
        description = await self._storms.run_last(self._reassign)
        self._record(f"last: {description}")
        await self._drain()

    async def repair(self) -> None:
        await super().repair()
        await self._drain()
        for broker in self._own.brokers.values():
            if self._has_failing_directory(broker):
                await broker.stop()
                await self._start(broker)

    async def _drain(self) -> None:
        if self._background:
            await asyncio.gather(*self._background)

    def _has_failing_directory(self, broker: SimulatedBroker) -> bool:
        return self._with_failed_directory.get(broker.broker_id) == broker.incarnation

    def _broker(self) -> SimulatedBroker | None:
        """Return a random running broker, in half of the cases the controller."""
        controller = self._own.controller()
        if self._entropy.below(2) and controller is not None and not controller.is_paused:
            return controller
        return super()._broker()

    async def _start(self, broker: SimulatedBroker) -> None:
        """Start a broker, and again if it cannot reach the store, or its former session still lives."""
        broker.files.clear_failures()
        for _ in range(START_ATTEMPTS):
            try:
                await super()._start(broker)
            except (StoreError, ConfigError, BrokerError) as error:
                self._record(f"{broker.host} did not start: {error}")
                await asyncio.sleep(SESSION_TIMEOUT_S)
                await broker.expire_session()
            else:
                return
        raise AssertionError(f"{broker.host} does not start")

    def _spawn(self, description: str, work: Coroutine[None, None, str]) -> str:
        """Run work beside the faults that follow; record its result."""

        async def run() -> None:
            self._record(f"{description}: {await work}")

        task = asyncio.get_running_loop().create_task(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return f"begin: {description}"

    async def _interrupt(self) -> str | None:
        """Begin a change, and fail the controller meanwhile."""
        description = await self._one_of(self._of_admin)()
        if description is not None:
            self._record(description)
        await asyncio.sleep(self._entropy.below(1_500 if self._entropy.below(2) else 60) / 1000)
        return await self._one_of(self._of_controller)()

    def _one_of(self, faults: Sequence[Fault]) -> Fault:
        return faults[self._entropy.below(len(faults))]

    # The controller.

    async def _delete_controller(self) -> str | None:
        return f"delete /controller: {await self._admin.delete_controller()}"

    async def _overwrite_controller(self) -> str | None:
        broker_id = self._entropy.below(len(self._own.brokers) + 1)
        data = encode_controller(ControllerRegistration(broker_id, 0))
        return f"/controller names {broker_id}: {await self._admin.overwrite_controller(data)}"

    async def _cut_controller(self) -> str | None:
        """Cut the controller off from another broker, in one direction."""
        controller = self._own.controller()
        if controller is None:
            return None
        others = [broker for broker in self._own.brokers.values() if broker is not controller]
        if not others:
            return None
        other = others[self._entropy.below(len(others))]
        hosts = (controller.host, other.host) if self._entropy.below(2) else (other.host, controller.host)
        self._own.network.block(*hosts)
        return f"block {hosts[0]} to {hosts[1]} (controller {controller.host})"

    # The store.

    async def _lose_store(self) -> str | None:
        broker = self._broker()
        return None if broker is None else self._disconnect([broker.host])

    async def _lose_store_everywhere(self) -> str | None:
        return self._disconnect(list(self._own.links))

    def _disconnect(self, hosts: Sequence[str]) -> str:
        links = [self._own.links[host] for host in hosts]
        for link in links:
            link.disconnect()
        duration_ms = 100 + self._entropy.below(AWAY_MAX_MS)

        async def reconnect() -> str:
            await asyncio.sleep(duration_ms / 1000)
            for link in links:
                if not link.is_up:
                    link.reconnect()
            return "back"

        return self._spawn(f"no store for {', '.join(hosts)} for {duration_ms} ms", reconnect())

    # Disks.

    async def _fail_directory(self) -> str | None:
        """Let the next append on a broker fail: its directory is offline until the broker is restarted."""
        broker = self._broker()
        if broker is None or self._has_failing_directory(broker):
            return None
        self._with_failed_directory[broker.broker_id] = broker.incarnation
        broker.files.fail_next_write(errno.EIO, name_end=".log")
        return f"next append on {broker.host} fails"

    # Topics.

    def _some_replicas(self, count: int) -> tuple[int, ...]:
        """Return random brokers in a random order."""
        ids = sorted(self._own.brokers)
        count = min(count, len(ids))
        return tuple(ids.pop(self._entropy.below(len(ids))) for _ in range(count))

    def _recreated_topic(self) -> str:
        return self._recreated[self._entropy.below(len(self._recreated))]

    async def _create_topic(self) -> str | None:
        topic = self._recreated_topic()
        assignment = self._random_assignment()
        return self._spawn(f"create {topic} on {assignment}", self._admin.create_topic(topic, assignment))

    def _random_assignment(self) -> list[tuple[int, ...]]:
        factor = 1 + self._entropy.below(3)
        return [self._some_replicas(factor) for _ in range(1 + self._entropy.below(2))]

    async def _delete_topic(self) -> str | None:
        topic = self._recreated_topic()
        return self._spawn(f"delete {topic}", self._admin.delete_topic(topic))

    async def _recreate_topic(self) -> str | None:
        topic, assignment = self._recreated_topic(), self._random_assignment()
        wait_ms = self._entropy.below(4_000)

        async def recreate() -> str:
            deleted = await self._admin.delete_topic(topic)
            await asyncio.sleep(wait_ms / 1000)
            return f"{deleted}, {await self._admin.create_topic(topic, assignment)}"

        return self._spawn(f"delete {topic}, create it after {wait_ms} ms on {assignment}", recreate())

    async def _grow_topic(self) -> str | None:
        topics = sorted(self._own.observer.topics)
        if not topics:
            return None
        topic = topics[self._entropy.below(len(topics))]
        count = len(self._own.observer.topics[topic].partitions) + 1
        if count > PARTITIONS_MAX:
            return None
        return self._spawn(f"grow {topic} to {count}", self._admin.grow_topic(topic, count))

    # Reassignments. A replica that was moved away from a dead broker stays on its disk, in Kafka too, and a
    # topic of the same name would meet it: so recreated topics only get more replicas.

    def _random_partition(self) -> TopicPartition | None:
        partitions = list(self._own.assignments())
        return partitions[self._entropy.below(len(partitions))] if partitions else None

    def _random_target(self, partition: TopicPartition) -> tuple[int, ...]:
        if partition.topic == self._topic:
            return self._some_replicas(3)
        replicas = self._own.assignments()[partition].replicas
        return tuple(dict.fromkeys((*replicas, *self._some_replicas(1))))

    async def _reassign(self) -> str | None:
        partition = self._random_partition()
        if partition is None:
            return None
        target = self._random_target(partition)
        return self._spawn(f"reassign {partition} to {target}", self._admin.reassign(partition, target))

    async def _cancel_reassignment(self) -> str | None:
        """Cancel a reassignment a while after its start."""
        partition = TopicPartition(self._topic, 0)
        target, wait_ms = self._some_replicas(3), self._entropy.below(500)

        async def cancel() -> str:
            started = await self._admin.reassign(partition, target)
            await asyncio.sleep(wait_ms / 1000)
            return f"{started}, {await self._admin.reassign(partition, None)}"

        return self._spawn(f"reassign {partition} to {target}, cancel after {wait_ms} ms", cancel())

    async def _reassign_by_node(self) -> str | None:
        partition = self._random_partition()
        if partition is None:
            return None
        target = self._random_target(partition)
        result = await self._admin.write_reassignment({partition: target})
        return f"reassign {partition} to {target} by znode: {result}"

    # Leaders.

    async def _elect_preferred(self) -> str | None:
        return self._spawn("elect preferred leaders", self._admin.elect_preferred())

    async def _elect_preferred_by_node(self) -> str | None:
        partitions = list(self._own.assignments())
        result = await self._admin.write_preferred_election(partitions)
        return f"elect preferred leaders by znode: {result}"
