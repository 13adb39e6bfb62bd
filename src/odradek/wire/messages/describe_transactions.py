"""DescribeTransactions, key 65: the state of transactional ids. Version 0, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@message(versions=range(0, 1), flexible=0)
class DescribeTransactionsRequest:
    """The transactional ids."""

    transactional_ids: list[str] = array(string)


@structure
class TopicData:
    topic: str = string()
    partitions: list[int] = array(int32)


@structure
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message(versions=range(0, 1), flexible=0)
class DescribeTransactionsResponse:
    """State, producer and partitions, or an error, per transactional id."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
