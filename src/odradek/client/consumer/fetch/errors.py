"""What a partition's error in an answer to Fetch means.

========================  ==============================================================================
reaction                  what is done
========================  ==============================================================================
REFRESH                   the partition is left alone until metadata tells who leads it, or a while
RETRY                     the partition is asked for again after a while
SETTLE                    kept until ``poll``: the position is reset by policy, or the error is raised
========================  ==============================================================================
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from odradek.client.errors import broker_error
from odradek.model.client_errors import ClientError, OffsetOutOfRange, RecordCorrupt
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


class FetchErrorAction(enum.Enum):
    REFRESH = "ask for metadata, then fetch again"
    RETRY = "fetch again after a while"
    SETTLE = "reset by policy, or tell the application"


class FetchError(NamedTuple):
    """An error that waits for ``poll``, and where it was met."""

    error: ErrorCode
    offset: int
    broker: str


_RETRY: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_REFRESH: Final = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE})


def fetch_error_action(error: ErrorCode) -> FetchErrorAction:
    """What to do about a partition's error."""
    if error.stale_metadata or error in _REFRESH:
        return FetchErrorAction.REFRESH
    if error in _RETRY or (error.retriable and error is not ErrorCode.CORRUPT_MESSAGE):
        return FetchErrorAction.RETRY
    return FetchErrorAction.SETTLE


def fetch_exception(partition: TopicPartition, trouble: FetchError) -> ClientError:
    """The exception for an error that only the application can deal with."""
    if trouble.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(
            f"offset {trouble.offset} of {partition} is outside the log, and auto.offset.reset is none",
            code=trouble.error,
            broker=trouble.broker,
        )
    what = f"fetching {partition} at offset {trouble.offset}"
    if trouble.error is ErrorCode.CORRUPT_MESSAGE:
        return RecordCorrupt(
            f"{what}: the broker has corrupt records", code=trouble.error, broker=trouble.broker
        )
    return broker_error(trouble.error, what, broker=trouble.broker)
