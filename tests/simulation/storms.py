"""Storms: faults of a simulated cluster in an order that mistakes of replication are sensitive to.

Each takes a partition and its replicas and lasts a few seconds. Random waits, and choices of what comes next,
make every run of a storm another schedule. A storm may be overtaken by what else happens in the cluster: it
then does nothing worse than random faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.testing.cluster import SimulatedBroker, SimulatedCluster
from odradek.testing.controller.state import PartitionState
from odradek.testing.invariants import Violation

LAG_TIME_MAX_S = 3.0
"""``replica.lag.time.max.ms`` of the simulation."""
SHRINK_S = 9.0
"""Time in which a leader removes a follower that is cut off: twice its lag and check interval."""
CONNECTION_SETUP_S = 45.0
"""Time in which a connection attempt to the controller that began under an earlier fault has failed."""
JOIN_S = 2.0
ELECTION_S = 8.0
"""Time in which the session of a killed leader has expired."""
POLL_S = 0.1
FAST_POLL_S = 0.002


class Target(NamedTuple):
    """A partition, its leader and two followers, all of them running and in touch with the controller."""

    partition: TopicPartition
    leader: SimulatedBroker
    follower: SimulatedBroker
    other: SimulatedBroker


class Storms:
    """``kill`` ends a broker that starts again later."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        entropy: Entropy,
        record: Callable[[str], None],
        kill: Callable[[SimulatedBroker], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._controller = cluster.controller
        self._entropy = entropy
        self._record = record
        self._kill = kill
        self.all = [
            self.delay_isr_response,
            self.delay_isr_response,
            self.elect_with_old_high_watermark,
            self.miss_an_epoch,
            self.elect_in_turn,
            self.fail_all,
        ]

    async def run(self) -> str | None:
        """Run a random storm; return its description, or None if it does not apply now."""
        storm = self.all[self._entropy.below(len(self.all))]
        try:
            return await storm()
        finally:
            self._controller.release_responses()
            self._controller.release_requests()

    # The storms.

    async def delay_isr_response(self) -> str | None:
        """Store an ISR change whose response is late; then the new member, or the leader, has a fault."""
        target = self._target()
        if target is None:
            return None
        partition, leader, follower, other = target
        self._record(f"storm: late response for {partition}, {leader.host}, {follower.host} joins")
        self._cut(leader, follower)
        if not await self._shrinks(target):
            return "ISR not shrunk"
        if self._entropy.below(2):
            await self._controller.run(lambda: self._controller.bump_leader_epoch(partition))
        self._controller.hold_responses()
        self._uncut(leader, follower)
        if not await self._until(lambda: follower.broker_id in self._stored(partition).isr, JOIN_S):
            return "nothing joined"
        choice = self._entropy.below(5)
        if choice == 0:
            self._cut(leader, follower)
        elif choice == 1:
            follower.pause()
        elif choice == 2:
            self._controller.replay_latest(leader.broker_id, 2)
        elif choice == 3:
            await self._move_unnoticed(target)
        else:
            await self._kill(self._one_of([leader, follower, other]))
        await self._sleep(1_000, int(LAG_TIME_MAX_S * 1000) + 3_000)
        if follower.is_paused:
            follower.resume()
        self._network.heal()
        return f"response was late, then {choice}"

    async def _move_unnoticed(self, target: Target) -> None:
        """Elect the new member; leader and other follower do not know, and the change is fenced."""
        partition, leader, follower, other = target
        self._cut(leader, follower)
        self._controller.hold_requests(leader.broker_id)
        self._controller.hold_requests(other.broker_id)
        await self._move(partition, follower)
        for connection in list(self._network.connections):
            if connection.host == leader.host and connection.peer_host == "controller":
                connection.reset()
        self._controller.release_responses()

    async def elect_with_old_high_watermark(self) -> str | None:
        """Elect a follower that has not heard of the last commit, while one outside the ISR wants to join."""
        target = self._target()
        if target is None or len(self._stored(target.partition).isr) < 3:
            return None
        partition, leader, follower, other = target
        self._record(f"storm: old high watermark for {partition}, {leader.host}, {follower.host} is behind")
        self._cut(leader, follower)
        await self._sleep(1_500, 3_500)
        self._network.block(leader.host, other.host)
        if not await self._shrinks(target):
            return "ISR not shrunk"
        await self._sleep(0, 400)
        if self._entropy.below(3):
            await self._move(partition, other)
        else:
            await self._kill(leader)
        self._uncut(leader, follower)
        await self._until(lambda: self._stored(partition).leader == other.broker_id, ELECTION_S)
        if await self._until(lambda: self._is_isr_change_pending(target), JOIN_S, FAST_POLL_S):
            # The follower joins with what it has now.
            self._network.block(other.host, follower.host)
        await self._sleep(500, 2_000)
        self._network.heal()
        return "old high watermark"

    async def miss_an_epoch(self) -> str | None:
        """Lead, miss an epoch in which a follower truncates, lead again; a fetch of then arrives late."""
        target = self._target()
        if target is None or len(self._stored(target.partition).isr) < 3:
            return None
        partition, leader, follower, other = target
        self._record(f"storm: missed epoch of {partition}, {leader.host}, {other.host} leads in between")
        self._cut(leader, other)
        await self._sleep(200, 900)
        self._network.block(follower.host, leader.host)
        self._controller.hold_requests(leader.broker_id)
        await self._sleep(0, 300)
        await self._move(partition, other)
        await self._sleep(100, 800)
        await self._move(partition, leader)
        if self._entropy.below(3):
            await self._controller.run(self._controller.fail_over)
        self._controller.release_requests()
        self._uncut(leader, other)
        await self._sleep(100, 900)
        self._network.unblock(follower.host, leader.host)
        await self._sleep(100, 900)
        self._network.heal()
        return "missed epoch"

    async def elect_in_turn(self) -> str | None:
        """Elect one replica after the other while none hears of the others: each has records of its own."""
        target = self._target()
        if target is None:
            return None
        partition, *brokers = target
        self._record(f"storm: elections of {partition} in turn")
        for first, second in ((0, 1), (1, 2), (2, 0)):
            self._cut(brokers[first], brokers[second])
        for broker in (brokers[1], brokers[2], brokers[0])[: 2 + self._entropy.below(2)]:
            await self._sleep(100, 600)
            await self._move(partition, broker)
        await self._sleep(100, 600)
        if self._entropy.below(2):
            await self._kill(self._one_of(brokers))
        self._network.heal()
        return "elected in turn"

    async def fail_all(self) -> str | None:
        """Kill all brokers within a second."""
        running = self._cluster.running()
        self._record("storm: all brokers fail")
        while running:
            broker = running.pop(self._entropy.below(len(running)))
            if broker.is_running:
                await self._kill(broker)
            await self._sleep(0, 400)
        return "all brokers failed"

    # Steps.

    def _target(self) -> Target | None:
        """Return a random partition whose replicas all run, after healing the network."""
        controller = self._controller.state
        candidates = [
            (partition, state)
            for partition, state in sorted(controller.states.items())
            if len(controller.replicas[partition]) >= 3
            and len(state.isr) >= 2
            and state.leader in controller.brokers
            and all(self._is_healthy(broker_id) for broker_id in controller.replicas[partition])
        ]
        if not candidates:
            return None
        self._network.heal()
        partition, state = candidates[self._entropy.below(len(candidates))]
        followers = [member for member in controller.replicas[partition] if member != state.leader]
        if self._entropy.below(2):
            followers.reverse()
        brokers = self._cluster.brokers
        return Target(partition, brokers[state.leader], brokers[followers[0]], brokers[followers[1]])

    def _is_healthy(self, broker_id: int) -> bool:
        broker = self._cluster.brokers[broker_id]
        return broker.is_running and not broker.is_paused and broker_id in self._controller.state.brokers

    def _stored(self, partition: TopicPartition) -> PartitionState:
        return self._controller.state.states[partition]

    async def _shrinks(self, target: Target) -> bool:
        """Wait until the follower has left the stored ISR; a leader that could have removed it must have."""
        partition, leader, follower, _ = target
        epoch = self._stored(partition).leader_epoch
        if await self._until(lambda: follower.broker_id not in self._stored(partition).isr, SHRINK_S):
            return True
        if not self._could_shrink(target, epoch):
            return False
        if await self._until(lambda: not self._could_shrink(target, epoch), CONNECTION_SETUP_S):
            return follower.broker_id not in self._stored(partition).isr
        raise Violation(
            "isr-not-shrunk",
            f"{partition}: {follower.host} is cut off from {leader.host} for {CONNECTION_SETUP_S} s; "
            f"{self._stored(partition)}",
        )

    def _could_shrink(self, target: Target, leader_epoch: int) -> bool:
        """Return whether the leader still leads, has the follower in its ISR, and could remove it."""
        state = self._stored(target.partition)
        return (
            (state.leader, state.leader_epoch) == (target.leader.broker_id, leader_epoch)
            and target.follower.broker_id in state.isr
            and all(
                self._is_healthy(member) and member not in self._controller.state.shutting_down
                for member in state.isr
            )
        )

    def _is_isr_change_pending(self, target: Target) -> bool:
        """Return whether the other follower leads by now and proposes an ISR."""
        replicas = target.other.replicas
        partition = None if replicas is None else replicas.get_partition(*target.partition)
        leader = None if partition is None else partition.leader_state
        return leader is not None and leader.is_isr_change_pending

    async def _until(self, condition: Callable[[], bool], timeout_s: float, poll_s: float = POLL_S) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(poll_s)
        return True

    async def _sleep(self, shortest_ms: int, longest_ms: int) -> None:
        await asyncio.sleep((shortest_ms + self._entropy.below(longest_ms - shortest_ms + 1)) / 1000)

    async def _move(self, partition: TopicPartition, leader: SimulatedBroker) -> None:
        await self._controller.run(lambda: self._controller.move_leader(partition, leader.broker_id))

    def _cut(self, first: SimulatedBroker, other: SimulatedBroker) -> None:
        self._network.partition(first.host, other.host)

    def _uncut(self, first: SimulatedBroker, other: SimulatedBroker) -> None:
        self._network.unblock(first.host, other.host)
        self._network.unblock(other.host, first.host)

    def _one_of(self, brokers: Sequence[SimulatedBroker]) -> SimulatedBroker:
        return brokers[self._entropy.below(len(brokers))]
