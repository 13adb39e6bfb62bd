"""The controller's channel to another broker: address, versions, broker epoch, errors by partition."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.inter_broker.controller_channel import (
    ControllerChannelFactory,
    leader_and_isr_result,
)
from odradek.cluster.metadata_version import LATEST, MetadataVersion
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaState,
)
from odradek.controller.channels import ControllerChannels
from odradek.controller.live_broker import LiveBroker
from odradek.model.client_errors import ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import BrokerRegistration, RegisteredEndpoint
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from odradek.wire.messages.update_metadata import UpdateMetadataResponse

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("others", 3)
IDS = {"orders": b"o" * 16, "others": b"t" * 16}
BROKER_ID, BROKER_EPOCH, CONTROLLER_EPOCH = 2, 71, 5
TIMEOUT_MS = 4_000
OK, FAILED = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR

STATES = {
    partition: PartitionStateUpdate(IDS[partition.topic], 1, 4, (1, 2), (1, 2), 9)
    for partition in (ORDERS, OTHERS)
}
REQUESTS = (
    SendLeaderAndIsr(BROKER_ID, CONTROLLER_EPOCH, STATES),
    SendUpdateMetadata((BROKER_ID,), CONTROLLER_EPOCH, {}, STATES),
    SendStopReplica(BROKER_ID, CONTROLLER_EPOCH, {ORDERS: StopReplicaState(4, True)}),
)


class ChannelFixture:
    """A channel of controller 1 to a scripted broker 2."""

    def __init__(self, version: MetadataVersion) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.network = MemoryNetwork(SeededEntropy(0))
        self.broker = ScriptedBroker(self.network.host("broker-2"))
        self.broker.responses = {
            LEADER_AND_ISR: lambda _: LeaderAndIsrResponse(),
            UPDATE_METADATA: lambda _: UpdateMetadataResponse(),
            STOP_REPLICA: lambda _: StopReplicaResponse(),
        }
        self.set_registration("broker-2", 9092)
        self.factory = ControllerChannelFactory(
            1,
            "INTERNAL",
            version,
            self.network.host("broker-1"),
            self.clock,
            SeededEntropy(0),
            timeout_ms=lambda: TIMEOUT_MS,
        )
        self.channel = self.factory.open(BROKER_ID, lambda: self.live_broker)

    def set_registration(self, host: str, port: int, listener: str = "INTERNAL") -> None:
        endpoints = (
            RegisteredEndpoint("EXTERNAL", "PLAINTEXT", "elsewhere", 1),
            RegisteredEndpoint(listener, "PLAINTEXT", host, port),
        )
        self.live_broker = LiveBroker(BrokerRegistration(endpoints, 0), BROKER_EPOCH)


def run_scenario(scenario, version: MetadataVersion = LATEST) -> None:
    async def main() -> None:
        fixture = ChannelFixture(version)
        await fixture.broker.listen("", 9092)
        try:
            await scenario(fixture)
        finally:
            await fixture.channel.close()
            fixture.broker.close()

    run_virtually(main)


def test_requests_carry_controller_and_broker_epoch() -> None:
    async def scenario(fixture):
        for request in REQUESTS:
            await fixture.channel.send(request)
        messages = [received.message for received in fixture.broker.received]
        epochs = [(m.controller_id, m.controller_epoch, m.broker_epoch) for m in messages]
        assert epochs == [(1, CONTROLLER_EPOCH, BROKER_EPOCH)] * 3
        assert [received.client_id for received in fixture.broker.received] == ["controller-1"] * 3

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("ibp", "versions"),
    [("2.8-IV0", (4, 6, 3)), ("2.8", (5, 7, 3)), ("3.2", (6, 7, 3)), ("3.4", (7, 8, 4)), ("3.9", (7, 8, 4))],
)
def test_versions_follow_from_the_inter_broker_protocol(ibp, versions) -> None:
    async def scenario(fixture):
        for request in REQUESTS:
            await fixture.channel.send(request)
        assert tuple(received.version for received in fixture.broker.received) == versions

    run_scenario(scenario, MetadataVersion.parse(ibp))


def test_errors_of_leader_and_isr_are_named_by_topic_id() -> None:
    async def scenario(fixture):
        fixture.broker.responses[LEADER_AND_ISR] = lambda _: LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(IDS["others"], [LeaderAndIsrPartitionError("", 3, FAILED)]),
                LeaderAndIsrTopicError(IDS["orders"], [LeaderAndIsrPartitionError("", 0, OK)]),
                LeaderAndIsrTopicError(b"x" * 16, [LeaderAndIsrPartitionError("", 0, FAILED)]),
            ]
        )
        result = await fixture.channel.send(REQUESTS[0])
        assert result == (OK, {ORDERS: OK, OTHERS: FAILED})

    run_scenario(scenario)


def test_errors_of_old_leader_and_isr_are_named_by_topic() -> None:
    response = LeaderAndIsrResponse(partition_errors=[LeaderAndIsrPartitionError("orders", 0, FAILED)])
    request = REQUESTS[0]
    assert isinstance(request, SendLeaderAndIsr)
    assert leader_and_isr_result(request, response) == (OK, {ORDERS: FAILED})


def test_errors_of_stop_replica_and_of_whole_requests_are_returned() -> None:
    async def scenario(fixture):
        fixture.broker.responses[STOP_REPLICA] = lambda _: StopReplicaResponse(
            partition_errors=[StopReplicaPartitionError("orders", 0, ErrorCode.FENCED_LEADER_EPOCH)]
        )
        assert await fixture.channel.send(REQUESTS[2]) == (OK, {ORDERS: ErrorCode.FENCED_LEADER_EPOCH})
        stale = ErrorCode.STALE_BROKER_EPOCH
        fixture.broker.responses[UPDATE_METADATA] = lambda _: UpdateMetadataResponse(stale)
        assert await fixture.channel.send(REQUESTS[1]) == (stale, {})

    run_scenario(scenario)


def test_address_is_that_of_the_current_registration() -> None:
    async def scenario(fixture):
        fixture.set_registration("nowhere", 9092)
        with pytest.raises(ConnectionFailed):
            await fixture.channel.send(REQUESTS[1])
        fixture.set_registration("broker-2", 9092)
        await fixture.channel.send(REQUESTS[1])
        assert len(fixture.broker.received) == 1

    run_scenario(scenario)


def test_broker_without_the_listener_cannot_be_reached() -> None:
    async def scenario(fixture):
        fixture.set_registration("broker-2", 9092, listener="OTHER")
        with pytest.raises(ConnectionFailed, match="broker 2 has no listener INTERNAL"):
            await fixture.channel.send(REQUESTS[1])

    run_scenario(scenario)


def test_broker_without_a_response_times_out_and_is_connected_to_again() -> None:
    async def scenario(fixture):
        answer = fixture.broker.responses[UPDATE_METADATA]
        fixture.broker.responses[UPDATE_METADATA] = lambda _: None
        with pytest.raises(TimedOut):
            await fixture.channel.send(REQUESTS[1])
        fixture.broker.responses[UPDATE_METADATA] = answer
        assert await fixture.channel.send(REQUESTS[1]) == (OK, {})

    run_scenario(scenario)


def test_unreachable_broker_holds_up_no_other() -> None:
    async def scenario(fixture):
        answers: list[int] = []
        failures: list[Exception] = []
        channels = ControllerChannels(
            fixture.factory.open,
            fixture.clock.sleep_ms,
            lambda broker_id, request, result: answers.append(broker_id),
            failures.append,
        )
        reachable = fixture.live_broker
        fixture.set_registration("nowhere", 9092)
        channels.set_brokers({2: reachable, 3: fixture.live_broker})
        for broker_id in (3, 2, 3, 2):
            channels.send(broker_id, REQUESTS[1])
        await fixture.clock.sleep_ms(60_000)
        assert answers == [2, 2]
        fixture.set_registration("broker-2", 9092)
        channels.set_brokers({3: fixture.live_broker})
        await channels.drain()
        assert answers == [2, 2, 3, 3]
        assert failures == []
        channels.close()
        await channels.wait_closed()

    run_scenario(scenario)
