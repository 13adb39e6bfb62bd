"""Controller requests (LeaderAndIsr, UpdateMetadata, StopReplica) to the broker the controller runs on.

The requests are those that other brokers would receive over the network, and take the same path. Like those,
a request that was sent is applied to its end, also when the controller resigns meanwhile: a partition with
its new leader epoch but without its fetcher would stay so, because the next controller sends the same epoch.
"""

from __future__ import annotations

import asyncio

from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.channels import BrokerRequest
from odradek.controller.control_requests import (
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from odradek.model.errors import ErrorCode
from odradek.replication.control_requests import ControlResult
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events

log = events.logger("controller_channel")


class LocalControllerChannel:
    """``BrokerChannel`` to the local broker: calls in place of connections."""

    def __init__(self, broker_id: int, replica_manager: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._replica_manager = replica_manager
        self._applying: asyncio.Task[ControlResult] | None = None

    async def send(self, request: BrokerRequest) -> ControlResult:
        self._applying = asyncio.get_running_loop().create_task(self._apply(request))
        return await asyncio.shield(self._applying)

    async def close(self) -> None:
        """Wait for a request that is being applied."""
        if self._applying is not None:
            await asyncio.gather(self._applying, return_exceptions=True)

    async def _apply(self, request: BrokerRequest) -> ControlResult:
        match request:
            case SendLeaderAndIsr():
                return await self._become_leader_or_follower(request)
            case SendUpdateMetadata():
                message = update_metadata_request(request, self._broker_id)
                await asyncio.sleep(0)  # to build it and to apply it both take long with many partitions
                return ControlResult((await self._replica_manager.update_metadata(message)).error, {})
            case SendStopReplica():
                return await self._replica_manager.stop_replicas(
                    stop_replica_request(request, self._broker_id)
                )

    async def _become_leader_or_follower(self, request: SendLeaderAndIsr) -> ControlResult:
        message = leader_and_isr_request(request, self._broker_id)
        await asyncio.sleep(0)
        result = await self._replica_manager.become_leader_or_follower(message)
        states = request.partition_states
        if states:
            leader_count = sum(state.leader == self._broker_id for state in states.values())
            errors = result.partition_errors.values()
            log.info(
                "leadership_changed",
                leading=leader_count,
                following=len(states) - leader_count,
                offline=sum(error is ErrorCode.KAFKA_STORAGE_ERROR for error in errors),
            )
        return result
