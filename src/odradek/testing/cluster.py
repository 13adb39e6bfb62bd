"""A cluster of brokers on one virtual clock: each with a host, crash-faithful files and a store session.

``SimulatedCluster`` runs real brokers under a ``ScriptedController``, over a network that delays and
partitions, with one shared store; ``own_controller`` has brokers that elect a controller among themselves.
Everything random comes from one seed, so a run can be repeated exactly.
Brokers stop cleanly, are killed (the process alone, or with a power failure that loses unsynced writes),
paused, cut off, lose their store session, or get a step of their wall clock.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from zlib import crc32

from odradek.broker.broker import Broker
from odradek.broker.environment import Environment
from odradek.model.ids import TopicPartition
from odradek.replication.replica_manager import ReplicaManager
from odradek.store.embedded.ensemble import EmbeddedEnsemble, EmbeddedStore
from odradek.testing.broker import STORE_ADDRESS, DelayedEnsemble
from odradek.testing.clock import Process, VirtualClock, VirtualLoop
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.invariants import Incarnation, InvariantChecker, Violation
from odradek.testing.linked_store import LinkedStore
from odradek.testing.network import MemoryNetwork
from odradek.testing.scripted_controller import CONTROLLER_HOST, ScriptedController
from odradek.testing.workers import InlineWorkers

DIRECTORY: Final = "/data"
PORT: Final = 9092


class BrokerSessions:
    """The store sessions of one broker process; their callbacks are part of it."""

    def __init__(self, ensemble: EmbeddedEnsemble, process: Process) -> None:
        self._ensemble = ensemble
        self._process = process
        self.sessions: list[EmbeddedStore | LinkedStore] = []
        self.defers_writes = False

    async def open_session(self) -> EmbeddedStore | LinkedStore:
        session = self._ensemble.connect(self._call_soon)
        self.sessions.append(session)
        return session

    def _call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback, context=self._process.context)

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()

    async def expire(self) -> None:
        for session in list(self.sessions):
            await self._ensemble.expire(session.session_id)


class SimulatedBroker:
    """A broker and the host it runs on, over all its incarnations."""

    def __init__(self, cluster: ClusterOfBrokers, broker_id: int, settings: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.host = f"broker{broker_id}"
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.incarnation = 0
        self.broker: Broker | None = None
        self._is_stopping = False
        self._cluster = cluster
        self._process = Process(self.host)
        self._store = cluster.make_sessions(self.host, self._process)
        self._settings = {
            "broker.id": str(broker_id),
            "log.dirs": DIRECTORY,
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "zookeeper.connect": STORE_ADDRESS,
            **settings,
        }
        self.directories = self._settings["log.dirs"].split(",")
        for directory in self.directories:
            self.files.make_directories(directory)
        self.files.sync_dir("/")

    @property
    def replicas(self) -> ReplicaManager | None:
        return None if self.broker is None else self.broker.replica_manager

    @property
    def is_running(self) -> bool:
        return self.broker is not None and not self._is_stopping

    @property
    def is_paused(self) -> bool:
        return self._process.is_paused

    @property
    def process(self) -> Process:
        return self._process

    async def start(self) -> None:
        """Start a new incarnation. The store session of the last one must have ended."""
        assert self.broker is None, f"{self.host} runs already"
        self.incarnation += 1
        self._is_stopping = False
        self._process = Process(f"{self.host}.{self.incarnation}")
        self._store = self._cluster.make_sessions(self.host, self._process)
        broker = Broker(self._settings, self._environment())
        try:
            await self._process.run(broker.start())
        except BaseException:
            await self._end_process()
            raise
        self._set_broker(broker)

    def _environment(self) -> Environment:
        cluster = self._cluster
        return Environment(
            clock=self.clock,
            entropy=SeededEntropy(cluster.entropy.below(1 << 30)),
            files=self.files,
            network=cluster.network.host(self.host),
            host_name=lambda: self.host,
            open_store=lambda path: self._store,
            workers=InlineWorkers(),
        )

    async def stop(self) -> None:
        """Stop cleanly."""
        if self.broker is not None and not self._is_stopping:
            self._is_stopping = True
            await self._process.run(self.broker.stop())
            self._set_broker(None)
            await self._end_process()

    async def kill(self, *, power_failure: bool = False) -> None:
        """End the process at once. Its store session stays until it expires."""
        self._set_broker(None)
        self._cluster.network.reset_all(self.host)
        if power_failure:
            self.files.crash(self._cluster.entropy)
        await self._end_process()

    def _set_broker(self, broker: Broker | None) -> None:
        self.broker = broker
        self._cluster.incarnations_changed()

    async def _end_process(self) -> None:
        self.files.end_process()
        self._cluster.network.reset_all(self.host)
        await self._process.kill()

    async def expire_session(self) -> None:
        """Expire the store session, as ZooKeeper does after ``zookeeper.session.timeout.ms``."""
        await self._store.expire()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()


def _draw_delay_s(entropy: SeededEntropy, max_ms: int) -> float:
    return entropy.below(max_ms + 1) / 1000


def _raise(violation: Violation) -> None:
    raise violation


class ClusterOfBrokers:
    """Brokers, their network and store. Created on a running virtual loop."""

    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        delay_max_ms: int = 20,
        racks: Sequence[str] = (),
        disk_delay_max_ms: int = 0,
    ) -> None:
        """``racks`` has the rack of each broker, by its id. Syncs take up to ``disk_delay_max_ms``."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "a simulation runs on virtual time"
        self.settings = settings or {}
        self.entropy = SeededEntropy(seed)
        self.clock = VirtualClock(loop)
        self.network = MemoryNetwork(SeededEntropy(self.entropy.below(1 << 30)), delay_max_ms=delay_max_ms)
        self.ensemble = self._make_ensemble(SeededEntropy(self.entropy.below(1 << 30)))
        self._prepare()
        self.brokers = {
            broker_id: SimulatedBroker(
                self,
                broker_id,
                {**self.settings, **({"broker.rack": racks[broker_id]} if racks else {})},
            )
            for broker_id in range(brokers)
        }
        if disk_delay_max_ms:
            for broker in self.brokers.values():
                entropy = SeededEntropy(self.entropy.below(1 << 30))
                broker.files.draw_delay_s = partial(_draw_delay_s, entropy, disk_delay_max_ms)
        self._incarnations: list[Incarnation] = []
        self._checked_version: object = None
        """``_stored_version`` at the last check; None if all brokers are to be checked."""
        self._min_isr = int(self.settings.get("min.insync.replicas", "1"))
        self.checker = self._make_checker()
        self.on_violation: Callable[[Violation], None] = _raise
        """Called with the first violation, after which nothing is checked."""
        self._turn_times = array("d")
        self._digest = 0
        self._loop = loop

    # Differences between clusters.

    def _make_ensemble(self, entropy: SeededEntropy) -> DelayedEnsemble:
        return DelayedEnsemble(self.clock, entropy)

    def _prepare(self) -> None:
        """Make what the brokers need, before they are made."""

    def _make_checker(self) -> InvariantChecker:
        raise NotImplementedError

    def make_sessions(self, host: str, process: Process) -> BrokerSessions:
        """Return the store sessions of a broker process."""
        return BrokerSessions(self.ensemble, process)

    # Life cycle.

    async def start(self) -> None:
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))
        self._loop.after_turn = self._check

    def _check(self) -> None:
        self._turn_times.append(self._loop.time())
        try:
            self.checker.check()
        except Violation as violation:
            self.report(violation)

    @property
    def digest(self) -> int:
        """Checksum of the times of all turns of the loop: equal runs have equal ones."""
        self._digest = crc32(self._turn_times, self._digest)
        del self._turn_times[:]
        return self._digest

    def report(self, violation: Violation) -> None:
        """Report a violation, and check nothing from now on."""
        self._loop.after_turn = None
        self.on_violation(violation)

    async def stop(self) -> None:
        self._loop.after_turn = None
        self.network.heal()
        for broker in self.brokers.values():
            if broker.is_paused:
                broker.resume()
            await broker.kill()
        await self._stop_controller()
        await self.ensemble.close()

    async def _stop_controller(self) -> None:
        """Stop a controller that is no broker."""

    def running(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    def current_incarnations(self) -> Sequence[Incarnation]:
        """Return the brokers that have run since the last call; all of them if stored states have changed."""
        ran = self._loop.ran
        stored = self._stored_version()
        if stored != self._checked_version:
            self._checked_version = stored
            ran.clear()
            return self._incarnations
        if not ran:
            return ()
        brokers = self.brokers
        incarnations = [i for i in self._incarnations if brokers[i.broker_id].process in ran]
        ran.clear()
        return incarnations

    def _stored_version(self) -> object:
        """Return something that changes with the states in the store."""
        raise NotImplementedError

    def incarnations_changed(self) -> None:
        """Note that a broker process began or ended."""
        self._checked_version = None
        self._incarnations = [
            Incarnation(broker.broker_id, broker.incarnation, replicas, replicas.state_changes)
            for broker in self.brokers.values()
            if (replicas := broker.replicas) is not None
        ]


class SimulatedCluster(ClusterOfBrokers):
    """A cluster under a ``ScriptedController``."""

    def _prepare(self) -> None:
        self.controller = ScriptedController(
            self.ensemble.connect(),
            self.network.host(CONTROLLER_HOST),
            SeededEntropy(self.entropy.below(1 << 30)),
        )

    def _make_checker(self) -> InvariantChecker:
        return InvariantChecker(self.current_incarnations, self.controller.state.states.get, self._copies_min)

    def _stored_version(self) -> object:
        return list(self.controller.state.states.values())

    async def start(self) -> None:
        await self.controller.start()
        await super().start()

    async def _stop_controller(self) -> None:
        await self.controller.stop()

    async def create_topic(self, name: str, partitions: int, replication_factor: int) -> None:
        """Create a topic with replicas on consecutive brokers."""
        ids = sorted(self.brokers)
        assignment = {
            number: tuple(ids[(number + replica) % len(ids)] for replica in range(replication_factor))
            for number in range(partitions)
        }
        topic_id = self.entropy.uuid()
        await self.controller.run(lambda: self.controller.create_topic(name, assignment, topic_id))

    def partitions(self) -> list[TopicPartition]:
        return sorted(self.controller.state.states)

    def _copies_min(self, partition: TopicPartition) -> int:
        return min(self._min_isr, len(self.controller.state.replicas[partition]))
