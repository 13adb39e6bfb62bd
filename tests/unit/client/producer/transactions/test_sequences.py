"""Sequences of an idempotent producer, with brokers that lose, reject and move batches."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simulation.partition_log_model import Brokers, Request
from tests.support.simulation.producer_simulation import Batch, ProducerSimulation

from odradek.client.producer.transactions.sequences import (
    EPOCH_MAX,
    IN_FLIGHT_MAX,
    SEQUENCE_COUNT,
    PartitionSequences,
    ProducerIdentity,
    Sequences,
    is_later,
    later_sequence,
)
from odradek.client.producer.transactions.states import TxnManagerState
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_SEQUENCE, TopicPartition
from odradek.wire.messages.init_producer_id import InitProducerIdResponse

LAST = SEQUENCE_COUNT - 1
PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
sequences = st.integers(0, LAST)
STEPS = {"send": 8, "serve": 8, "respond": 8, "reject": 1, "break": 3, "expire": 2, "move": 1, "run": 2}
STEP_COUNT = 120
COUNT_MAX = 5
"""Larger batches are rejected, and must be split."""


@given(sequences, st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_later_sequence_wraps_around(sequence: int, first: int, second: int) -> None:
    assert later_sequence(later_sequence(sequence, first), second) == later_sequence(sequence, first + second)
    assert later_sequence(later_sequence(sequence, first), -first) == sequence
    assert 0 <= later_sequence(sequence, first) <= LAST


@given(sequences, st.integers(1, SEQUENCE_COUNT // 2 - 1))
def test_is_later_across_the_wrap(sequence: int, count: int) -> None:
    after = later_sequence(sequence, count)
    assert is_later(after, sequence)
    assert not is_later(sequence, after)
    assert not is_later(sequence, sequence)


def test_sequence_after_the_last_is_zero() -> None:
    assert later_sequence(LAST, 1) == 0


def test_sequences_are_assigned_across_the_wrap() -> None:
    sequences = PartitionSequences()
    sequences.identity = ProducerIdentity(7, 0)
    sequences.next_sequence = LAST - 1
    before, across, after = (
        Batch(name, PARTITIONS[0], count) for name, count in (("a", 1), ("b", 3), ("c", 2))
    )
    for batch in (before, across, after):
        sequences.assign(batch)
    assert [batch.base_sequence for batch in (before, across, after)] == [LAST - 1, LAST, 2]
    for batch in (before, across, after):
        assert sequences.last_acked is None or sequences.is_next(batch.base_sequence)
        sequences.acknowledge(batch, 0)
    assert sequences.last_acked == 3
    assert sequences.is_next(sequences.next_sequence)


def test_out_of_order_response_across_the_wrap_keeps_the_last_acked_sequence() -> None:
    sequences = PartitionSequences()
    sequences.identity = ProducerIdentity(7, 0)
    sequences.next_sequence = LAST
    early, late = Batch("a", PARTITIONS[0], 1), Batch("b", PARTITIONS[0], 1)
    sequences.assign(early)
    sequences.assign(late)
    sequences.acknowledge(late, 11)
    sequences.acknowledge(early, 10)
    assert sequences.last_acked == 0
    assert sequences.acked_offset == 11


def test_sequences_are_adjusted_across_the_wrap() -> None:
    sequences = PartitionSequences()
    sequences.identity = ProducerIdentity(7, 0)
    sequences.next_sequence = LAST
    rejected, after = Batch("a", PARTITIONS[0], 2), Batch("b", PARTITIONS[0], 2)
    sequences.assign(rejected)
    sequences.assign(after)
    sequences.remove_and_adjust(rejected)
    assert after.base_sequence == LAST
    assert sequences.next_sequence == 1
    assert sequences.in_flight == [after]


def test_bump_after_the_last_epoch_needs_a_new_producer_id() -> None:
    sequences = Sequences()
    sequences.set_identity(ProducerIdentity(7, EPOCH_MAX - 1))
    assert sequences.bump()
    assert sequences.identity == (7, EPOCH_MAX)
    assert not sequences.bump()
    assert not sequences.identity.is_known


def test_producer_gets_a_new_producer_id_after_the_last_epoch() -> None:
    producer = ProducerSimulation(None)
    producer.run_once()
    producer.respond(InitProducerIdResponse(producer_id=7, producer_epoch=EPOCH_MAX))
    first = producer.send(PARTITIONS[0], 2)
    second = producer.send(PARTITIONS[1], 1)
    producer.run_once()
    producer.expire(first)
    third = producer.send(PARTITIONS[0], 1)
    producer.run_once()
    assert producer.manager.state is TxnManagerState.INITIALIZING
    assert third.base_sequence == NO_SEQUENCE
    producer.respond(InitProducerIdResponse(producer_id=8, producer_epoch=0))
    producer.run_once()
    assert third.numbers == (8, 0, 0)
    assert second.numbers == (7, EPOCH_MAX, 0)


def test_parts_of_a_split_batch_are_sent_one_after_another() -> None:
    sequences = Sequences()
    sequences.set_identity(ProducerIdentity(7, 0))
    whole, other = Batch("a", PARTITIONS[0], 4), Batch("b", PARTITIONS[0], 1)
    sequences.assign(whole)
    sequences.assign(other)
    parts = [Batch("a1", PARTITIONS[0], 3), Batch("a2", PARTITIONS[0], 1)]
    for part, sequence in zip(parts, (0, 3), strict=True):
        part.producer_id, part.producer_epoch, part.base_sequence = 7, 0, sequence
    sequences.of(PARTITIONS[0]).replace(whole, list(parts))
    assert sequences.of(PARTITIONS[0]).in_flight == [*parts, other]
    assert [sequences.may_send(batch) for batch in (*parts, other)] == [True, False, False]
    sequences.of(PARTITIONS[0]).acknowledge(parts[0], 10)
    assert [sequences.may_send(batch) for batch in (parts[1], other)] == [True, False]


def test_batch_acked_with_its_old_sequence_leaves_no_gap() -> None:
    sequences = PartitionSequences()
    sequences.identity = ProducerIdentity(7, 0)
    first, second = Batch("a", PARTITIONS[0], 2), Batch("b", PARTITIONS[0], 3)
    sequences.assign(first)
    sequences.assign(second)
    sequences.reset(ProducerIdentity(7, 1))
    assert (first.base_sequence, second.base_sequence) == (0, 2)
    sequences.acknowledge(first, 10)
    assert second.numbers == (7, 1, 0)
    assert sequences.next_sequence == 3


class _Simulation:
    """A producer without transactions, and brokers that follow the steps."""

    def __init__(self, first_epoch: int) -> None:
        self.producer = ProducerSimulation(None)
        self.brokers = Brokers(COUNT_MAX)
        self.producer.on_event = self._on_event
        self.next_id = 0
        self.first_epoch = first_epoch

    def _on_event(self, event: str) -> None:
        if " sent as " in event:
            batch = self.producer.batches[event.split(maxsplit=1)[0]]
            channel = self.brokers.at(batch.topic_partition)[-1]
            channel.requests.append(Request(batch.name, batch.count, *batch.numbers))
            open_count = sum(
                1
                for other in self.producer.in_flight.values()
                if other.topic_partition == batch.topic_partition and not other.results
            )
            assert open_count <= IN_FLIGHT_MAX

    def step(self, kind: str, number: int) -> None:
        partition = PARTITIONS[number % 2]
        channels = self.brokers.at(partition)
        channel = channels[number // 2 % len(channels)]
        if kind == "send":
            self.producer.send(partition, 1 + number % 7)
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
        self.run_once()

    def _respond(self, response: tuple[Request, ErrorCode, int] | None) -> None:
        if response is None:
            return
        request, code, offset = response
        batch = self.producer.batches[request.name]
        if code is ErrorCode.NONE:
            self.producer.acknowledge(batch, offset)
        else:
            self.producer.respond_with_error(batch, code)

    def run_once(self) -> None:
        self.producer.now_ms += 1
        self.producer.run_once()
        if self.producer.request_in_flight is not None:
            self.next_id += 1
            epoch = self.first_epoch if self.next_id == 1 else 0
            self.producer.respond(InitProducerIdResponse(producer_id=self.next_id, producer_epoch=epoch))
            self.producer.run_once()

    def recover(self) -> None:
        """Run without failures until all batches are completed."""
        for _ in range(200):
            for channels in self.brokers.channels.values():
                for channel in channels:
                    channel.serve()
                    self._respond(channel.answered())
            self.run_once()


@pytest.mark.parametrize("first_epoch", [0, 32766])
@settings(max_examples=150, deadline=None)
@given(random=st.randoms(use_true_random=True))
def test_batches_are_written_once_and_in_order_under_failures(first_epoch: int, random: Random) -> None:
    simulation = _Simulation(first_epoch)
    for kind in random.choices(list(STEPS), list(STEPS.values()), k=STEP_COUNT):
        simulation.step(kind, random.randrange(1000))
    simulation.recover()
    assert all(len(batch.results) == 1 for batch in simulation.producer.batches.values())
    for partition, log in simulation.brokers.logs.items():
        assert max(Counter(log.written).values(), default=1) == 1
        # Parts of a split batch are in its position.
        sent = {
            batch.name: batch
            for batch in simulation.producer.batches.values()
            if batch.topic_partition == partition
        }
        assert log.written == [name for name in sent if name in log.written]
        assert {name for name, batch in sent.items() if batch.results == [None]} <= set(log.written)
