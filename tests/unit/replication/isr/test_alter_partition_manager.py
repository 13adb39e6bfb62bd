"""AlterPartition requests: batching, one in flight, versions, errors and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.model.client_errors import ConnectionFailed, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.net.broker_requests import BrokerChannel
from odradek.replication.isr.alter_partition_manager import (
    CHANGES_PER_REQUEST,
    RESULTS_PER_TURN,
    RETRY_MS,
    AlterPartitionManager,
    QueuedChange,
    build_request,
)
from odradek.replication.leader import IsrChange, IsrChangeResult
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 2)
A_ID, B_ID = b"a" * 16, b"b" * 16
CHANGE = IsrChange((1, 2), 5, 7)


class Controller:
    """Answers AlterPartition requests when the test says so."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.versions_max: list[int | None] = []
        self.broker_epoch = 10
        self.has_overlaps = False
        self._response: asyncio.Future[AlterPartitionResponse] | None = None

    async def send_to_controller(
        self, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        self.has_overlaps = self.has_overlaps or self._response is not None
        self.requests.append(request)
        self.versions_max.append(version_max)
        self._response = asyncio.get_running_loop().create_future()
        try:
            return await self._response
        finally:
            self._response = None

    async def send(
        self, broker_id: int, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        raise AssertionError("ISR changes go to the controller")

    def open_channel(self, broker_id: int, name: str) -> BrokerChannel:
        raise AssertionError("ISR changes go to the controller")

    @property
    def is_waiting(self) -> bool:
        return self._response is not None

    async def respond(self, *topics: AlterPartitionResponseTopicData, error: int = 0) -> None:
        assert self._response is not None
        self._response.set_result(AlterPartitionResponse(0, error, list(topics)))
        await settle()

    async def fail(self, error: Exception) -> None:
        assert self._response is not None
        self._response.set_exception(error)
        await settle()


class Fixture:
    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.controller = Controller()
        self.manager = AlterPartitionManager(
            1, lambda: self.controller.broker_epoch, self.controller, self.clock, lambda: 30_000
        )
        self.results: dict[TopicPartition, list[IsrChangeResult]] = {A: [], B: []}

    async def submit(
        self, partition: TopicPartition = A, topic_id: bytes = A_ID, change: IsrChange = CHANGE
    ) -> None:
        self.manager.submit(partition, topic_id, change, self.results[partition].append)
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run_scenario(scenario: Callable[[Fixture], Awaitable[None]]) -> None:
    async def main() -> None:
        fixture = Fixture()
        await scenario(fixture)
        await fixture.manager.close()
        assert not fixture.controller.has_overlaps, "one request in flight"

    run_virtually(main)


def changed(
    partition: TopicPartition, topic_id: bytes = ZERO_TOPIC_ID, error: int = 0, recovery_state: int = 0
) -> AlterPartitionResponseTopicData:
    """Return a response entry, by name or by id."""
    name = "" if topic_id != ZERO_TOPIC_ID else partition.topic
    entry = AlterPartitionResponsePartitionData(partition.partition, error, 1, 5, [1, 2], recovery_state, 8)
    return AlterPartitionResponseTopicData(name, topic_id, [entry])


SUCCESS = IsrChangeResult(ErrorCode.NONE, (1, 2), 5, 8)


def test_changes_during_a_request_go_together_with_the_next() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.submit(B, B_ID)
        assert [topic.topic_name for topic in fixture.controller.requests[0].topics] == ["a"]
        await fixture.controller.respond(changed(A, A_ID))
        assert fixture.results == {A: [SUCCESS], B: []}
        await fixture.submit(A)
        assert len(fixture.controller.requests) == 2
        await fixture.controller.respond(changed(B, B_ID))
        assert [topic.topic_name for topic in fixture.controller.requests[2].topics] == ["a"]
        await fixture.controller.respond(changed(A, A_ID))
        assert {partition: len(results) for partition, results in fixture.results.items()} == {A: 2, B: 1}
        assert not fixture.controller.is_waiting

    run_scenario(scenario)


def test_second_change_of_a_partition_is_not_attempted() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.submit(A, B_ID)
        assert fixture.results[A] == [IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED)]
        await fixture.controller.respond(changed(A, A_ID))
        assert fixture.results[A][1:] == [SUCCESS]

    run_scenario(scenario)


def test_contents_of_a_request() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        (request,) = fixture.controller.requests
        assert (request.broker_id, request.broker_epoch) == (1, 10)
        (partition,) = request.topics[0].partitions
        assert (partition.leader_epoch, partition.partition_epoch) == (5, 7)
        assert partition.leader_recovery_state == 0

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(4))
def test_request_can_be_encoded_in_every_version(version: int) -> None:
    changes = [QueuedChange(A, A_ID, CHANGE, lambda _: None)]
    encoded = encoder(AlterPartitionRequest, version)(build_request(1, 10, changes))
    decoded, _ = decoder(AlterPartitionRequest, version)(memoryview(encoded), 0)
    topic = decoded.topics[0]
    assert (topic.topic_name, topic.topic_id) == (("a", ZERO_TOPIC_ID) if version < 2 else ("", A_ID))
    assert topic.partitions[0].new_isr == ([1, 2] if version < 3 else [])
    epochs = [BrokerState(1, -1), BrokerState(2, -1)]
    assert topic.partitions[0].new_isr_with_epochs == ([] if version < 3 else epochs)


def test_versions_with_topic_ids_need_all_ids() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(changed(A, A_ID))
        await fixture.submit(A, ZERO_TOPIC_ID)
        await fixture.controller.respond(changed(A))
        assert fixture.controller.versions_max == [None, 1]
        assert fixture.results[A] == [SUCCESS, SUCCESS]

    run_scenario(scenario)


def test_cluster_without_topic_ids_gets_names() -> None:
    async def scenario(fixture: Fixture) -> None:
        fixture.manager._uses_topic_ids = lambda: False
        await fixture.submit(A)
        assert fixture.controller.versions_max == [1]

    run_scenario(scenario)


@pytest.mark.parametrize(
    "code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
def test_top_level_error_is_retried_with_the_current_broker_epoch(code: ErrorCode) -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(error=code)
        assert not fixture.controller.is_waiting
        fixture.controller.broker_epoch = 11
        await fixture.submit(B, B_ID)
        await fixture.clock.sleep_ms(RETRY_MS)
        await settle()
        assert [request.broker_epoch for request in fixture.controller.requests] == [10, 11]
        assert [topic.topic_name for topic in fixture.controller.requests[1].topics] == ["a", "b"]
        assert fixture.results == {A: [], B: []}

    run_scenario(scenario)


def test_response_with_a_top_level_error_changes_nothing() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(changed(A, A_ID), error=ErrorCode.STALE_BROKER_EPOCH)
        assert fixture.results[A] == []

    run_scenario(scenario)


@pytest.mark.parametrize("failure", [ConnectionFailed("lost"), UnsupportedVersion("56"), ValueError("bug")])
def test_failed_request_is_sent_again(failure: Exception) -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.fail(failure)
        await fixture.clock.sleep_ms(RETRY_MS)
        await settle()
        await fixture.controller.respond(changed(A, A_ID))
        assert fixture.results[A] == [SUCCESS]

    run_scenario(scenario)


def test_partition_errors_are_results() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(changed(A, A_ID, ErrorCode.INELIGIBLE_REPLICA))
        assert fixture.results[A] == [IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)]
        assert not fixture.controller.is_waiting

    run_scenario(scenario)


def test_unknown_recovery_state_is_an_error() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(changed(A, A_ID, recovery_state=2))
        assert fixture.results[A] == [IsrChangeResult(ErrorCode.UNKNOWN_SERVER_ERROR)]

    run_scenario(scenario)


def test_partition_missing_from_the_response_is_sent_again() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.controller.respond(changed(B, B_ID))
        assert fixture.results == {A: [], B: []}
        await fixture.clock.sleep_ms(RETRY_MS)
        await settle()
        await fixture.controller.respond(changed(A, A_ID))
        assert fixture.results[A] == [SUCCESS]

    run_scenario(scenario)


def test_close_drops_changes() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit(A)
        await fixture.manager.close()
        await fixture.submit(B, B_ID)
        assert fixture.results == {A: [], B: [IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED)]}

    run_scenario(scenario)


def test_many_results_are_applied_in_turns() -> None:
    async def scenario(fixture: Fixture) -> None:
        await fixture.submit()
        count = 2 * RESULTS_PER_TURN + 50
        partitions = [TopicPartition("a", number) for number in range(1, count + 1)]
        results: list[IsrChangeResult] = []
        for partition in partitions:
            fixture.manager.submit(partition, A_ID, CHANGE, results.append)
        await fixture.controller.respond(changed(A))
        data = AlterPartitionResponseTopicData(topic_id=A_ID)
        data.partitions = [
            AlterPartitionResponsePartitionData(each.partition, isr=[1, 2]) for each in partitions
        ]
        responding = asyncio.ensure_future(fixture.controller.respond(data))
        seen = set()
        while len(results) < count:
            seen.add(len(results))
            await asyncio.sleep(0)
        await responding
        assert {RESULTS_PER_TURN - 1, 2 * RESULTS_PER_TURN - 1} <= seen
        assert not fixture.controller.is_waiting

    run_scenario(scenario)


def test_many_changes_go_in_several_requests() -> None:
    async def scenario(fixture: Fixture) -> None:
        count = CHANGES_PER_REQUEST + 1
        results: list[IsrChangeResult] = []
        for number in range(count):
            fixture.manager.submit(TopicPartition("a", number), A_ID, CHANGE, results.append)
        await settle()
        sent = []
        while fixture.controller.is_waiting:
            (topic,) = fixture.controller.requests[-1].topics
            numbers = [each.partition_index for each in topic.partitions]
            sent.append(numbers)
            data = AlterPartitionResponseTopicData(topic_id=A_ID)
            data.partitions = [AlterPartitionResponsePartitionData(each, isr=[1, 2]) for each in numbers]
            await fixture.controller.respond(data)
            await settle()
        assert [len(numbers) for numbers in sent] == [CHANGES_PER_REQUEST, 1]
        assert sorted(number for numbers in sent for number in numbers) == list(range(count))
        assert len(results) == count

    run_scenario(scenario)
