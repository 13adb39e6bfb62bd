"""Schemas of the records in ``__transaction_state``, named as in Kafka's message definitions.

A key or value is an int16 version followed by the fields. Values of version 1 are flexible; Kafka writes them
if the feature ``transaction.version`` is enabled, which requires KRaft.
"""

from __future__ import annotations

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
