"""ListTransactions, key 66: the transactions this broker coordinates. Versions 0 and 1, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@message(versions=range(0, 2), flexible=0)
class ListTransactionsRequest:
    """Filters by state and producer id; v1 adds a duration filter."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(since=1, default=-1)


@structure
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(versions=range(0, 2), flexible=0)
class ListTransactionsResponse:
    """The matching transactions, and the unknown states of the filter."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
