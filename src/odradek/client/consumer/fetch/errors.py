"""Actions for partition errors in Fetch responses.

========================  ==============================================================================
action                    effect
========================  ==============================================================================
UPDATE_METADATA           request a metadata update; fetch again after it, or after the backoff
RETRY                     fetch again after the backoff
DEFER                     kept until ``poll``: reset the position by policy, or raise the error
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
    UPDATE_METADATA = "update metadata, then fetch again"
    RETRY = "fetch again after the backoff"
    DEFER = "reset by policy, or raise in poll"


class FetchError(NamedTuple):
    """An error deferred to ``poll``: its code, the fetch offset, and the broker."""

    code: ErrorCode
    offset: int
    broker: str


_RETRY: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_UPDATE_METADATA: Final = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE})


def fetch_error_action(error: ErrorCode) -> FetchErrorAction:
    if error.stale_metadata or error in _UPDATE_METADATA:
        return FetchErrorAction.UPDATE_METADATA
    if error in _RETRY or (error.retriable and error is not ErrorCode.CORRUPT_MESSAGE):
        return FetchErrorAction.RETRY
    return FetchErrorAction.DEFER


def fetch_exception(partition: TopicPartition, fetch_error: FetchError) -> ClientError:
    """Return the exception to raise in ``poll``."""
    if fetch_error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(
            f"offset {fetch_error.offset} of {partition} is out of range (auto.offset.reset=none)",
            code=fetch_error.code,
            broker=fetch_error.broker,
        )
    operation = f"fetch of {partition} at offset {fetch_error.offset}"
    if fetch_error.code is ErrorCode.CORRUPT_MESSAGE:
        return RecordCorrupt(
            f"{operation}: the broker reports corrupt records",
            code=fetch_error.code,
            broker=fetch_error.broker,
        )
    return broker_error(fetch_error.code, operation, broker=fetch_error.broker)
