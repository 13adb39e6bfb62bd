"""Records of ``__transaction_state``: transactional ids, as values and as bytes.

The bytes are those of Kafka 3.9, and the schemas are named as in Kafka's message definitions: a key or value
is an int16 version followed by the fields. Values of version 0 are written, both versions are read; version 1
is flexible, and Kafka writes it only with KRaft. Partitions are written in sorted order; Kafka writes them in
hash order.

Malformed records raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. A key of an unknown type is
not an error and reads as ``None``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.record_serde import read_fields, read_version, versions_of, write_fields
from odradek.coordinators.transactions.transaction_state import STATE_IDS, STATES_BY_ID, TransactionState
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_TIMESTAMP, TopicPartition
from odradek.wire.schema import array, int8, int16, int32, int64, message, string, structure


@message(versions=range(0, 1))
class TransactionLogKey:
    transactional_id: str = string()


@structure
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array(int32)


@message(versions=range(0, 2), flexible=1)
class TransactionLogValue:
    """``transaction_partitions`` is null, not empty, in state Empty."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable_since=0)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()


KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0


class StoredTransaction(NamedTuple):
    """The producer of a transactional id, and the state of its transaction. ``start_ms`` is -1 before the
    producer's first transaction; ``partitions`` are those that get a marker."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    update_ms: int
    start_ms: int = NO_TIMESTAMP


def read_key(raw: bytes) -> str | None:
    """Return the transactional id of a key; None if its type is unknown."""
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


def _state(state_id: int) -> TransactionState:
    if not 0 <= state_id < len(STATES_BY_ID):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"unknown transaction state {state_id}")
    return STATES_BY_ID[state_id]


def _partitions(
    topics: Iterable[PartitionsSchema] | None, state: TransactionState
) -> frozenset[TopicPartition]:
    if state is TransactionState.EMPTY:
        return frozenset()
    if topics is None:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"partitions must not be null in state {state.value}")
    return frozenset(TopicPartition(each.topic, number) for each in topics for number in each.partition_ids)


def write_transaction(stored: StoredTransaction) -> bytes:
    return write_fields(
        TransactionLogValue(
            stored.producer_id,
            stored.producer_epoch,
            stored.timeout_ms,
            STATE_IDS[stored.state],
            None if stored.state is TransactionState.EMPTY else _by_topic(stored.partitions),
            stored.update_ms,
            stored.start_ms,
        ),
        VALUE_VERSION,
    )


def _by_topic(partitions: Collection[TopicPartition]) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic, [partition.partition for partition in group])
        for topic, group in groupby(sorted(partitions), attrgetter("topic"))
    ]


def transaction_record(transactional_id: str, stored: StoredTransaction | None) -> CoordinatorRecord:
    """Return the record of a transactional id; a tombstone for None."""
    return CoordinatorRecord(
        write_key(transactional_id), None if stored is None else write_transaction(stored)
    )
