"""Controller requests (LeaderAndIsr, UpdateMetadata, StopReplica) to the broker the controller runs on.

The requests are those that other brokers would receive over the network, and take the same path.
"""

from __future__ import annotations

from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.control_requests import (
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events

log = events.logger("controller_channel")


class LocalControllerChannel:
    """Controller channel to the local broker: calls in place of connections."""

    def __init__(self, broker_id: int, replica_manager: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._replica_manager = replica_manager

    async def leader_and_isr(self, request: SendLeaderAndIsr) -> list[TopicPartition]:
        result = await self._replica_manager.become_leader_or_follower(
            leader_and_isr_request(request, self._broker_id)
        )
        offline = [
            partition
            for partition, error in result.partition_errors.items()
            if error is ErrorCode.KAFKA_STORAGE_ERROR
        ]
        states = request.partition_states
        if states:
            leader_count = sum(state.leader == self._broker_id for state in states.values())
            log.info(
                "leadership_changed",
                leading=leader_count,
                following=len(states) - leader_count,
                offline=len(offline),
            )
        return offline

    async def update_metadata(self, request: SendUpdateMetadata) -> None:
        await self._replica_manager.update_metadata(update_metadata_request(request, self._broker_id))

    async def stop_replica(self, request: SendStopReplica) -> list[TopicPartition]:
        result = await self._replica_manager.stop_replicas(stop_replica_request(request, self._broker_id))
        return [partition for partition, error in result.partition_errors.items() if not error]
