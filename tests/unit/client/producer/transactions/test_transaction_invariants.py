"""Laws of transactions, whatever coordinators, brokers and the network do, in whatever order."""

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

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
STEPS = {
    "begin": 4,
    "send": 8,
    "serve": 8,
    "answer": 8,
    "coordinate": 10,
    "silence": 2,
    "commit": 3,
    "abort": 2,
    "refuse": 1,
    "break": 1,
    "expire": 1,
    "move": 1,
}
STEP_COUNT = 150


class _Play:
    """A coordinator that keeps what it is told, and a producer whose batches are watched."""

    def __init__(self) -> None:
        self.world = ProducerSimulation("t")
        self.world.on_event = self._heard
        self.brokers = Brokers()
        self.epoch = -1
        self.known: set[TopicPartition] = set()
        self.open: list[Batch] = []
        """Batches of the transaction that is open now."""
        self.committed: list[list[Batch]] = []
        self.operations: list[TransactionalRequestResult] = []
        self._watch(self.world.machine.init_transactions())

    def _watch(self, operation: TransactionalRequestResult) -> None:
        if operation not in self.operations:
            self.operations.append(operation)
            self.world.watch(operation)

    def _heard(self, event: str) -> None:
        if " leaves as " in event:
            batch = self.world.batches[event.split(maxsplit=1)[0]]
            assert self.world.machine.state in ONGOING
            assert batch.place in self.known, (
                "the coordinator must know of a partition before it is written to"
            )
            assert batch in self.open
            assert batch.producer_epoch == self.epoch
            self.brokers.at(batch.place)[-1].requests.append(Request(batch.name, batch.count, *batch.numbers))

    def step(self, kind: str, number: int) -> None:
        place = PLACES[number % 2]
        channels = self.brokers.at(place)
        channel = channels[number // 2 % len(channels)]
        if kind in ("begin", "send", "commit", "abort"):
            self._call(kind, place, number)
        elif kind == "serve":
            channel.serve()
        elif kind == "refuse":
            channel.serve((ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS)[number // 4 % 2])
        elif kind == "answer":
            self._answer(channel.answered())
        elif kind == "break":
            for request in channel.broken(number // 4 % 6):
                self.world.refused(self.world.batches[request.name], ErrorCode.NETWORK_EXCEPTION)
        elif kind == "expire" and self.world.incomplete:
            self.world.expire(self.world.incomplete[number % len(self.world.incomplete)])
        elif kind == "move":
            self.brokers.move(place)
        elif kind in ("coordinate", "silence") and self.world.asked is not None:
            self._coordinate(number, is_heard=kind == "coordinate")
        self.look()

    def look(self) -> None:
        self.world.now_ms += 60
        self.world.look()

    def _call(self, kind: str, place: TopicPartition, number: int) -> None:
        machine = self.world.machine
        try:
            if kind == "begin":
                machine.begin_transaction()
                self.open = []
            elif kind == "send":
                self.open.append(self.world.send(place, 1 + number % 5))
            elif kind == "commit":
                self._watch(machine.commit_transaction())
            else:
                self._watch(machine.abort_transaction())
        except InvalidState:
            pass  # the call made no sense then, and nothing has changed

    def _answer(self, answer: tuple[Request, ErrorCode, int] | None) -> None:
        if answer is not None:
            request, code, offset = answer
            batch = self.world.batches[request.name]
            if code is ErrorCode.NONE:
                self.world.written(batch, offset)
            else:
                self.world.refused(batch, code)

    def _coordinate(self, number: int, *, is_heard: bool) -> None:
        """The coordinator does what it is asked to do, or is busy; the producer hears of it, or not."""
        assert self.world.asked is not None
        request: Any = self.world.asked.request
        if number % 5 == 0:
            code = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR)[number // 5 % 2]
            answer = _answer_to(request, code, self.epoch)
        else:
            self._do(request)
            answer = _answer_to(request, ErrorCode.NONE, self.epoch)
        self.world.answer(answer if is_heard else ConnectionFailed("no answer came"))

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
            assert not self.world.incomplete, "the end comes after the last answer"
            if request.committed and self.known:
                assert all(batch.fates == [None] for batch in self.open), "what is committed is written"
                self.committed.append(self.open)
            self.known = set()

    def calm_down(self) -> None:
        for _ in range(300):
            if self.world.asked is not None:
                self._coordinate(1, is_heard=True)
            for channels in self.brokers.channels.values():
                for channel in channels:
                    channel.serve()
                    self._answer(channel.answered())
            if self.world.machine.state in (TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR):
                self._call("abort", PLACES[0], 0)
            self.look()


def _answer_to(request: Any, code: ErrorCode, epoch: int) -> Any:
    name = type(request).__name__
    if name == "InitProducerIdRequest":
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=epoch)
    if name == "EndTxnRequest":
        return EndTxnResponse(error_code=code)
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=code)
                for one in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


@settings(max_examples=150, deadline=None)
@given(chance=st.randoms(use_true_random=True))
def test_transactions_hold_whatever_happens(chance: Random) -> None:
    play = _Play()
    for kind in chance.choices(list(STEPS), list(STEPS.values()), k=STEP_COUNT):
        play.step(kind, chance.randrange(1000))
    play.calm_down()
    assert play.world.machine.state is TxnManagerState.READY
    assert all(len(batch.fates) == 1 for batch in play.world.batches.values())
    assert all(operation.is_done for operation in play.operations)
    written = [name for log in play.brokers.logs.values() for name in log.written]
    assert len(written) == len(set(written))
    for batch in play.world.batches.values():
        error = batch.fates[0]
        assert error is None or isinstance(error, ClientError)
        assert error is not None or batch.name in written
