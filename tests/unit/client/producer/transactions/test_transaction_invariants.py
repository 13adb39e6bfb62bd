"""Invariants of transactions under failures of coordinators, brokers and the network."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simulation.partition_log_model import Brokers, Request
from tests.support.simulation.producer_simulation import Batch, ProducerSimulation

from odradek.client.producer.transactions.request_queue import TransactionalRequestResult
from odradek.client.producer.transactions.states import ONGOING, TxnManagerState
from odradek.model.client_errors import ClientError, ConnectionFailed, InvalidState
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.end_txn import EndTxnResponse
from odradek.wire.messages.init_producer_id import InitProducerIdResponse

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
STEPS = {
    "begin": 4,
    "send": 8,
    "serve": 8,
    "respond": 8,
    "coordinate": 10,
    "silence": 2,
    "commit": 3,
    "abort": 2,
    "reject": 1,
    "break": 1,
    "expire": 1,
    "move": 1,
}
STEP_COUNT = 150


class _Simulation:
    """A simulated coordinator, and a producer whose batches are checked."""

    def __init__(self) -> None:
        self.producer = ProducerSimulation("t")
        self.producer.on_event = self._on_event
        self.brokers = Brokers()
        self.epoch = -1
        self.known: set[TopicPartition] = set()
        self.open: list[Batch] = []
        """Batches of the open transaction."""
        self.committed: list[list[Batch]] = []
        self.results: list[TransactionalRequestResult] = []
        self._watch(self.producer.manager.init_transactions())

    def _watch(self, result: TransactionalRequestResult) -> None:
        if result not in self.results:
            self.results.append(result)
            self.producer.watch(result)

    def _on_event(self, event: str) -> None:
        if " sent as " in event:
            batch = self.producer.batches[event.split(maxsplit=1)[0]]
            assert self.producer.manager.state in ONGOING
            assert batch.topic_partition in self.known, (
                "the coordinator must add a partition before it is written to"
            )
            assert batch in self.open
            assert batch.producer_epoch == self.epoch
            self.brokers.at(batch.topic_partition)[-1].requests.append(
                Request(batch.name, batch.count, *batch.numbers)
            )

    def step(self, kind: str, number: int) -> None:
        partition = PARTITIONS[number % 2]
        channels = self.brokers.at(partition)
        channel = channels[number // 2 % len(channels)]
        if kind in ("begin", "send", "commit", "abort"):
            self._call(kind, partition, number)
        elif kind == "serve":
            channel.serve()
        elif kind == "reject":
            channel.serve((ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS)[number // 4 % 2])
        elif kind == "respond":
            self._respond(channel.answered())
        elif kind == "break":
            for request in channel.broken(number // 4 % 6):
                self.producer.respond_with_error(
                    self.producer.batches[request.name], ErrorCode.NETWORK_EXCEPTION
                )
        elif kind == "expire" and self.producer.incomplete:
            self.producer.expire(self.producer.incomplete[number % len(self.producer.incomplete)])
        elif kind == "move":
            self.brokers.move(partition)
        elif kind in ("coordinate", "silence") and self.producer.request_in_flight is not None:
            self._coordinate(number, is_received=kind == "coordinate")
        self.run_once()

    def run_once(self) -> None:
        self.producer.now_ms += 60
        self.producer.run_once()

    def _call(self, kind: str, partition: TopicPartition, number: int) -> None:
        manager = self.producer.manager
        try:
            if kind == "begin":
                manager.begin_transaction()
                self.open = []
            elif kind == "send":
                self.open.append(self.producer.send(partition, 1 + number % 5))
            elif kind == "commit":
                self._watch(manager.commit_transaction())
            else:
                self._watch(manager.abort_transaction())
        except InvalidState:
            pass  # invalid in this state, and without effect

    def _respond(self, response: tuple[Request, ErrorCode, int] | None) -> None:
        if response is not None:
            request, code, offset = response
            batch = self.producer.batches[request.name]
            if code is ErrorCode.NONE:
                self.producer.acknowledge(batch, offset)
            else:
                self.producer.respond_with_error(batch, code)

    def _coordinate(self, number: int, *, is_received: bool) -> None:
        """Handle the request or respond with an error; the response may be lost."""
        assert self.producer.request_in_flight is not None
        request: Any = self.producer.request_in_flight.request
        if number % 5 == 0:
            code = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR)[number // 5 % 2]
            response = _response_to(request, code, self.epoch)
        else:
            self._do(request)
            response = _response_to(request, ErrorCode.NONE, self.epoch)
        self.producer.respond(response if is_received else ConnectionFailed("no response"))

    def _do(self, request: Any) -> None:
        name = type(request).__name__
        if name == "InitProducerIdRequest":
            self.epoch += 1
            self.known = set()
        elif name == "AddPartitionsToTxnRequest":
            self.known |= {
                TopicPartition(t.name, p) for t in request.v3_and_below_topics for p in t.partitions
            }
        else:
            assert not self.producer.incomplete, "EndTxn is sent after the last response"
            if request.committed and self.known:
                assert all(batch.results == [None] for batch in self.open), "committed batches are written"
                self.committed.append(self.open)
            self.known = set()

    def recover(self) -> None:
        for _ in range(300):
            if self.producer.request_in_flight is not None:
                self._coordinate(1, is_received=True)
            for channels in self.brokers.channels.values():
                for channel in channels:
                    channel.serve()
                    self._respond(channel.answered())
            if self.producer.manager.state in (
                TxnManagerState.IN_TRANSACTION,
                TxnManagerState.ABORTABLE_ERROR,
            ):
                self._call("abort", PARTITIONS[0], 0)
            self.run_once()


def _response_to(request: Any, code: ErrorCode, epoch: int) -> Any:
    name = type(request).__name__
    if name == "InitProducerIdRequest":
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=epoch)
    if name == "EndTxnRequest":
        return EndTxnResponse(error_code=code)
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


@settings(max_examples=150, deadline=None)
@given(random=st.randoms(use_true_random=True))
def test_transaction_invariants_hold_under_failures(random: Random) -> None:
    simulation = _Simulation()
    for kind in random.choices(list(STEPS), list(STEPS.values()), k=STEP_COUNT):
        simulation.step(kind, random.randrange(1000))
    simulation.recover()
    assert simulation.producer.manager.state is TxnManagerState.READY
    assert all(len(batch.results) == 1 for batch in simulation.producer.batches.values())
    assert all(result.is_done for result in simulation.results)
    written = [name for log in simulation.brokers.logs.values() for name in log.written]
    assert len(written) == len(set(written))
    for batch in simulation.producer.batches.values():
        error = batch.results[0]
        assert error is None or isinstance(error, ClientError)
        assert error is not None or batch.name in written
