"""Verification of transactional writes with the coordinator, and invalidated results."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordinators.transaction_verification import AddPartitionsToTxnManager, error_for_producer
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.records.batch_producer import BatchProducer, is_transactional, transactional_producer

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHO = BatchProducer(7, 2)


class Coordinator:
    """Stub coordinator that completes commands on demand."""

    def __init__(self, error: ErrorCode | None = None) -> None:
        self.requested: list[AddPartitions] = []
        self.replies: list[Callable[[AddPartitionsResult], None]] = []
        self._error = error

    def submit(self, transactional_id: str, command: AddPartitions, reply: Any) -> None:
        if self._error is not None:
            raise BrokerError(self._error)
        self.requested.append(command)
        self.replies.append(reply)

    def complete(self, **codes: ErrorCode) -> None:
        command = self.requested[-1]
        named = {A: codes.get("a", ErrorCode.NONE), B: codes.get("b", ErrorCode.NONE)}
        self.replies[-1](
            AddPartitionsResult({partition: named[partition] for partition in command.partitions})
        )


def a_partition(name: TopicPartition, producer: ProducerStateEntry | None = None) -> Any:
    producers: dict[int, ProducerStateEntry] = {} if producer is None else {producer.producer_id: producer}
    return SimpleNamespace(topic_partition=name, leader_epoch=1, producers=producers)


def verify(
    coordinator: Coordinator, *partitions: Any, enabled: bool = True, supports_abortable: bool = True
) -> list[Any]:
    reported: list[Any] = []
    AddPartitionsToTxnManager(coordinator, lambda: enabled).verify(
        "ledger", WHO, partitions, reported.append, source=None, supports_abortable=supports_abortable
    )
    return reported


@pytest.mark.sources
def test_partitions_without_an_open_transaction_are_verified() -> None:
    coordinator = Coordinator()
    reported = verify(
        coordinator, a_partition(A, ProducerStateEntry(7, 2, transaction_first_offset=4)), a_partition(B)
    )
    assert coordinator.requested == [AddPartitions("ledger", 7, 2, (B,), verify_only=True)]
    assert reported == []
    coordinator.complete()
    assert reported == [{}]


@pytest.mark.sources
def test_no_verification_when_all_are_open_or_it_is_disabled() -> None:
    coordinator = Coordinator()
    opened = a_partition(A, ProducerStateEntry(7, 2, transaction_first_offset=0))
    assert verify(coordinator, opened) == [{}]
    assert verify(coordinator, a_partition(A), enabled=False) == [{}]
    assert coordinator.requested == []


@pytest.mark.sources
def test_only_partitions_outside_the_transaction_are_rejected() -> None:
    coordinator = Coordinator()
    reported = verify(coordinator, a_partition(A), a_partition(B))
    coordinator.complete(b=ErrorCode.TRANSACTION_ABORTABLE)
    assert reported == [{B: ErrorCode.TRANSACTION_ABORTABLE}]


@pytest.mark.sources
def test_all_partitions_are_rejected_without_a_coordinator() -> None:
    reported = verify(Coordinator(ErrorCode.NOT_COORDINATOR), a_partition(A), a_partition(B))
    assert reported == [{A: ErrorCode.NOT_COORDINATOR, B: ErrorCode.NOT_COORDINATOR}]


@pytest.mark.sources
def test_marker_written_before_the_response_invalidates_it() -> None:
    coordinator, partition = Coordinator(), a_partition(A, ProducerStateEntry(7, 2))
    reported = verify(coordinator, partition)
    partition.producers[7] = ProducerStateEntry(7, 2, coordinator_epoch=1)
    coordinator.complete()
    assert reported == [{A: ErrorCode.INVALID_TXN_STATE}]


@pytest.mark.sources
def test_leader_epoch_change_before_the_response_makes_the_producer_retry() -> None:
    coordinator, partition = Coordinator(), a_partition(A)
    reported = verify(coordinator, partition)
    partition.leader_epoch += 1
    coordinator.complete()
    assert reported == [{A: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


@pytest.mark.sources
def test_verified_write_meanwhile_does_not_invalidate_the_response() -> None:
    coordinator, partition = Coordinator(), a_partition(A)
    reported = verify(coordinator, partition)
    partition.producers[7] = ProducerStateEntry(7, 2, transaction_first_offset=3)
    coordinator.complete()
    assert reported == [{}]


@pytest.mark.parametrize(
    ("code", "known", "reported"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_error_codes_are_mapped_to_the_producer_version(
    code: ErrorCode, known: bool, reported: ErrorCode
) -> None:
    assert error_for_producer(code, known) is reported


def test_producer_is_read_from_transactional_batches_only() -> None:
    def batch(**options: Any) -> bytes:
        builder = BatchBuilder(**options)
        builder.append(1, None, b"v")
        return bytes(builder.build())

    identity = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    mine = batch(**identity, transactional=True)
    assert (is_transactional(mine), transactional_producer(mine)) == (True, WHO)
    for other in (None, b"", mine[:60], batch(**identity), batch(), bytes(61)):
        assert (is_transactional(other), transactional_producer(other)) == (False, None)
    old = bytearray(mine)
    old[16] = 1
    assert not is_transactional(old)
    unknown = bytearray(mine)
    unknown[43:51] = (-1).to_bytes(8, "big", signed=True)
    assert (is_transactional(unknown), transactional_producer(unknown)) == (True, None)
