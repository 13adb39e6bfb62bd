"""Clients of topics that are deleted and created again: none may see a record of a former topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.simulation.workload import (
    ACKS_ALL,
    FAILURES,
    FETCH,
    METADATA,
    METADATA_VERSION,
    PRODUCE,
    PRODUCE_TIMEOUT_MS,
    PRODUCE_VERSION,
    ClusterClient,
)

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId
from odradek.ports.entropy import Entropy
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode
from odradek.testing.clock import WALL_START_MS
from odradek.testing.invariants import Violation
from odradek.testing.own_controller.cluster import OwnControllerCluster
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FETCH_BY_ID_VERSION = 13
PAUSE_MAX_MS = 400


class RecreatedTopicsClient:
    """Produces to topics by name and reads them by id, as Metadata names them at the moment."""

    def __init__(self, cluster: OwnControllerCluster, topics: Sequence[str], entropy: Entropy) -> None:
        self._cluster = cluster
        self._client = ClusterClient(cluster, "client-recreated", entropy)
        self._topics = topics
        self._entropy = entropy
        self._sent = 0
        self._positions: dict[tuple[TopicId, int], int] = {}
        self._topic_of_value: dict[bytes, TopicId] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._entropy.below(PAUSE_MAX_MS) / 1000)
            try:
                await self._use(self._topics[self._entropy.below(len(self._topics))])
            except FAILURES:
                continue

    async def _use(self, name: str) -> None:
        broker_ids = sorted(self._cluster.brokers)
        broker_id = broker_ids[self._entropy.below(len(broker_ids))]
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        response: Any = await self._client.request(broker_id, METADATA, METADATA_VERSION, request)
        topic = response.topics[0]
        led = self._client.known_leaders(topic)
        if topic.error_code or not led:
            return
        partition = led[self._entropy.below(len(led))]
        if self._entropy.below(2):
            await self._produce(name, topic.topic_id, partition.partition_index, partition.leader_id)
        else:
            await self._read(name, topic.topic_id, partition)

    def _stored_id(self, name: str) -> TopicId | None:
        topic = self._cluster.observer.topics.get(name)
        return None if topic is None else topic.topic_id

    async def _produce(self, name: str, topic_id: TopicId, partition: int, leader: int) -> None:
        stored_id = self._stored_id(name)
        value = f"recreated-{self._sent}".encode()
        self._sent += 1
        builder = BatchBuilder()
        builder.append(WALL_START_MS, None, value)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name, [PartitionProduceData(partition, builder.build())])],
        )
        response: Any = await self._client.request(leader, PRODUCE, PRODUCE_VERSION, request)
        result = response.responses[0].partition_responses[0]
        # Only a topic that existed all the time certainly has the record.
        if result.error_code == ErrorCode.NONE and topic_id == stored_id == self._stored_id(name):
            key = self._cluster.observer.key(name, partition, topic_id)
            self._cluster.checker.on_acknowledged(key, result.base_offset, [value])
            self._note(name, value, topic_id)

    async def _read(self, name: str, topic_id: TopicId, metadata: MetadataResponsePartition) -> None:
        partition = metadata.partition_index
        position = self._positions.get((topic_id, partition), 0)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            current_leader_epoch=metadata.leader_epoch,
                            fetch_offset=position,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        response: Any = await self._client.request(metadata.leader_id, FETCH, FETCH_BY_ID_VERSION, request)
        if response.error_code or not response.responses:
            return
        result = response.responses[0].partitions[0]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation("poll-skip", f"{name} {partition} has no offset {position} any more")
        if result.error_code != ErrorCode.NONE:
            return
        key = self._cluster.observer.key(name, partition, topic_id)
        for record in decode(bytes(result.records or b"")):
            if record.offset >= position:
                value = bytes(record.value or b"")
                self._note(name, value, topic_id)
                self._cluster.checker.on_read(key, record.offset, value)
                position = record.offset + 1
        self._positions[topic_id, partition] = position

    def _note(self, name: str, value: bytes, topic_id: TopicId) -> None:
        known = self._topic_of_value.setdefault(value, topic_id)
        if known != topic_id:
            raise Violation("record-of-deleted-topic", f"{name}: {value!r} of a topic that was deleted")
