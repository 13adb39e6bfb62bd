"""What the partitions of ``__transaction_state`` remember of a transactional id, as values and as bytes.

The bytes are those of Kafka 3.9 (``record_tables`` has the fields): values of version 0 are written, both
versions are read. Partitions are written in the order of their names; Kafka's order is that of its hashes.

Bytes that are no such record raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. Keys of a kind
nobody here knows are no error: they read as ``None``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.record_serde import read_fields, read_version, versions_of, write_fields
from odradek.coordinators.transactions.record_schemas import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.coordinators.transactions.transaction_state import BY_NUMBER, NUMBERS, TransactionState
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_TIMESTAMP, TopicPartition

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0


class StoredTransaction(NamedTuple):
    """Who may write under a transactional id, and how far the transaction is. ``start_ms`` is -1 until the
    first transaction of a producer begins; ``partitions`` are those that hear how it ends."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    update_ms: int
    start_ms: int = NO_TIMESTAMP


def read_key(raw: bytes) -> str | None:
    """The transactional id a record is about, or None for a kind that is not known."""
    version = read_version(raw)
    if version not in versions_of(TransactionLogKey):
        return None
    transactional_id: str = read_fields(TransactionLogKey, version, raw).transactional_id
    return transactional_id


def write_key(transactional_id: str) -> bytes:
    return write_fields(TransactionLogKey(transactional_id), KEY_VERSION)


def read_transaction(raw: bytes) -> StoredTransaction:
    value = read_fields(TransactionLogValue, read_version(raw), raw)
    state = _state(value.transaction_status)
    return StoredTransaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        _partitions(value.transaction_partitions, state),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
    )


def _state(number: int) -> TransactionState:
    if not 0 <= number < len(BY_NUMBER):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"no state of a transaction has the number {number}")
    return BY_NUMBER[number]


def _partitions(
    topics: Iterable[PartitionsSchema] | None, state: TransactionState
) -> frozenset[TopicPartition]:
    if state is TransactionState.EMPTY:
        return frozenset()
    if topics is None:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{state.value} without partitions")
    return frozenset(TopicPartition(each.topic, number) for each in topics for number in each.partition_ids)


def write_transaction(stored: StoredTransaction) -> bytes:
    return write_fields(
        TransactionLogValue(
            stored.producer_id,
            stored.producer_epoch,
            stored.timeout_ms,
            NUMBERS[stored.state],
            None if stored.state is TransactionState.EMPTY else _by_topic(stored.partitions),
            stored.update_ms,
            stored.start_ms,
        ),
        VALUE_VERSION,
    )


def _by_topic(partitions: Collection[TopicPartition]) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic, [each.partition for each in same])
        for topic, same in groupby(sorted(partitions), attrgetter("topic"))
    ]


def transaction_entry(transactional_id: str, stored: StoredTransaction | None) -> CoordinatorRecord:
    """The record of a transactional id; without a value, the record that it is no more."""
    return CoordinatorRecord(
        write_key(transactional_id), None if stored is None else write_transaction(stored)
    )
