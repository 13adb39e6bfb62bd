"""What clients are told when the log does not take what they asked a group for.

Clients know what to do about a coordinator, and nothing of the partition behind it.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import ErrorCode

_TOLD: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}

_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


def store_error(code: ErrorCode) -> ErrorCode:
    """Of a group's assignment."""
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return removal_error(code)


def removal_error(code: ErrorCode) -> ErrorCode:
    """Of the removal of a group, or of offsets."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if code in _TOO_LARGE else _TOLD.get(code, code)


def commit_error(code: ErrorCode) -> ErrorCode:
    """Of offsets."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else _TOLD.get(code, code)
