"""Requests of an administrator to a simulated cluster. Each is sent once; it may be lost or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.simulation.workload import FAILURES, METADATA, METADATA_VERSION, ClusterClient

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import encode_partitions, encode_reassignment
from odradek.store.port import NodeExists, NoNode, StoreError
from odradek.testing.own_controller.cluster import OwnControllerCluster
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.elect_leaders import ElectLeadersRequest
from odradek.wire.messages.metadata import MetadataRequest

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ELECT_LEADERS, REASSIGN = 19, 20, 37, 43, 45
TIMEOUT_MS = 5_000
PREFERRED = 0


class Admin:
    """Finds the controller in the metadata of any broker. Results are error names, for the history."""

    def __init__(self, cluster: OwnControllerCluster, entropy: Entropy, name: str = "admin") -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._client = ClusterClient(cluster, name, entropy)

    async def create_topic(self, name: str, assignment: Sequence[Sequence[int]]) -> str:
        topic = CreatableTopic(
            name,
            -1,
            -1,
            [CreatableReplicaAssignment(number, list(ids)) for number, ids in enumerate(assignment)],
            [],
        )
        response = await self._request(CREATE_TOPICS, 7, CreateTopicsRequest([topic], TIMEOUT_MS))
        return _name(None if response is None else response.topics[0].error_code)

    async def delete_topic(self, name: str) -> str:
        request = DeleteTopicsRequest([DeleteTopicState(name, bytes(16))], [], TIMEOUT_MS)
        response = await self._request(DELETE_TOPICS, 6, request)
        return _name(None if response is None else response.responses[0].error_code)

    async def grow_topic(self, name: str, count: int) -> str:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], TIMEOUT_MS, False)
        response = await self._request(CREATE_PARTITIONS, 3, request)
        return _name(None if response is None else response.results[0].error_code)

    async def reassign(self, partition: TopicPartition, target: Sequence[int] | None) -> str:
        """Start or replace a reassignment; without a target cancel it."""
        reassigned = ReassignablePartition(partition.partition, None if target is None else list(target))
        request = AlterPartitionReassignmentsRequest(
            TIMEOUT_MS, [ReassignableTopic(partition.topic, [reassigned])]
        )
        response = await self._request(REASSIGN, 0, request)
        if response is None or response.error_code:
            return _name(None if response is None else response.error_code)
        return _name(response.responses[0].partitions[0].error_code)

    async def elect_preferred(self, broker_id: int | None = None) -> str:
        """Elect the preferred leaders of all partitions, by a broker that may have been the controller."""
        request = ElectLeadersRequest(PREFERRED, None, TIMEOUT_MS)
        response = await self._request(ELECT_LEADERS, 2, request, broker_id)
        return _name(None if response is None else response.error_code)

    # Requests in the store.

    async def write_preferred_election(self, partitions: Sequence[TopicPartition]) -> str:
        return await self._create(znode_paths.PREFERRED_REPLICA_ELECTION, encode_partitions(partitions))

    async def write_reassignment(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> str:
        return await self._create(znode_paths.REASSIGN_PARTITIONS, encode_reassignment(targets))

    async def delete_controller(self) -> str:
        """Force an election, as operators do."""
        try:
            await self._cluster.store.delete(znode_paths.CONTROLLER)
        except NoNode:
            return "no controller"
        return "NONE"

    async def overwrite_controller(self, data: bytes) -> str:
        try:
            await self._cluster.store.set(znode_paths.CONTROLLER, data)
        except NoNode:
            return "no controller"
        return "NONE"

    async def _create(self, path: str, data: bytes) -> str:
        try:
            await self._cluster.store.create(path, data)
        except NodeExists:
            return "exists"
        except StoreError as error:
            return str(error)
        return "NONE"

    # The controller.

    async def _request(
        self, api_key: int, version: int, message: object, broker_id: int | None = None
    ) -> Any:
        """Send a request to a broker or the controller; return the response, or None if it was lost."""
        with suppress(*FAILURES):
            controller_id = await self._controller_id() if broker_id is None else broker_id
            if controller_id in self._cluster.brokers:
                return await self._client.request(controller_id, api_key, version, message)
        return None

    async def _controller_id(self) -> int:
        broker_ids = sorted(self._cluster.brokers)
        broker_id = broker_ids[self._entropy.below(len(broker_ids))]
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        response: Any = await self._client.request(broker_id, METADATA, METADATA_VERSION, request)
        return int(response.controller_id)


def _name(code: int | None) -> str:
    return "lost" if code is None else ErrorCode(code).name
