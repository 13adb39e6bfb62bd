"""Our clients on a replicated cluster of real brokers, on virtual time and under a scripted controller."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from tests.support.simulation.client_fixture import client_environment

from odradek.broker.broker import Broker
from odradek.client.admin.client import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.client.values import RecordMetadata
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.records.client.consumer import ConsumerRecord
from odradek.records.client.producer import Delivery
from odradek.replication.partition import Partition
from odradek.testing.clock import VirtualLoop, run_virtually
from odradek.testing.cluster import SimulatedBroker, SimulatedCluster
from odradek.testing.controller.state import PartitionState

BROKERS = 3
CLIENT_PORT = 9093
LIMIT_S = 120.0
"""Virtual time after which a scenario waits in vain."""

SETTINGS = {
    # Clients do not see the controller: it has no endpoint of their listener, and serves none of their APIs.
    "listeners": f"PLAINTEXT://:9092,CLIENTS://:{CLIENT_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "300",
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
}
FOLLOWER_READS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
REQUEST_TIMEOUT_MS = 5_000


class RequestCounts:
    """Requests that brokers have received, by broker and API key."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int, str | None]] = Counter()
        self.on_request: Callable[[int, int, str | None], None] = lambda broker_id, api_key, client_id: None
        """Called before a request is handled."""

    def attach(self, broker: Broker, broker_id: int) -> None:
        sessions = broker._sessions
        dispatch = sessions.dispatch
        assert dispatch is not None

        def count(request: Any, session: Any) -> None:
            self._counts[broker_id, request.api_key, request.client_id] += 1
            self.on_request(broker_id, request.api_key, request.client_id)
            dispatch(request, session)

        sessions.dispatch = count

    def of(self, broker_id: int, api_key: int, client_id: str) -> int:
        """Return the requests of a client to a broker."""
        return self._counts[broker_id, api_key, client_id]


class ClientCluster:
    """A simulated cluster with clients; nothing of them may be left at the end."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.controller = cluster.controller
        self.requests = RequestCounts()
        self._clients: list[Producer | Consumer | Admin] = []

    # Clients.

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        bootstrap = ",".join(f"{broker.host}:{CLIENT_PORT}" for broker in self.cluster.brokers.values())
        environment = client_environment(self.cluster.network, self.cluster.clock)
        return {
            "bootstrap_servers": bootstrap,
            "environment": environment,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            **options,
        }

    def producer(self, **options: Any) -> Producer:
        producer = Producer(**self._options(options))
        self._clients.append(producer)
        return producer

    def consumer(self, *partitions: TopicPartition, **options: Any) -> Consumer:
        """Return a consumer of these partitions, from the earliest offset."""
        consumer = Consumer(**self._options({"auto_offset_reset": "earliest", **options}))
        if partitions:
            consumer.assign(partitions)
        self._clients.append(consumer)
        return consumer

    def admin(self, **options: Any) -> Admin:
        admin = Admin(**self._options(options))
        self._clients.append(admin)
        return admin

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    # The controller.

    async def create(self, topic: str, replicas: Sequence[Sequence[int]] = ((0, 1, 2),)) -> TopicPartition:
        """Create a topic with these replicas of each partition; return its first partition."""
        assignment = {number: tuple(members) for number, members in enumerate(replicas)}
        topic_id = self.cluster.entropy.uuid()
        await self.controller.run(lambda: self.controller.create_topic(topic, assignment, topic_id))
        for number in assignment:
            await self.until_led(TopicPartition(topic, number))
        return TopicPartition(topic, 0)

    async def create_internal_topics(self, replicas: Sequence[int] = (0, 1, 2)) -> None:
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await self.create(topic, [replicas])

    def state(self, partition: TopicPartition) -> PartitionState:
        return self.controller.state.states[partition]

    def leader(self, partition: TopicPartition) -> int:
        return self.state(partition).leader

    async def move(self, partition: TopicPartition, leader: int) -> None:
        """Elect another ISR member, and wait until it leads."""
        await self.until(lambda: leader in self.state(partition).isr)
        await self.controller.run(lambda: self.controller.move_leader(partition, leader))
        await self.until_led(partition)

    async def bump_epoch(self, partition: TopicPartition) -> None:
        await self.controller.run(lambda: self.controller.bump_leader_epoch(partition))
        await self.until_led(partition)

    # Brokers.

    def broker(self, broker_id: int) -> SimulatedBroker:
        return self.cluster.brokers[broker_id]

    async def kill(self, broker_id: int, *, power_failure: bool = False) -> None:
        """Kill a broker; the controller notices it at once."""
        await self.broker(broker_id).kill(power_failure=power_failure)
        await self.broker(broker_id).expire_session()
        await self.until(lambda: broker_id not in self.controller.state.brokers)

    async def stop(self, broker_id: int) -> None:
        await self.broker(broker_id).stop()

    async def start(self, broker_id: int) -> None:
        await self.broker(broker_id).start()
        self.attach(broker_id)
        await self.until(lambda: broker_id in self.controller.state.brokers)

    def attach(self, broker_id: int) -> None:
        broker = self.broker(broker_id).broker
        assert broker is not None
        self.requests.attach(broker, broker_id)

    def partition(self, broker_id: int, partition: TopicPartition) -> Partition:
        replica = self.find_partition(broker_id, partition)
        assert replica is not None, f"broker {broker_id} has no replica of {partition}"
        return replica

    def find_partition(self, broker_id: int, partition: TopicPartition) -> Partition | None:
        """Return a replica; None if its broker is down or has not created it yet."""
        broker = self.broker(broker_id).broker
        return None if broker is None else broker.replica_manager.get_partition(*partition)

    def leader_isr(self, partition: TopicPartition) -> set[int]:
        """Return the ISR that the leader itself knows."""
        leader_state = self.partition(self.leader(partition), partition).leader_state
        return set() if leader_state is None else set(leader_state.isr)

    # Progress.

    async def until(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Wait until a condition holds; fail after ``limit_s`` of virtual time."""
        deadline = asyncio.get_running_loop().time() + limit_s
        while not condition():
            states = self.controller.state.states
            assert asyncio.get_running_loop().time() < deadline, f"not within {limit_s} s: {states}"
            await asyncio.sleep(0.02)

    async def until_led(self, partition: TopicPartition) -> None:
        """Wait until the leader leads, in the current epoch, and all running brokers know it."""

        def is_led() -> bool:
            state = self.state(partition)
            if state.leader not in self.controller.state.brokers:
                return False
            replica = self.find_partition(state.leader, partition)
            return (replica is not None and replica.is_leader) and all(
                self._knows(running.broker, partition, state)
                for running in self.cluster.running()
                if running.broker is not None
            )

        await self.until(is_led)

    def _knows(self, broker: Broker, partition: TopicPartition, state: PartitionState) -> bool:
        known = broker.metadata_cache.partition(*partition)
        return known is not None and (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch)

    async def until_in_sync(self, *partitions: TopicPartition) -> None:
        """Wait until all replicas are in the ISR and have the same log, all of it committed."""

        def is_in_sync(partition: TopicPartition) -> bool:
            replicas = self.controller.state.replicas[partition]
            if set(self.state(partition).isr) != set(replicas):
                return False
            logs = [self.find_partition(broker_id, partition) for broker_id in replicas]
            offsets = {offset for log in logs if log for offset in (log.log_end_offset, log.high_watermark)}
            return all(logs) and len(offsets) == 1

        await self.until(lambda: all(is_in_sync(partition) for partition in partitions))


Scenario = Callable[[ClientCluster], Awaitable[None]]


def play(
    scenario: Scenario,
    settings: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
    brokers: int = BROKERS,
    racks: Sequence[str] = (),
    delay_max_ms: int = 5,
) -> None:
    """Run a scenario on a cluster of brokers 0 to ``brokers`` - 1."""

    async def main() -> None:
        cluster = SimulatedCluster(seed, brokers, {**SETTINGS, **(settings or {})}, delay_max_ms, racks)
        fixture = ClientCluster(cluster)
        failures: list[BaseException] = []
        cluster.controller.on_failure = failures.append
        await cluster.start()
        for broker_id in cluster.brokers:
            fixture.attach(broker_id)
        # The invariants of replication are the matter of tests/simulation, and unclean elections break them.
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.after_turn = None
        try:
            await fixture.until(lambda: len(cluster.controller.state.brokers) == brokers + 1)
            await scenario(fixture)
            await fixture.close()
        finally:
            await cluster.stop()
        assert failures == []

    run_virtually(main)


class Writer:
    """Sends numbers to partitions in turn, in a task of its own, until ``finish``."""

    def __init__(self, producer: Producer, *partitions: TopicPartition, interval_s: float = 0.02) -> None:
        self.sent: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
        self._producer = producer
        self._interval_s = interval_s
        self._deliveries: list[Delivery] = []
        self._is_ending = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for number in count():
            for partition, sent in self.sent.items():
                self._deliveries.append(await self._producer.send(*record_for(partition, number)))
                sent.append(number)
            await asyncio.sleep(self._interval_s)
            if self._is_ending:
                return

    async def finish(self) -> list[RecordMetadata]:
        """Stop sending; return the metadata of all records once they are acknowledged."""
        self._is_ending = True
        await self._task
        return [await delivery for delivery in self._deliveries]


def record_for(partition: TopicPartition, number: int) -> tuple[Any, ...]:
    """Return the arguments of ``send`` for a numbered record."""
    return partition.topic, b"%d" % number, None, None, partition.partition


async def write(
    fixture: ClientCluster, partition: TopicPartition, numbers: Iterable[int], **options: Any
) -> None:
    """Write numbered records with a producer of their own."""
    producer = fixture.producer(**options)
    deliveries = [await producer.send(*record_for(partition, number)) for number in numbers]
    for delivery in deliveries:
        await delivery
    await producer.close()


async def read_until(consumer: Consumer, count: int, limit_s: float = LIMIT_S) -> list[ConsumerRecord]:
    """Poll until ``count`` records were received; fail after ``limit_s`` of virtual time."""
    records: list[ConsumerRecord] = []
    deadline = asyncio.get_running_loop().time() + limit_s
    while len(records) < count:
        assert asyncio.get_running_loop().time() < deadline, f"{len(records)} of {count} records"
        records += await consumer.poll(1.0)
    return records


def numbers_of(records: Sequence[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"") for record in records]
