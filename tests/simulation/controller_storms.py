"""Storms under our own controller: faults in an order that a mistake of the controller is sensitive to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tests.simulation.admin_requests import Admin

from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.testing.cluster import SimulatedBroker
from odradek.testing.own_controller.cluster import OwnControllerCluster
from odradek.testing.own_controller.store_links import StoreLink

LAG_MAX_MS: Final = 1_500
WRITES_MAX: Final = 6
AWAY_MS: Final = 200
TURNS_MAX: Final = 500

Restart = Callable[[SimulatedBroker], Awaitable[None]]
Change = Callable[[], Awaitable[str | None]]


class ControllerStorms:
    """``kill`` ends a broker, which is started again later; ``start`` starts one that has ended.

    ``changes`` begin changes of topics, replicas and leaders.
    """

    def __init__(
        self,
        cluster: OwnControllerCluster,
        entropy: Entropy,
        admin: Admin,
        record: Callable[[str], None],
        kill: Restart,
        start: Restart,
        changes: Sequence[Change],
        recreated: Sequence[str],
        *,
        power_failures: bool,
    ) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._admin = admin
        self._record = record
        self._kill = kill
        self._start = start
        self._changes = changes
        self._recreated = recreated
        self._power_failures = power_failures
        self._storms = [
            self._former_controller_elects,
            self._bounce_unnoticed,
            self._fail_with_leader,
            self._fail_one_after_the_other,
            self._lose_election_responses,
            self._fail_between_writes,
            self._fail_between_writes,
            self._delete_while_reassigned,
            self._delete_late,
        ]

    async def run(self) -> str | None:
        storm = self._storms[self._entropy.below(len(self._storms))]
        self._record(f"storm: {storm.__name__.strip('_').replace('_', ' ')}")
        return await storm()

    async def _wait(self, max_ms: int = LAG_MAX_MS) -> None:
        await asyncio.sleep(self._entropy.below(max_ms) / 1000)

    def _live_controller(self) -> SimulatedBroker | None:
        controller = self._cluster.controller()
        return None if controller is None or controller.is_paused else controller

    def _other(self, than: SimulatedBroker | None) -> SimulatedBroker | None:
        """Return a random running broker except one."""
        others = [b for b in self._cluster.running() if b is not than and not b.is_paused]
        return others[self._entropy.below(len(others))] if others else None

    def _random_partition(self) -> TopicPartition | None:
        partitions = list(self._cluster.assignments())
        return partitions[self._entropy.below(len(partitions))] if partitions else None

    async def _existing_topic(self) -> str | None:
        """Return a topic that may be deleted; create it unless it exists."""
        topic = self._recreated[self._entropy.below(len(self._recreated))]
        if topic not in self._cluster.observer.topics:
            await self._admin.create_topic(topic, [sorted(self._cluster.brokers)[:3]])
            await self._wait()
        return topic if topic in self._cluster.observer.topics else None

    async def _former_controller_elects(self) -> str | None:
        """Let a controller that does not know of its end yet elect leaders."""
        controller, partition = self._live_controller(), self._random_partition()
        if controller is None or partition is None:
            return None
        replicas = self._cluster.assignments()[partition].replicas
        await self._admin.reassign(partition, (*replicas[1:], replicas[0]))
        await asyncio.sleep(0.2)
        link = self._cluster.links[controller.host]
        link.lag()
        await self._replace(controller)
        election = asyncio.ensure_future(self._admin.elect_preferred(controller.broker_id))
        await self._wait(300)
        link.catch_up()
        await election
        return f"{controller.host} has elected late"

    async def _bounce_unnoticed(self) -> str | None:
        """Restart a broker while the controller's events are late: it sees both lives in one change."""
        controller = self._live_controller()
        broker = self._other(controller)
        if controller is None or broker is None:
            return None
        link = self._cluster.links[controller.host]
        link.lag()
        power_failure = self._power_failures and self._entropy.below(2) == 0
        await broker.kill(power_failure=power_failure)
        await broker.expire_session()
        await self._wait(200)
        await self._start(broker)
        await self._wait()
        link.catch_up()
        return f"bounced {broker.host}{' with power failure' if power_failure else ''}"

    async def _fail_with_leader(self) -> str | None:
        """Kill the controller and the leader of a partition."""
        partition = self._random_partition()
        if partition is None:
            return None
        state = self._cluster.observer.states.get(partition)
        leader_id = NO_LEADER if state is None else state.leader
        failing = [self._live_controller(), self._cluster.brokers.get(leader_id)]
        for broker in dict.fromkeys(failing):
            if broker is not None and broker.is_running and not broker.is_paused:
                await self._kill(broker)
        return f"killed controller and leader of {partition}"

    async def _fail_one_after_the_other(self) -> str | None:
        """Kill two brokers, and the controller soon after each of them."""
        for _ in range(2):
            for broker in (self._other(self._live_controller()), self._live_controller()):
                if broker is not None and broker.is_running:
                    await self._kill(broker)
                await self._wait(500)
        return "killed up to four brokers"

    async def _lose_election_responses(self) -> str | None:
        """Force an election whose response is lost."""
        links = [link for link in self._cluster.links.values() if link.is_up]
        epoch = self._cluster.observer.controller_epoch
        self._cut_at_write(links, lambda: self._cluster.observer.controller_epoch > epoch)
        await self._admin.delete_controller()
        is_cut = await self._wait_for_cut()
        await self._wait(500)
        for link in links:
            link.reconnect()
        return "elected without a response" if is_cut else "not elected"

    def _cut_at_write(self, links: Sequence[StoreLink], is_due: Callable[[], bool]) -> None:
        """Cut links right after the next write of the controller for which a condition holds."""

        def on_controller_write() -> None:
            if is_due():
                self._cluster.observer.on_controller_write = None
                for link in links:
                    link.disconnect()

        self._cluster.observer.on_controller_write = on_controller_write

    async def _wait_for_cut(self) -> bool:
        """Wait for the write, but not for long; return whether it came."""
        observer = self._cluster.observer
        for _ in range(TURNS_MAX):
            if observer.on_controller_write is None:
                return True
            await asyncio.sleep(0.002)
        observer.on_controller_write = None
        return False

    async def _fail_between_writes(self) -> str | None:
        """Begin a change; right after one of its writes the controller is killed, replaced or cut off."""
        return await self.interrupt(self._changes, [self._kill, self._replace, self._reconnect])

    async def interrupt(self, changes: Sequence[Change], endings: Sequence[Restart]) -> str | None:
        """Begin a change; an ending follows a write of the controller whose response is lost."""
        controller = self._live_controller()
        if controller is None:
            return None
        link = self._cluster.links[controller.host]
        writes = iter(range(self._entropy.below(WRITES_MAX) + 1))
        self._cut_at_write([link], lambda: next(writes, None) is None)
        description = await changes[self._entropy.below(len(changes))]()
        if not await self._wait_for_cut():
            return description
        await endings[self._entropy.below(len(endings))](controller)
        link.reconnect()
        return f"{description}; {controller.host} failed after a write"

    async def _reconnect(self, controller: SimulatedBroker) -> None:
        await self._wait(AWAY_MS)

    async def _replace(self, controller: SimulatedBroker) -> None:
        """Let another broker be elected while the controller has no connection."""
        epoch = self._cluster.observer.controller_epoch
        await self._admin.delete_controller()
        for _ in range(TURNS_MAX):
            if self._cluster.observer.controller_epoch > epoch:
                break
            await asyncio.sleep(0.001)

    async def run_last(self, reassign: Change) -> str | None:
        """Replace the controller between two writes of a reassignment, or lose the response to an election.

        In a healthy cluster no later change of brokers repairs what the controller has forgotten.
        """
        if self._entropy.below(3) == 0:
            return await self._lose_election_responses()
        return await self.interrupt([reassign], [self._replace, self._reconnect])

    async def _delete_while_reassigned(self) -> str | None:
        """Delete a topic while a replica is added on a broker that is paused."""
        topic = await self._existing_topic()
        if topic is None:
            return None
        replicas = self._cluster.observer.topics[topic].partitions[0].replicas
        added = next((i for i in sorted(self._cluster.brokers) if i not in replicas), None)
        broker = None if added is None else self._cluster.brokers[added]
        if broker is None or not broker.is_running or broker.is_paused:
            return None
        broker.pause()
        target = (*replicas, broker.broker_id)
        requests = [asyncio.ensure_future(self._admin.reassign(TopicPartition(topic, 0), target))]
        await self._wait(300)
        requests.append(asyncio.ensure_future(self._admin.delete_topic(topic)))
        await self._wait()
        broker.resume()
        results = await asyncio.gather(*requests)
        return f"deleted {topic} while it was reassigned to {target}: {results}"

    async def _delete_late(self) -> str | None:
        """Delete a topic and create it again; a request of the former controller comes only then."""
        controller, topic = self._live_controller(), await self._existing_topic()
        if controller is None or topic is None:
            return None
        replicas = self._cluster.observer.topics[topic].partitions[0].replicas
        others = [self._cluster.brokers[i].host for i in replicas if i != controller.broker_id]
        if not others:
            return None
        network, receiver = self._cluster.network, others[self._entropy.below(len(others))]
        network.block(controller.host, receiver)
        deletion = asyncio.ensure_future(self._admin.delete_topic(topic))
        await self._wait(300)
        link = self._cluster.links[controller.host]
        link.disconnect()
        await self._replace(controller)
        link.reconnect()
        for _ in range(TURNS_MAX):
            if topic not in self._cluster.observer.topics:
                break
            await asyncio.sleep(0.01)
        created = await self._admin.create_topic(topic, [replicas])
        await self._wait()
        network.unblock(controller.host, receiver)
        return f"deleted {topic} late on {receiver}: {await deletion}, {created}"
