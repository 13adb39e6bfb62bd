"""Numbers of an idempotent producer, among brokers that lose, refuse and move what they are sent."""

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
PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
sequences = st.integers(0, LAST)
STEPS = {"send": 8, "serve": 8, "answer": 8, "refuse": 1, "break": 3, "expire": 2, "move": 1, "look": 2}
STEP_COUNT = 120
COUNT_MAX = 5
"""Larger batches are refused, and must be cut."""


@given(sequences, st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_sequences_add_up_across_the_wrap(sequence: int, one: int, other: int) -> None:
    assert later_sequence(later_sequence(sequence, one), other) == later_sequence(sequence, one + other)
    assert later_sequence(later_sequence(sequence, one), -one) == sequence
    assert 0 <= later_sequence(sequence, one) <= LAST


@given(sequences, st.integers(1, SEQUENCE_COUNT // 2 - 1))
def test_a_later_sequence_is_later_across_the_wrap(sequence: int, count: int) -> None:
    after = later_sequence(sequence, count)
    assert is_later(after, sequence)
    assert not is_later(sequence, after)
    assert not is_later(sequence, sequence)


def test_the_sequence_after_the_last_one_is_zero() -> None:
    assert later_sequence(LAST, 1) == 0


def test_batches_are_numbered_across_the_wrap() -> None:
    numbers = PartitionSequences()
    numbers.identity = ProducerIdentity(7, 0)
    numbers.next_sequence = LAST - 1
    before, across, after = (Batch(name, PLACES[0], count) for name, count in (("a", 1), ("b", 3), ("c", 2)))
    for batch in (before, across, after):
        numbers.leave(batch)
    assert [one.base_sequence for one in (before, across, after)] == [LAST - 1, LAST, 2]
    for batch in (before, across, after):
        assert numbers.acked is None or numbers.is_next(batch.base_sequence)
        numbers.acknowledge(batch, 0)
    assert numbers.acked == 3
    assert numbers.is_next(numbers.next_sequence)


def test_an_answer_out_of_turn_across_the_wrap_does_not_take_the_last_sequence_back() -> None:
    numbers = PartitionSequences()
    numbers.identity = ProducerIdentity(7, 0)
    numbers.next_sequence = LAST
    early, late = Batch("a", PLACES[0], 1), Batch("b", PLACES[0], 1)
    numbers.leave(early)
    numbers.leave(late)
    numbers.acknowledge(late, 11)
    numbers.acknowledge(early, 10)
    assert numbers.acked == 0
    assert numbers.acked_offset == 11


def test_a_gap_is_closed_across_the_wrap() -> None:
    numbers = PartitionSequences()
    numbers.identity = ProducerIdentity(7, 0)
    numbers.next_sequence = LAST
    refused, after = Batch("a", PLACES[0], 2), Batch("b", PLACES[0], 2)
    numbers.leave(refused)
    numbers.leave(after)
    numbers.close_gap(refused)
    assert after.base_sequence == LAST
    assert numbers.next_sequence == 1
    assert numbers.in_flight == [after]


def test_an_epoch_after_the_last_one_needs_a_new_id() -> None:
    numbers = Sequences()
    numbers.become(ProducerIdentity(7, EPOCH_MAX - 1))
    assert numbers.bump()
    assert numbers.identity == (7, EPOCH_MAX)
    assert not numbers.bump()
    assert not numbers.identity.is_known


def test_a_producer_gets_a_new_id_after_its_last_epoch() -> None:
    world = ProducerSimulation(None)
    world.look()
    world.answer(InitProducerIdResponse(producer_id=7, producer_epoch=EPOCH_MAX))
    first = world.send(PLACES[0], 2)
    second = world.send(PLACES[1], 1)
    world.look()
    world.expire(first)
    third = world.send(PLACES[0], 1)
    world.look()
    assert world.machine.state is TxnManagerState.INITIALIZING
    assert third.base_sequence == NO_SEQUENCE
    world.answer(InitProducerIdResponse(producer_id=8, producer_epoch=0))
    world.look()
    assert third.numbers == (8, 0, 0)
    assert second.numbers == (7, EPOCH_MAX, 0)


def test_parts_of_a_batch_take_its_place_and_leave_one_after_the_other() -> None:
    numbers = Sequences()
    numbers.become(ProducerIdentity(7, 0))
    whole, other = Batch("a", PLACES[0], 4), Batch("b", PLACES[0], 1)
    numbers.leave(whole)
    numbers.leave(other)
    parts = [Batch("a1", PLACES[0], 3), Batch("a2", PLACES[0], 1)]
    for part, sequence in zip(parts, (0, 3), strict=True):
        part.producer_id, part.producer_epoch, part.base_sequence = 7, 0, sequence
    numbers.of(PLACES[0]).replace(whole, list(parts))
    assert numbers.of(PLACES[0]).in_flight == [*parts, other]
    assert [numbers.may_leave(one) for one in (*parts, other)] == [True, False, False]
    numbers.of(PLACES[0]).acknowledge(parts[0], 10)
    assert [numbers.may_leave(one) for one in (parts[1], other)] == [True, False]


def test_a_batch_written_under_its_old_numbers_leaves_no_gap_in_the_new_ones() -> None:
    numbers = PartitionSequences()
    numbers.identity = ProducerIdentity(7, 0)
    first, second = Batch("a", PLACES[0], 2), Batch("b", PLACES[0], 3)
    numbers.leave(first)
    numbers.leave(second)
    numbers.begin_anew(ProducerIdentity(7, 1))
    assert (first.base_sequence, second.base_sequence) == (0, 2)
    numbers.acknowledge(first, 10)
    assert second.numbers == (7, 1, 0)
    assert numbers.next_sequence == 3


class _Play:
    """A producer without transactions among brokers that do as the steps say."""

    def __init__(self, first_epoch: int) -> None:
        self.world = ProducerSimulation(None)
        self.brokers = Brokers(COUNT_MAX)
        self.world.on_event = self._heard
        self.next_id = 0
        self.first_epoch = first_epoch

    def _heard(self, event: str) -> None:
        if " leaves as " in event:
            batch = self.world.batches[event.split(maxsplit=1)[0]]
            channel = self.brokers.at(batch.place)[-1]
            channel.requests.append(Request(batch.name, batch.count, *batch.numbers))
            open_count = sum(
                1 for one in self.world.in_flight.values() if one.place == batch.place and not one.fates
            )
            assert open_count <= IN_FLIGHT_MAX

    def step(self, kind: str, number: int) -> None:
        place = PLACES[number % 2]
        channels = self.brokers.at(place)
        channel = channels[number // 2 % len(channels)]
        if kind == "send":
            self.world.send(place, 1 + number % 7)
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
        self.look()

    def _answer(self, answer: tuple[Request, ErrorCode, int] | None) -> None:
        if answer is None:
            return
        request, code, offset = answer
        batch = self.world.batches[request.name]
        if code is ErrorCode.NONE:
            self.world.written(batch, offset)
        else:
            self.world.refused(batch, code)

    def look(self) -> None:
        self.world.now_ms += 1
        self.world.look()
        if self.world.asked is not None:
            self.next_id += 1
            epoch = self.first_epoch if self.next_id == 1 else 0
            self.world.answer(InitProducerIdResponse(producer_id=self.next_id, producer_epoch=epoch))
            self.world.look()

    def calm_down(self) -> None:
        """Everything works from now on: whatever is left gets through, or has its answer."""
        for _ in range(200):
            for channels in self.brokers.channels.values():
                for channel in channels:
                    channel.serve()
                    self._answer(channel.answered())
            self.look()


@pytest.mark.parametrize("first_epoch", [0, 32766])
@settings(max_examples=150, deadline=None)
@given(chance=st.randoms(use_true_random=True))
def test_batches_are_written_once_and_in_order_whatever_happens(first_epoch: int, chance: Random) -> None:
    play = _Play(first_epoch)
    for kind in chance.choices(list(STEPS), list(STEPS.values()), k=STEP_COUNT):
        play.step(kind, chance.randrange(1000))
    play.calm_down()
    assert all(len(batch.fates) == 1 for batch in play.world.batches.values())
    for place, log in play.brokers.logs.items():
        assert max(Counter(log.written).values(), default=1) == 1
        # Parts of a batch stand where it stood.
        sent = {batch.name: batch for batch in play.world.batches.values() if batch.place == place}
        assert log.written == [name for name in sent if name in log.written]
        assert {name for name, batch in sent.items() if batch.fates == [None]} <= set(log.written)
