"""Transaction markers for partitions that other brokers lead."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactional_client import TransactionalProducer

from odradek.broker.coordinators.transaction_marker_writer import TxnMarkerEntry
from odradek.coordinators.transactions.commands import AddPartitions, EndTransaction, InitProducerId
from odradek.model.errors import ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from .coordinator_cluster import (
    CoordinatorCluster,
    TransactionRouter,
    create_internal_topics,
    run_scenario,
)

WRITE_TXN_MARKERS = 27
LEADER = 5
NUMBER = 0
ORDERS = TopicPartition("orders", 0)
LETTERS = TopicPartition("letters", 0)


class MarkerScript:
    """Broker 5, which leads topic orders, and the markers that broker 1 has to write there."""

    def __init__(self, fixture: CoordinatorCluster, leader: ScriptedBroker) -> None:
        self.fixture = fixture
        self.leader = leader
        self.channels = fixture[1].transactions._marker_channels
        self.completed: list[tuple[int, tuple[TopicPartition, ...]]] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        leader.responses[WRITE_TXN_MARKERS] = self.respond

    @classmethod
    async def create(cls, fixture: CoordinatorCluster, *topics: str) -> MarkerScript:
        leader = await fixture.add_scripted(LEADER)
        await create_internal_topics(fixture)
        for topic in topics or ("orders",):
            await fixture.create(topic, 1, (LEADER,))
            await fixture.place(LEADER, topic)
        return cls(fixture, leader)

    def add(
        self, producer_id: int, *partitions: TopicPartition, epoch: int = 0, number: int = NUMBER
    ) -> None:
        self.channels.add_markers(
            number,
            TxnMarkerEntry(producer_id, epoch, 3, True),
            partitions or (ORDERS,),
            lambda done: self.completed.append((producer_id, done)),
        )

    def respond(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            topic.name,
                            [
                                WritableTxnMarkerPartitionResult(
                                    index, self.codes.get(TopicPartition(topic.name, index), ErrorCode.NONE)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def silence(self) -> None:
        self.leader.responses[WRITE_TXN_MARKERS] = lambda _: None

    @property
    def requests(self) -> list[Any]:
        return self.leader.requests_of(WRITE_TXN_MARKERS)


def producers(request: Any) -> list[int]:
    return [marker.producer_id for marker in request.markers]


def test_all_markers_that_wait_for_a_broker_are_in_one_request() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture, "orders", "letters")
        for producer_id in range(10):
            script.add(producer_id, ORDERS, LETTERS, epoch=producer_id)
        await fixture.until(lambda: len(script.completed) == 10)
        (request,) = script.requests
        assert sorted(producers(request)) == list(range(10))
        marker = request.markers[4]
        assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (4, 3, True)
        assert {(topic.name, *topic.partition_indexes) for topic in marker.topics} == {ORDERS, LETTERS}
        assert script.leader.received[-1].version == 1

    run_scenario(scenario)


def test_one_request_per_broker_is_in_flight() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.silence()
        script.add(1)
        await fixture.until(lambda: len(script.requests) == 1)
        for producer_id in (2, 3, 4):
            script.add(producer_id)
        await fixture.clock.sleep_ms(5_000)
        assert len(script.requests) == 1
        script.leader.responses[WRITE_TXN_MARKERS] = script.respond
        script.leader.drop_connections()
        await fixture.until(lambda: len(script.completed) == 4)
        assert sorted(producers(script.requests[1])) in ([2, 3, 4], [1, 2, 3, 4])

    run_scenario(scenario)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_rejected_partitions_are_sent_again(code: ErrorCode) -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture, "orders", "letters")
        script.codes[ORDERS] = code
        script.add(1, ORDERS, LETTERS)
        await fixture.until(lambda: len(script.requests) >= 3)
        assert script.completed == [(1, (LETTERS,))]
        assert [topic.name for topic in script.requests[1].markers[0].topics] == ["orders"]
        script.codes.clear()
        await fixture.until(lambda: len(script.completed) == 2)

    run_scenario(scenario)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_transaction_is_given_up(code: ErrorCode) -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.codes[ORDERS] = code
        script.add(1)
        await fixture.clock.sleep_ms(60_000)
        assert (len(script.requests), script.completed) == (1, [])

    run_scenario(scenario)


def test_lost_response_is_sent_again_to_the_current_leader() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.silence()
        script.add(1)
        await fixture.until(lambda: len(script.requests) == 1)
        fixture.replicas[ORDERS] = (2,)
        await fixture.place(2, "orders")
        script.leader.drop_connections()
        await fixture.until(lambda: script.completed == [(1, (ORDERS,))])
        assert len(script.requests) == 1
        assert fixture[2].log_end_offset("orders") == 1

    run_scenario(scenario)


def test_broker_that_died_is_not_waited_for() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.silence()
        script.add(1)
        await fixture.until(lambda: len(script.requests) == 1)
        script.add(2)
        del fixture.scripted[LEADER]
        fixture.replicas[ORDERS] = (2,)
        await fixture.place(2, "orders")
        await fixture.until(lambda: len(script.completed) == 2, limit_ms=5_000)
        script.leader.close()

    run_scenario(scenario)


def test_unknown_leader_is_tried_as_soon_as_metadata_has_it() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        fixture.leaders[ORDERS] = -1, 1
        await fixture.announce([ORDERS])
        script.add(1)
        await fixture.clock.sleep_ms(10_100)
        assert (script.requests, script.completed) == ([], [])
        await fixture.place(LEADER, "orders")
        await fixture.until(lambda: bool(script.completed), limit_ms=20)

    run_scenario(scenario)


def test_deleted_partition_is_dropped_and_the_others_go_on() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture, "orders", "letters")
        script.codes = dict.fromkeys((ORDERS, LETTERS), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        script.add(1, ORDERS, LETTERS)
        await fixture.until(lambda: len(script.requests) == 2)
        fixture.leaders[ORDERS] = -2, 1
        await fixture.announce([ORDERS])
        await fixture.until(lambda: script.completed == [(1, (ORDERS,))], limit_ms=20)
        script.codes.clear()
        await fixture.until(lambda: len(script.completed) == 2)

    run_scenario(scenario)


def test_markers_are_given_up_with_the_transaction_state_partition() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.silence()
        script.add(1, number=0)
        await fixture.until(lambda: len(script.requests) == 1)
        script.add(2, number=0)
        script.add(3, number=1)
        fixture.replicas[TopicPartition(TRANSACTIONS_TOPIC, 0)] = (1, 2)
        await fixture.place(2, TRANSACTIONS_TOPIC, 0)
        script.leader.responses[WRITE_TXN_MARKERS] = script.respond
        script.leader.drop_connections()
        await fixture.clock.sleep_ms(10_000)
        assert script.completed == [(3, (ORDERS,))]
        assert producers(script.requests[1]) == [3]

    run_scenario(scenario)


def test_markers_of_two_transactions_of_a_producer_are_in_two_requests() -> None:
    """The response names the producer only."""

    async def scenario(fixture: CoordinatorCluster) -> None:
        script = await MarkerScript.create(fixture)
        script.add(1, epoch=0)
        script.add(1, epoch=1)
        await fixture.until(lambda: len(script.completed) == 2)
        epochs = [[marker.producer_epoch for marker in request.markers] for request in script.requests]
        assert epochs == [[0], [1]]

    run_scenario(scenario)


# Whole transactions.


def test_transaction_with_coordinator_and_leader_on_different_brokers() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, transactions=1, groups=2)
        await fixture.create("orders", 1, (2,))
        await fixture.place(2, "orders")
        router = TransactionRouter(fixture, coordinator=1, leader=2, groups=2)
        producer = TransactionalProducer(router)
        assert await producer.init() == 0
        await producer.transact(b"a")
        assert await producer.add_offsets() == 0
        assert await producer.commit_offset(7) == 0
        assert await producer.end() == 0
        assert await producer.wait_until_complete() == "CompleteCommit"
        _, offsets = fixture[2].groups.shard_of("g").fetch_offsets("g", None, False)
        assert offsets[ORDERS].offset == 7
        partition = fixture[2].partition("orders")
        assert (partition.log_end_offset, partition.log.last_stable_offset) == (2, 2)

    run_scenario(scenario)


def test_coordinator_that_missed_an_epoch_writes_markers_under_its_new_one() -> None:
    """Broker 2 led in between and wrote a marker under a higher epoch, which fences the earlier one."""

    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, transactions=1, replicas=(1, 2))
        for topic, leader in (("orders", 2), ("letters", -1)):
            await fixture.create(topic, 1, (2,))
            fixture.leaders[TopicPartition(topic, 0)] = leader, 0
        await fixture.announce([ORDERS, LETTERS])
        await fixture.tell(2, "orders")
        coordinator = fixture[1].transactions
        number = coordinator._topic.partition_of("ledger")

        async def submit(command: Any) -> Any:
            responses: list[Any] = []
            coordinator.submit("ledger", command, responses.append)
            await fixture.until(lambda: bool(responses))
            return responses[0]

        await submit(InitProducerId("ledger", 60_000, new_producer_id=5))
        await submit(AddPartitions("ledger", 5, 0, (ORDERS, LETTERS)))
        assert await submit(EndTransaction("ledger", 5, 0, True)) is ErrorCode.NONE
        await fixture.until(lambda: fixture[2].log_end_offset("orders") == 1)
        await fixture.until_replicated(TRANSACTIONS_TOPIC, number)
        await fixture.place(2, TRANSACTIONS_TOPIC, to=[2])
        await fixture.until(lambda: not fixture[2].transactions.is_loading)
        await fixture.until(lambda: fixture[2].coordinator_epochs("orders") == {1})
        await fixture.place(1, TRANSACTIONS_TOPIC)
        await fixture.place(2, "letters")
        await fixture.until(
            lambda: coordinator.shard_of("ledger").describe("ledger").state == "CompleteCommit"
        )
        assert fixture[2].coordinator_epochs("orders") == fixture[2].coordinator_epochs("letters") == {2}

    run_scenario(scenario)
