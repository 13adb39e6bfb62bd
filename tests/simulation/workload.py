"""Clients of a simulated cluster: producers of unique values, and consumers that read what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode
from odradek.testing.broker import Client, ConnectionEnded
from odradek.testing.clock import WALL_START_MS
from odradek.testing.cluster import PORT, ClusterOfBrokers
from odradek.testing.invariants import InvariantChecker, Violation
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, METADATA = 0, 1, 3
PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 12
ACKS_ALL, ACKS_LEADER = -1, 1
REQUEST_TIMEOUT_S = 15
PRODUCE_TIMEOUT_MS = 5_000
BATCH_RECORDS_MAX = 3
PAUSE_MAX_MS = 300

KeyOf = Callable[[TopicPartition], TopicPartition]
"""Returns the key of a partition that the invariants know."""

FAILURES = (OSError, TimeoutError, ConnectionEnded)


class ClusterClient:
    """Connections to brokers by id, and the leaders that their metadata names.

    As Kafka's clients, it ignores metadata with an older leader epoch than it has seen: a broker that the
    controller cannot reach names former leaders, perhaps itself, which lack what was committed since.
    """

    def __init__(self, cluster: ClusterOfBrokers, host: str, entropy: Entropy) -> None:
        self._cluster = cluster
        self._host = cluster.network.host(host)
        self._entropy = entropy
        self._last_seen_epochs: dict[tuple[TopicId, int], int] = {}
        self._connections: dict[int, Client] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}

    async def request(self, broker_id: int, api_key: int, version: int, message: object) -> object:
        client = self._connections.get(broker_id)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            if client is None or not client.is_open:
                client = await Client.connect(self._host, PORT, f"broker{broker_id}")
                self._connections[broker_id] = client
            try:
                return await client.request(api_key, version, message)
            except BaseException:
                # A late response must not be taken for the next one.
                client.close()
                self._connections.pop(broker_id, None)
                raise

    async def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Return leader and leader epoch, from metadata of any broker."""
        while partition not in self.leaders:
            broker_ids = sorted(self._cluster.brokers)
            broker_id = broker_ids[self._entropy.below(len(broker_ids))]
            with suppress(*FAILURES):
                await self._refresh(broker_id, partition.topic)
            if partition not in self.leaders:
                await asyncio.sleep(0.2)
        return self.leaders[partition]

    async def _refresh(self, broker_id: int, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self.request(broker_id, METADATA, METADATA_VERSION, request)
        for metadata in response.topics:  # type: ignore[attr-defined]
            for entry in self.known_leaders(metadata):
                partition = TopicPartition(topic, entry.partition_index)
                self.leaders[partition] = (entry.leader_id, entry.leader_epoch)

    def known_leaders(self, topic: MetadataResponseTopic) -> list[MetadataResponsePartition]:
        """Return the partitions of a metadata response that have a leader of no outdated epoch."""
        led = []
        for entry in topic.partitions:
            key = topic.topic_id, entry.partition_index
            is_outdated = entry.leader_epoch < self._last_seen_epochs.get(key, entry.leader_epoch)
            if (
                entry.error_code == ErrorCode.NONE
                and entry.leader_id in self._cluster.brokers
                and not is_outdated
            ):
                self._last_seen_epochs[key] = entry.leader_epoch
                led.append(entry)
        return led

    def forget_leader(self, partition: TopicPartition) -> None:
        self.leaders.pop(partition, None)


class Producer:
    """Sends unique values, one batch at a time, never twice."""

    def __init__(
        self,
        cluster: ClusterOfBrokers,
        name: str,
        partitions: Sequence[TopicPartition],
        entropy: Entropy,
        key_of: KeyOf = lambda partition: partition,
    ) -> None:
        self._cluster = cluster
        self._client = ClusterClient(cluster, f"client-{name}", entropy)
        self._name = name
        self._partitions = partitions
        self._entropy = entropy
        self._key_of = key_of
        self._sent = 0
        self.acknowledged = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._entropy.below(PAUSE_MAX_MS) / 1000)
            partition = self._partitions[self._entropy.below(len(self._partitions))]
            acks = ACKS_LEADER if self._entropy.below(4) == 0 else ACKS_ALL
            await self.produce(partition, acks)

    async def produce(self, partition: TopicPartition, acks: int = ACKS_ALL) -> bool:
        """Send one batch; return whether it was acknowledged."""
        leader, _ = await self._client.leader_of(partition)
        count = 1 + self._entropy.below(BATCH_RECORDS_MAX)
        values = [f"{self._name}-{self._sent + number}".encode() for number in range(count)]
        self._sent += count
        try:
            code, offset = await self._send(leader, partition, values, acks)
        except FAILURES:
            self._client.forget_leader(partition)
            return False
        if code != ErrorCode.NONE:
            self._client.forget_leader(partition)
            return False
        if acks == ACKS_ALL:
            self._cluster.checker.on_acknowledged(self._key_of(partition), offset, values)
            self.acknowledged += count
        return True

    async def _send(
        self, leader: int, partition: TopicPartition, values: Sequence[bytes], acks: int
    ) -> tuple[int, int]:
        builder = BatchBuilder()
        for value in values:
            builder.append(WALL_START_MS, None, value)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    partition.topic, [PartitionProduceData(partition.partition, builder.build())]
                )
            ],
        )
        response = await self._client.request(leader, PRODUCE, PRODUCE_VERSION, request)
        result = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        return result.error_code, result.base_offset


class Consumer:
    """Reads one partition from its leader, in order, and reports every value."""

    def __init__(
        self,
        cluster: ClusterOfBrokers,
        partition: TopicPartition,
        entropy: Entropy,
        number: int,
        key_of: KeyOf = lambda partition: partition,
    ) -> None:
        self._client = ClusterClient(cluster, f"consumer-{number}", entropy)
        self._checker: InvariantChecker = cluster.checker
        self._partition = partition
        self._key_of = key_of
        self.position = 0

    @property
    def key(self) -> TopicPartition:
        return self._key_of(self._partition)

    async def run(self) -> None:
        while True:
            try:
                await self._poll()
            except FAILURES:
                self._client.forget_leader(self._partition)
                await asyncio.sleep(0.1)

    async def _poll(self) -> None:
        leader, epoch = await self._client.leader_of(self._partition)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=self._partition.topic,
                    partitions=[
                        FetchPartition(
                            partition=self._partition.partition,
                            current_leader_epoch=epoch,
                            fetch_offset=self.position,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        response = await self._client.request(leader, FETCH, FETCH_VERSION, request)
        result = response.responses[0].partitions[0]  # type: ignore[attr-defined]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation("poll-skip", f"{self._partition} has no offset {self.position} any more")
        if result.error_code != ErrorCode.NONE:
            self._client.forget_leader(self._partition)
            await asyncio.sleep(0.1)
            return
        for record in decode(bytes(result.records or b"")):
            if record.offset >= self.position:
                self._checker.on_read(self.key, record.offset, bytes(record.value or b""))
                self.position = record.offset + 1
