"""Verification of transactional writes with a coordinator on another broker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactional_client import TransactionalProducer

from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.testing.broker import Client
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .coordinator_cluster import CoordinatorCluster, run_scenario

PRODUCE, ADD_PARTITIONS_TO_TXN = 0, 24
COORDINATOR = 5
ORDERS, LETTERS = TopicPartition("orders", 0), TopicPartition("letters", 0)


class VerificationScript:
    """Broker 1 leads topics orders and letters; scripted broker 5 is the transaction coordinator."""

    def __init__(self, fixture: CoordinatorCluster, coordinator: ScriptedBroker) -> None:
        self.fixture = fixture
        self.coordinator = coordinator
        self.cluster = fixture.cluster
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.error = ErrorCode.NONE
        coordinator.responses[ADD_PARTITIONS_TO_TXN] = self.respond

    @classmethod
    async def create(cls, fixture: CoordinatorCluster) -> VerificationScript:
        coordinator = await fixture.add_scripted(COORDINATOR)
        for topic, leader in (
            (OFFSETS_TOPIC, 1),
            (TRANSACTIONS_TOPIC, COORDINATOR),
            ("orders", 1),
            ("letters", 1),
        ):
            await fixture.create(topic, 2, (leader,))
            await fixture.place(leader, topic)
        await fixture.until_loaded()
        return cls(fixture, coordinator)

    def respond(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        def result_of(topic: str, index: int) -> AddPartitionsToTxnPartitionResult:
            code = self.codes.get(TopicPartition(topic, index), ErrorCode.NONE)
            return AddPartitionsToTxnPartitionResult(index, code)

        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transaction.transactional_id,
                    [
                        AddPartitionsToTxnTopicResult(
                            topic.name, [result_of(topic.name, index) for index in topic.partitions]
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ],
        )

    def silence(self) -> None:
        self.coordinator.responses[ADD_PARTITIONS_TO_TXN] = lambda _: None

    @property
    def requests(self) -> list[Any]:
        return self.coordinator.requests_of(ADD_PARTITIONS_TO_TXN)

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        return await self.fixture[1].request(api_key, version, message)

    def producer(self, name: str = "ledger", producer_id: int = 7, epoch: int = 0) -> TransactionalProducer:
        producer = TransactionalProducer(self, name)
        producer.producer_id, producer.epoch = producer_id, epoch
        return producer

    async def connect(self) -> Client:
        return await self.fixture[1].memory_broker.connect()


def send(client: Client, producer: TransactionalProducer, sequence: int, *partitions: TopicPartition) -> Any:
    """Send one batch to each partition; return the task with the response."""
    data = [
        TopicProduceData(topic, [PartitionProduceData(number, producer.batch(b"value", sequence=sequence))])
        for topic, number in partitions or (ORDERS,)
    ]
    return client.send(PRODUCE, 11, ProduceRequest(producer.name, -1, 30_000, data))


async def codes_of(response: Any) -> list[ErrorCode]:
    return [
        ErrorCode(entry.error_code)
        for topic in (await response).responses
        for entry in topic.partition_responses
    ]


def test_first_write_is_verified_by_the_coordinator_elsewhere() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        producer = script.producer()
        assert await producer.write(b"a") == 0
        assert await producer.write(b"b") == 0
        (request,) = script.requests
        (transaction,) = request.transactions
        assert (transaction.transactional_id, transaction.producer_id) == ("ledger", 7)
        assert (transaction.producer_epoch, transaction.verify_only) == (0, True)
        assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", [0])]
        assert script.coordinator.received[-1].version >= 4
        assert fixture[1].log_end_offset("orders") == 2

    run_scenario(scenario, size=1)


@pytest.mark.parametrize(
    ("code", "produced", "committed"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.TRANSACTION_ABORTABLE,
        ),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_COORDINATOR),
        (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
    ],
)
def test_rejected_write_gets_an_error_that_clients_know(
    code: ErrorCode, produced: ErrorCode, committed: ErrorCode
) -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        offsets = TopicPartition(OFFSETS_TOPIC, fixture[1].groups.partition_of("g"))
        script.codes = {ORDERS: code, offsets: code}
        producer = script.producer()
        assert await producer.write(b"a") == produced
        assert await producer.commit_offset(7) == committed
        assert fixture[1].log_end_offset("orders") == 0

    run_scenario(scenario, size=1)


def test_only_rejected_partitions_fail() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.codes[LETTERS] = ErrorCode.TRANSACTION_ABORTABLE
        client, producer = await script.connect(), script.producer()
        codes = await codes_of(send(client, producer, 0, ORDERS, LETTERS))
        assert codes == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]

    run_scenario(scenario, size=1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_error_of_the_whole_response_is_that_of_all_partitions(error: ErrorCode, code: ErrorCode) -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.error = error
        assert await script.producer().write(b"a") == code

    run_scenario(scenario, size=1)


def test_lost_connection_is_a_network_exception() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.silence()
        client, producer = await script.connect(), script.producer()
        response = send(client, producer, 0)
        await fixture.until(lambda: bool(script.requests))
        script.coordinator.drop_connections()
        assert await codes_of(response) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        script.coordinator.responses[ADD_PARTITIONS_TO_TXN] = script.respond
        assert await producer.write(b"a") == 0, "a retry is verified again"
        script.silence()
        committing = producer.commit_offset(7)
        fixture.cluster.network.reset_all("broker-5")
        script.coordinator.close()
        assert await committing == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run_scenario(scenario, size=1)


def test_coordinator_that_is_not_alive_is_not_available() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        del fixture.scripted[COORDINATOR]
        await fixture.announce()
        assert await script.producer().write(b"a") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await script.producer().commit_offset(7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        script.coordinator.close()

    run_scenario(scenario, size=1)


def test_broker_that_cannot_verify_is_not_asked() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.coordinator.offered[ADD_PARTITIONS_TO_TXN] = range(4)
        assert await script.producer().write(b"a") == 0
        assert script.requests == []

    run_scenario(scenario, size=1)


def test_later_batches_are_held_back_while_the_first_is_verified() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        client, producer = await script.connect(), script.producer()
        assert await codes_of(send(client, producer, 0, ORDERS)) == [ErrorCode.NONE]
        # The second needs verification for letters; the others must not overtake it in orders.
        responses = [
            send(client, producer, 1, ORDERS),
            send(client, producer, 2, ORDERS),
            send(client, producer, 0, LETTERS),
            send(client, producer, 1, LETTERS),
            send(client, producer, 2, LETTERS),
        ]
        assert [await codes_of(response) for response in responses] == [[ErrorCode.NONE]] * 5
        both = script.producer("both", producer_id=8)
        assert await codes_of(send(client, both, 0, ORDERS)) == [ErrorCode.NONE]
        first = send(client, both, 1, ORDERS)
        mixed_data = [
            TopicProduceData("letters", [PartitionProduceData(0, both.batch(b"x", sequence=0))]),
            TopicProduceData("orders", [PartitionProduceData(0, both.batch(b"x", sequence=2))]),
        ]
        mixed = client.send(PRODUCE, 11, ProduceRequest("both", -1, 30_000, mixed_data))
        last = send(client, both, 3, ORDERS)
        assert await codes_of(first) == [ErrorCode.NONE]
        assert await codes_of(mixed) == [ErrorCode.NONE, ErrorCode.NONE]
        assert await codes_of(last) == [ErrorCode.NONE]

    run_scenario(scenario, size=1)


def test_one_request_at_a_time_carries_all_waiting_transactions() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.silence()
        clients = [await script.connect() for _ in range(4)]
        names = ["a", "b", "c", "d"]
        responses = []
        for number, (client, name) in enumerate(zip(clients, names, strict=True)):
            responses.append(send(client, script.producer(name, producer_id=number), 0))
            await fixture.clock.sleep_ms(100)
        assert [len(request.transactions) for request in script.requests] == [1]
        script.coordinator.responses[ADD_PARTITIONS_TO_TXN] = script.respond
        script.coordinator.drop_connections()
        codes = [await codes_of(response) for response in responses]
        assert codes == [[ErrorCode.NOT_ENOUGH_REPLICAS], *[[ErrorCode.NONE]] * 3]
        assert {each.transactional_id for each in script.requests[1].transactions} == {"b", "c", "d"}

    run_scenario(scenario, size=1)


def test_of_two_waiting_requests_the_newer_epoch_or_the_later_one_is_sent() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.silence()
        clients = [await script.connect() for _ in range(5)]
        in_flight = send(clients[0], script.producer("other", producer_id=1), 0)
        await fixture.until(lambda: bool(script.requests))
        first = send(clients[1], script.producer(epoch=3), 0)
        await fixture.clock.sleep_ms(100)
        retried = send(clients[2], script.producer(epoch=3), 0)
        assert await codes_of(first) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        newer = send(clients[3], script.producer(epoch=4), 0)
        assert await codes_of(retried) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        older = send(clients[4], script.producer(epoch=2), 0)
        assert await codes_of(older) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        script.coordinator.responses[ADD_PARTITIONS_TO_TXN] = script.respond
        script.coordinator.drop_connections()
        assert await codes_of(in_flight) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert await codes_of(newer) == [ErrorCode.NONE]
        (transaction,) = script.requests[1].transactions
        assert transaction.producer_epoch == 4

    run_scenario(scenario, size=1)


def test_stop_ends_verifications_in_progress() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await VerificationScript.create(fixture)
        script.silence()
        client = await script.connect()
        response = send(client, script.producer(), 0)
        await fixture.until(lambda: bool(script.requests))
        await fixture.nodes.pop(1).stop()
        assert await codes_of(response) == [ErrorCode.NOT_ENOUGH_REPLICAS]

    run_scenario(scenario, size=1)
