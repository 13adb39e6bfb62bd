"""One simulation of a cluster under our own controller: brokers elect it, and every part of it may fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from tests.simulation.admin_requests import Admin
from tests.simulation.controller_faults import ControllerFaults
from tests.simulation.faults import BrokerFaults
from tests.simulation.recreated_topics import RecreatedTopicsClient
from tests.simulation.simulate import (
    RECOVERY_S,
    TOPIC,
    Result,
    Simulation,
    SimulationFailed,
    less_overhead,
    turns_of,
)
from tests.simulation.workload import Consumer, Producer

from odradek.log.log import Log
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.store.layout import znode_paths
from odradek.testing.clock import Deadlock, run_virtually
from odradek.testing.cluster import DIRECTORY, ClusterOfBrokers
from odradek.testing.entropy import SeededEntropy
from odradek.testing.invariants import Violation
from odradek.testing.own_controller.cluster import OwnControllerCluster

FAULTS = 15
BROKERS = 4
AVAILABLE_S = 20.0
"""Time until there are leaders after the last fault: sessions are renewed, and a controller is elected."""
UNCLEAN_SEEDS = 10
"""One of so many seeds has unclean elections."""
RECREATED = ("recreated-0", "recreated-1")
SETTINGS = {
    "log.dirs": f"{DIRECTORY},{DIRECTORY}-2",
    "auto.create.topics.enable": "false",
    "file.delete.delay.ms": "1000",
    "leader.imbalance.check.interval.seconds": "10",
    "replica.fetch.wait.max.ms": "500",
}


def simulate_controller(seed: int, brokers: int = BROKERS, faults: int = FAULTS) -> Result:
    """Run one simulation; raise ``SimulationFailed`` if an invariant is violated."""
    results: list[Result] = []

    async def run() -> None:
        results.append(await ControllerSimulation(seed, brokers, faults).run())

    with less_overhead(), turns_of(seed):
        try:
            run_virtually(run)
        except Deadlock as deadlock:
            # A task that a process has started while it was killed cannot end, and the loop cannot be closed.
            if isinstance(deadlock.__context__, SimulationFailed):
                raise deadlock.__context__ from None
            if not results:
                raise
    return results[0]


class ControllerSimulation(Simulation):
    _cluster: OwnControllerCluster
    _faults: ControllerFaults

    @property
    def _is_unclean(self) -> bool:
        """Return whether leaders outside the ISR may be elected; clients then only write."""
        return self._seed % UNCLEAN_SEEDS == 0

    def _make_cluster(
        self, seed: int, brokers: int, settings: Mapping[str, str], disk_delay_max_ms: int
    ) -> ClusterOfBrokers:
        is_balanced = "true" if self._entropy.below(2) else "false"
        own = {**settings, **SETTINGS, "auto.leader.rebalance.enable": is_balanced}
        if self._is_unclean:
            own["unclean.leader.election.enable"] = "true"
        return OwnControllerCluster(seed, brokers, own, disk_delay_max_ms=disk_delay_max_ms)

    def _make_faults(self, entropy: Entropy, *, power_failures: bool) -> BrokerFaults:
        return ControllerFaults(
            self._cluster, entropy, power_failures=power_failures, topic=TOPIC, recreated=RECREATED
        )

    # The scenario.

    async def _scenario(self) -> None:
        self._admin = Admin(self._cluster, self._draw_entropy(), "admin-of-scenario")
        self._partitions: list[TopicPartition] = []
        self._consumers: list[Consumer] = []
        self._clients: list[asyncio.Future[None]] = []
        await self._create_topic()
        producers = self._start_clients()
        await self._faults.run(self._fault_count)
        if self._entropy.below(3) == 0:
            await self._faults.repair_all_but_dead()
            await self._wait_for_leaders()
        if self._entropy.below(2):
            for client in producers:
                client.cancel()
        await self._faults.repair()
        await self._recover()
        await self._faults.run_last()
        await self._recover()
        self._follow_growth()
        await self._produce_to_all(self._partitions)
        for client in producers:
            client.cancel()
        await self._wait_for(lambda: not self._problems() and self._is_replicated(), "equal replicas")
        checker = self._cluster.checker
        await self._wait_for(
            lambda: all(c.position >= checker.committed_end(c.key) for c in self._consumers),
            "consumers at the end",
        )
        await self._elect_preferred()
        for client in self._clients:
            client.cancel()
        checker.check()
        checker.check_final(self._logs())

    def _draw_entropy(self) -> SeededEntropy:
        return SeededEntropy(self._entropy.below(1 << 30))

    async def _create_topic(self) -> None:
        """Create the topic that stays. The first requests may come before the first election."""
        ids = sorted(self._cluster.brokers)
        factor = min(3, len(ids))
        assignment = [[ids[(number + r) % len(ids)] for r in range(factor)] for number in range(2)]
        deadline = asyncio.get_running_loop().time() + RECOVERY_S
        while TOPIC not in self._cluster.observer.topics:
            await self._admin.create_topic(TOPIC, assignment)
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("not-recovered", f"no controller creates topic {TOPIC}")
            await asyncio.sleep(0.2)
        await self._wait_for(lambda: not self._problems(), "start")

    def _start_clients(self) -> list[asyncio.Future[None]]:
        """Start all clients; return the producers."""
        key_of = self._key_of
        producers = [
            self._start_client(
                Producer(self._cluster, f"p{n}", self._partitions, self._draw_entropy(), key_of).run
            )
            for n in range(3)
        ]
        if self._is_unclean:
            self._follow_growth()
            return producers
        recreated = RecreatedTopicsClient(self._cluster, RECREATED, self._draw_entropy())
        producers.append(self._start_client(recreated.run))
        self._follow_growth()
        self._start_client(self._follow_growth_for_ever)
        return producers

    def _start_client(self, run: Callable[[], Coroutine[None, None, None]]) -> asyncio.Future[None]:
        client: asyncio.Future[None] = asyncio.ensure_future(run())
        client.add_done_callback(self._on_client_done)
        self._clients.append(client)
        return client

    async def _follow_growth_for_ever(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._follow_growth()

    def _follow_growth(self) -> None:
        """Use new partitions of the topic that stays."""
        for number in sorted(self._cluster.observer.topics[TOPIC].partitions):
            partition = TopicPartition(TOPIC, number)
            if partition not in self._partitions:
                self._partitions.append(partition)
                if self._is_unclean:
                    continue
                entropy = self._draw_entropy()
                consumer = Consumer(self._cluster, partition, entropy, number, self._key_of)
                self._consumers.append(consumer)
                self._start_client(consumer.run)

    def _key_of(self, partition: TopicPartition) -> TopicPartition:
        return self._cluster.observer.key(*partition)

    # Recovery.

    async def _wait_for_leaders(self) -> None:
        """Every partition with a live in-sync replica has a live leader soon, although brokers are down."""
        deadline = asyncio.get_running_loop().time() + AVAILABLE_S
        while (unavailable := self._unavailable_partition()) is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("unavailable", f"{unavailable} after {AVAILABLE_S} s")
            await asyncio.sleep(0.1)

    def _unavailable_partition(self) -> str | None:
        live = self._faults.live_brokers()
        running = {broker.broker_id for broker in self._cluster.running()}
        observer = self._cluster.observer
        for partition in self._cluster.assignments():
            state = observer.states.get(partition)
            if partition.topic in observer.marked or state is None:
                continue
            if state.leader not in running and live.intersection(state.isr):
                return f"{partition}: {state}, live {sorted(live)}"
        return None

    async def _recover(self) -> None:
        deadline = asyncio.get_running_loop().time() + RECOVERY_S
        while problems := self._problems():
            if asyncio.get_running_loop().time() > deadline:
                name, detail = next(iter(problems.items()))
                raise Violation(name, f"{detail} after {RECOVERY_S} s: {problems}; {self._describe()}")
            await asyncio.sleep(0.1)

    def _problems(self) -> dict[str, str]:
        """Return what is not as it must be in a healthy cluster, by the name of the violation."""
        cluster = self._cluster
        problems: dict[str, str] = {}
        nodes = cluster.ensemble.tree
        marks = nodes.names_under(znode_paths.DELETE_TOPICS)
        if cluster.controller() is None:
            problems["no-controller"] = "no broker is the controller"
        elif (unaware := self._unaware_of_controller()) is not None:
            problems["no-controller"] = f"broker {unaware} has not heard of the controller"
        if marks:
            problems["deletion-stuck"] = f"marks {sorted(marks)}"
        for path in (znode_paths.REASSIGN_PARTITIONS, znode_paths.PREFERRED_REPLICA_ELECTION):
            if path in nodes.nodes:
                problems["request-stuck"] = path
        for topic in nodes.names_under(znode_paths.TOPICS):
            if topic not in cluster.observer.topics:
                problems["unknown-topic"] = topic
        problems |= self._problems_of_partitions()
        # The directories are listed last: that takes longer than everything else.
        if not problems and (left := self._left_on_disk()) is not None:
            problems["deleted-topic-on-disk"] = left
        return problems

    def _problems_of_partitions(self) -> dict[str, str]:
        cluster = self._cluster
        problems: dict[str, str] = {}
        for partition, assignment in cluster.assignments().items():
            state = cluster.observer.states.get(partition)
            if assignment.adding or assignment.removing:
                problems["reassignment-stuck"] = f"{partition}: {assignment}"
            elif state is None or state.leader == NO_LEADER:
                problems["no-leader"] = f"{partition}: {state}"
            elif set(state.isr) != set(assignment.replicas):
                problems["not-recovered"] = f"{partition}: {state}, replicas {assignment.replicas}"
            elif (unaware := self._unaware(partition, state.leader, state.leader_epoch)) is not None:
                problems["metadata-outdated"] = f"{partition}: {state}, broker {unaware}"
        return problems

    def _unaware(self, partition: TopicPartition, leader: int, leader_epoch: int) -> int | None:
        """Return a broker whose metadata does not have a partition's leader and epoch."""
        for broker in self._cluster.brokers.values():
            assert broker.broker is not None
            cached = broker.broker.metadata_cache.partition(*partition)
            if cached is None or (cached.leader, cached.leader_epoch) != (leader, leader_epoch):
                return broker.broker_id
        return None

    def _unaware_of_controller(self) -> int | None:
        """Return a broker to which the elected controller has sent nothing."""
        controller_id = self._cluster.controller_id()
        for broker in self._cluster.brokers.values():
            assert broker.broker is not None
            if broker.broker.metadata_cache.controller_id != controller_id:
                return broker.broker_id
        return None

    def _left_on_disk(self) -> str | None:
        """Return a directory, or a broker's metadata, of a topic that was deleted."""
        topics = self._cluster.observer.topics
        for broker in self._cluster.brokers.values():
            assert broker.broker is not None
            names = [n for d in broker.directories for n in broker.files.list_names(d)]
            for name in names:
                if name.startswith(RECREATED) and (
                    name.endswith("-delete") or name.rpartition("-")[0] not in topics
                ):
                    return f"{broker.host}: {name}"
            for name in RECREATED:
                if name not in topics and broker.broker.metadata_cache.topic(name) is not None:
                    return f"{broker.host} knows {name}"
        return None

    async def _elect_preferred(self) -> None:
        """Every preferred leader can be elected."""
        deadline = asyncio.get_running_loop().time() + RECOVERY_S
        while moved := [
            partition
            for partition, assignment in self._cluster.assignments().items()
            if self._cluster.observer.states[partition].leader != assignment.replicas[0]
        ]:
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("preferred-leader-not-elected", f"{moved}: {self._describe()}")
            await self._admin.elect_preferred()
            await asyncio.sleep(0.2)

    # State.

    def _stored_states(self) -> Mapping[TopicPartition, object]:
        return self._cluster.observer.states

    def _logs(self) -> dict[TopicPartition, list[tuple[int, Log]]]:
        """Return the logs of assigned replicas, by the keys of their partitions."""
        logs: dict[TopicPartition, list[tuple[int, Log]]] = {}
        assignments = self._cluster.assignments()
        for broker in self._cluster.running():
            assert broker.broker is not None
            for partition in broker.broker.replica_manager:
                assignment = assignments.get(partition.topic_partition)
                if assignment is not None and broker.broker_id in assignment.replicas:
                    key = self._cluster.key_of(partition)
                    logs.setdefault(key, []).append((broker.broker_id, partition.log))
        return logs
