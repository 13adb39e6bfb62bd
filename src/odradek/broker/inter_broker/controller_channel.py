"""Controller requests (LeaderAndIsr, UpdateMetadata, StopReplica) to another broker.

The address is in the broker's registration, not in the metadata cache, which the controller itself fills.
Each channel has a connection of its own, so that a broker that does not respond holds up no other request.
Versions follow from the inter-broker protocol, and each request carries the broker epoch it is meant for: a
broker that has registered again refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.cluster.metadata_version import MetadataVersion
from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.channels import BrokerRequest
from odradek.controller.control_requests import (
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from odradek.controller.live_broker import LiveBroker
from odradek.model.client_errors import ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.net.broker_connection import Handshake
from odradek.net.connection_pool import ConnectionPool
from odradek.net.connection_state import ConnectionSettings
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.replication.control_requests import ControlResult
from odradek.wire.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.wire.messages.stop_replica import StopReplicaResponse


class ControllerChannelFactory:
    """Opens channels from the controller on this broker to other brokers."""

    def __init__(
        self,
        controller_id: int,
        listener_name: str,
        metadata_version: MetadataVersion,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        *,
        timeout_ms: Callable[[], int],
        handshake: Handshake | None = None,
    ) -> None:
        """``timeout_ms`` bounds the setup of a connection and the wait for a response."""
        self.controller_id = controller_id
        self.listener_name = listener_name
        self.metadata_version = metadata_version
        self.clock = clock
        self.timeout_ms = timeout_ms
        self._network = network
        self._entropy = entropy
        self._handshake = handshake

    def open(self, broker_id: int, broker: Callable[[], LiveBroker]) -> RemoteControllerChannel:
        """Return a channel. ``broker`` returns the registration, whose endpoints may change."""
        return RemoteControllerChannel(self, broker_id, broker)

    def open_pool(self) -> ConnectionPool:
        settings = ConnectionSettings(request_timeout_ms=self.timeout_ms(), in_flight_max=1, idle_max_ms=-1)
        client_id = f"controller-{self.controller_id}"
        return ConnectionPool(self._network, self.clock, self._entropy, settings, client_id, self._handshake)


class RemoteControllerChannel:
    """``BrokerChannel`` to another broker. A request that fails is not repeated here."""

    def __init__(
        self, factory: ControllerChannelFactory, broker_id: int, broker: Callable[[], LiveBroker]
    ) -> None:
        self._factory = factory
        self._broker_id = broker_id
        self._broker = broker
        self._pool = factory.open_pool()

    async def send(self, request: BrokerRequest) -> ControlResult:
        controller_id, versions = self._factory.controller_id, self._factory.metadata_version
        epoch = self._broker().broker_epoch
        match request:
            case SendLeaderAndIsr():
                version = versions.leader_and_isr_version
                leader_and_isr = leader_and_isr_request(
                    request,
                    controller_id,
                    epoch,
                    version=version,
                    listener_name=self._factory.listener_name,
                )
                response = await self._send(leader_and_isr, version)
                return leader_and_isr_result(request, response)
            case SendUpdateMetadata():
                update_metadata = update_metadata_request(request, controller_id, epoch)
                response = await self._send(update_metadata, versions.update_metadata_version)
                return ControlResult(ErrorCode(response.error_code), {})
            case SendStopReplica():
                stop_replica = stop_replica_request(request, controller_id, epoch)
                return stop_replica_result(await self._send(stop_replica, versions.stop_replica_version))

    async def close(self) -> None:
        await self._pool.close(ConnectionFailed("the controller closed the channel"))

    async def _send(self, message: Any, version: int) -> Any:
        """Send a request; connecting and waiting for the response share one timeout."""
        await asyncio.sleep(0)  # to build it and to encode it both take long with many partitions
        self._put_node()
        clock, timeout_ms = self._factory.clock, self._factory.timeout_ms()
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while True:
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                raise TimedOut(f"not sent within {timeout_ms} ms", broker=self._pool.name(self._broker_id))
            response = self._pool.send(self._broker_id, message, left_ms, version_max=version)
            if response is not None:
                return await response
            await self._pool.ready(self._broker_id, left_ms)

    def _put_node(self) -> None:
        listener_name = self._factory.listener_name
        for endpoint in self._broker().registration.endpoints:
            if endpoint.listener == listener_name:
                self._pool.put_node(self._broker_id, endpoint.host, endpoint.port)
                return
        raise ConnectionFailed(f"broker {self._broker_id} has no listener {listener_name}")


def leader_and_isr_result(request: SendLeaderAndIsr, response: LeaderAndIsrResponse) -> ControlResult:
    """Return the errors of a LeaderAndIsr response by partition.

    From version 5 on topics are named by id; topics that were not sent are ignored.
    """
    errors = {
        TopicPartition(entry.topic_name, entry.partition_index): ErrorCode(entry.error_code)
        for entry in response.partition_errors
    }
    names = {state.topic_id: partition.topic for partition, state in request.partition_states.items()}
    for topic in response.topics:
        if topic.topic_id in names:
            for entry in topic.partition_errors:
                partition = TopicPartition(names[topic.topic_id], entry.partition_index)
                errors[partition] = ErrorCode(entry.error_code)
    return ControlResult(ErrorCode(response.error_code), errors)


def stop_replica_result(response: StopReplicaResponse) -> ControlResult:
    return ControlResult(
        ErrorCode(response.error_code),
        {
            TopicPartition(entry.topic_name, entry.partition_index): ErrorCode(entry.error_code)
            for entry in response.partition_errors
        },
    )
