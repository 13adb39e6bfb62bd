"""AddPartitionsToTxn, key 24: add partitions to a transaction. Versions 0 to 5.

Versions 0 to 3 are for clients and carry one transaction in the fields ``v3_and_below_...``; versions 4
and 5 are for brokers, which may send many transactions, or only verify that a partition is in one.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@structure
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: list[int] = array(int32)


@structure
class AddPartitionsToTxnTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@message(versions=range(0, 6), flexible=3)
class AddPartitionsToTxnRequest:
    """v2 clients handle PRODUCER_FENCED; v3 is flexible; v4 carries many; v5 adds TRANSACTION_ABORTABLE."""

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, since=4)
    v3_and_below_transactional_id: str = string(until=3)
    v3_and_below_producer_id: int = int64(until=3)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)


@structure
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@structure
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@structure
class AddPartitionsToTxnResult:
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@message(versions=range(0, 6), flexible=3)
class AddPartitionsToTxnResponse:
    """An error per partition; from v4 on per transaction too, and a top-level one. v3 is flexible."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3
    )
