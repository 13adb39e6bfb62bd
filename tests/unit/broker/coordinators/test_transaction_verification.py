"""Verification of writes: when the coordinator is asked, and what its answer is worth."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordinators.transaction_verification import Verification, as_writers_know
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.records.batch_producer import BatchProducer, is_transactional, transactional_producer

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHO = BatchProducer(7, 2)


class Coordinator:
    """Answers when it is told to."""

    def __init__(self, refusal: ErrorCode | None = None) -> None:
        self.asked: list[AddPartitions] = []
        self.replies: list[Callable[[AddPartitionsResult], None]] = []
        self._refusal = refusal

    def submit(self, transactional_id: str, command: AddPartitions, reply: Any) -> None:
        if self._refusal is not None:
            raise BrokerError(self._refusal)
        self.asked.append(command)
        self.replies.append(reply)

    def answer(self, **codes: ErrorCode) -> None:
        command = self.asked[-1]
        named = {A: codes.get("a", ErrorCode.NONE), B: codes.get("b", ErrorCode.NONE)}
        self.replies[-1](AddPartitionsResult({one: named[one] for one in command.partitions}))


def a_partition(name: TopicPartition, producer: ProducerStateEntry | None = None) -> Any:
    producers: dict[int, ProducerStateEntry] = {} if producer is None else {producer.producer_id: producer}
    log = SimpleNamespace(producers=producers)
    return SimpleNamespace(topic_partition=name, leader_epoch=1, log=log)


def verify(
    coordinator: Coordinator, *partitions: Any, enabled: bool = True, knows_abortable: bool = True
) -> list[Any]:
    told: list[Any] = []
    Verification(coordinator, lambda: enabled).verify(
        "ledger", WHO, partitions, told.append, knows_abortable=knows_abortable
    )
    return told


def test_the_coordinator_is_asked_for_partitions_that_have_no_transaction_open() -> None:
    coordinator = Coordinator()
    told = verify(
        coordinator, a_partition(A, ProducerStateEntry(7, 2, transaction_first_offset=4)), a_partition(B)
    )
    assert coordinator.asked == [AddPartitions("ledger", 7, 2, (B,), verify_only=True)]
    assert told == []
    coordinator.answer()
    assert told == [{}]


def test_nobody_is_asked_if_all_have_it_open_or_it_is_turned_off() -> None:
    coordinator = Coordinator()
    opened = a_partition(A, ProducerStateEntry(7, 2, transaction_first_offset=0))
    assert verify(coordinator, opened) == [{}]
    assert verify(coordinator, a_partition(A), enabled=False) == [{}]
    assert coordinator.asked == []


def test_what_is_not_in_the_transaction_is_refused_and_the_rest_is_not() -> None:
    coordinator = Coordinator()
    told = verify(coordinator, a_partition(A), a_partition(B))
    coordinator.answer(b=ErrorCode.TRANSACTION_ABORTABLE)
    assert told == [{B: ErrorCode.TRANSACTION_ABORTABLE}]


def test_without_a_coordinator_nothing_is_let_through() -> None:
    told = verify(Coordinator(ErrorCode.NOT_COORDINATOR), a_partition(A), a_partition(B))
    assert told == [{A: ErrorCode.NOT_COORDINATOR, B: ErrorCode.NOT_COORDINATOR}]


def test_a_marker_that_came_before_the_answer_makes_it_worthless() -> None:
    coordinator, partition = Coordinator(), a_partition(A, ProducerStateEntry(7, 2))
    told = verify(coordinator, partition)
    partition.log.producers[7] = ProducerStateEntry(7, 2, coordinator_epoch=1)
    coordinator.answer()
    assert told == [{A: ErrorCode.INVALID_TXN_STATE}]


def test_so_does_another_leadership() -> None:
    coordinator, partition = Coordinator(), a_partition(A)
    told = verify(coordinator, partition)
    partition.leader_epoch += 1
    coordinator.answer()
    assert told == [{A: ErrorCode.INVALID_TXN_STATE}]


def test_but_not_a_write_of_the_transaction_that_was_let_through_meanwhile() -> None:
    coordinator, partition = Coordinator(), a_partition(A)
    told = verify(coordinator, partition)
    partition.log.producers[7] = ProducerStateEntry(7, 2, transaction_first_offset=3)
    coordinator.answer()
    assert told == [{}]


@pytest.mark.parametrize(
    ("code", "known", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_writers_are_told_what_they_understand(code: ErrorCode, known: bool, told: ErrorCode) -> None:
    assert as_writers_know(code, known) is told


def test_authors_are_read_from_batches_of_transactions_alone() -> None:
    def batch(**how: Any) -> bytes:
        builder = BatchBuilder(**how)
        builder.append(1, None, b"v")
        return bytes(builder.build())

    who = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    mine = batch(**who, transactional=True)
    assert (is_transactional(mine), transactional_producer(mine)) == (True, WHO)
    for other in (None, b"", mine[:60], batch(**who), batch(), bytes(61)):
        assert (is_transactional(other), transactional_producer(other)) == (False, None)
    old = bytearray(mine)
    old[16] = 1
    assert not is_transactional(old)
    nobody = bytearray(mine)
    nobody[43:51] = (-1).to_bytes(8, "big", signed=True)
    assert (is_transactional(nobody), transactional_producer(nobody)) == (True, None)
