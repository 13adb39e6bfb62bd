"""Recorded requests of a Kafka controller, sent to a replica manager: it answers as the recorded broker did.

The recordings do not have the whole history of a cluster, and leave some requests out. What the recorded
broker knew from those is therefore set up from the request itself: partitions with its epochs if the broker
found them stale, offline ones if it said so.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.golden.cluster.recordings import SCENARIOS, Decoded, events, messages
from tests.support.interbroker.timeline import Message
from tests.unit.replication.conftest import ReplicationFixture

from odradek.cluster.metadata_cache import BrokerMetadata, MetadataUpdate
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.replication.control_requests import requested_roles, requested_stops
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState

CONTROL_APIS = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
BROKERS = (0, 1, 2)

Exchange = tuple[Decoded, Decoded]


def control_exchanges(ibp: str, scenario: str, broker_id: int) -> list[Exchange]:
    """Return the control requests to a broker and its responses, in the order of the requests."""
    to_broker = [
        message
        for message in messages(ibp, scenario)
        if message.recorded.api in CONTROL_APIS
        and str(broker_id)
        == (message.recorded.target if message.recorded.kind == "request" else message.recorded.source)
    ]
    responses = {
        message.recorded.number: message for message in to_broker if message.recorded.kind == "response"
    }
    return [
        (message, responses[message.recorded.number])
        for message in to_broker
        if message.recorded.kind == "request" and message.recorded.number in responses
    ]


def left_out_requests(ibp: str, scenario: str, broker_id: int) -> list[int]:
    """Return the numbers of LeaderAndIsr requests to a broker whose bytes were not kept."""
    return [
        event.number
        for event in events(ibp, scenario)
        if isinstance(event, Message)
        and (event.api, event.kind, event.target) == ("LeaderAndIsr", "request", str(broker_id))
        and not event.frame
    ]


class ReplayedBroker:
    """The replica manager of one recorded broker."""

    def __init__(self, broker_id: int, left_out: list[int]) -> None:
        self.fixture = ReplicationFixture(broker_id)
        self._left_out = left_out

    async def open(self) -> None:
        await self.fixture.open()
        alive = MetadataUpdate({number: BrokerMetadata(number, {}) for number in BROKERS})
        self.fixture.metadata_cache.apply(alive)

    async def replay(self, request: Decoded, response: Decoded) -> None:
        replicas = self.fixture.replicas
        if request.recorded.api == "UpdateMetadata":
            assert (await replicas.update_metadata(request.body)).error == response.body.error_code
            return
        if request.recorded.api == "LeaderAndIsr":
            expected = leader_and_isr_errors(request.body, response.body)
            await self._prepare(request, expected)
            result = await replicas.become_leader_or_follower(request.body)
        else:
            expected = {
                TopicPartition(entry.topic_name, entry.partition_index): entry.error_code
                for entry in response.body.partition_errors
            }
            for stop in requested_stops(request.body):
                if expected.get(stop.topic_partition) == ErrorCode.KAFKA_STORAGE_ERROR:
                    replicas._logs.offline.add(stop.topic_partition)
            result = await replicas.stop_replicas(request.body)
        assert result.error == response.body.error_code
        assert result.partition_errors == expected

    async def _prepare(self, request: Decoded, expected: dict[TopicPartition, int]) -> None:
        replicas = self.fixture.replicas
        has_gap = any(number < request.recorded.number for number in self._left_out)
        for topic_partition, topic_id, state in requested_roles(request.body):
            error = expected[topic_partition]
            is_unknown = has_gap or replicas.get_partition(*topic_partition) is None
            if error == ErrorCode.KAFKA_STORAGE_ERROR:
                replicas._logs.offline.add(topic_partition)
            elif error == ErrorCode.STALE_CONTROLLER_EPOCH and is_unknown:
                known = LeaderAndIsrRequest(
                    controller_epoch=replicas.state_changes.controller_epoch,
                    topic_states=[LeaderAndIsrTopicState(topic_partition.topic, topic_id, [state])],
                )
                await replicas.become_leader_or_follower(known)


def leader_and_isr_errors(request: LeaderAndIsrRequest, response: Any) -> dict[TopicPartition, int]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    assert ZERO_TOPIC_ID not in names
    return {
        TopicPartition(names[topic.topic_id], entry.partition_index): entry.error_code
        for topic in response.topics
        for entry in topic.partition_errors
    }


@pytest.mark.parametrize("broker_id", BROKERS)
@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_replica_manager_answers_as_the_recorded_broker(ibp: str, scenario: str, broker_id: int) -> None:
    async def main() -> None:
        broker = ReplayedBroker(broker_id, left_out_requests(ibp, scenario, broker_id))
        await broker.open()
        for request, response in control_exchanges(ibp, scenario, broker_id):
            await broker.replay(request, response)

    asyncio.run(main())


def test_recordings_have_control_requests_and_errors() -> None:
    codes = {
        code
        for ibp, scenario in SCENARIOS
        for broker_id in BROKERS
        for request, response in control_exchanges(ibp, scenario, broker_id)
        if request.recorded.api == "LeaderAndIsr"
        for code in leader_and_isr_errors(request.body, response.body).values()
    }
    assert {ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR} <= codes
