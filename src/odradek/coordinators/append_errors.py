"""Error codes returned to clients when an append to a coordinator's partition fails.

Clients handle errors of a coordinator and know nothing about the partition behind it.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import ErrorCode

_COORDINATOR_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}

_TRANSACTION_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    **_COORDINATOR_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


def assignment_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a group whose assignment could not be stored."""
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return deletion_error(code)


def deletion_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a group or offsets that could not be deleted."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if code in _TOO_LARGE else _COORDINATOR_ERRORS.get(code, code)


def offset_commit_error(code: ErrorCode) -> ErrorCode:
    """Return the error of offsets that could not be committed."""
    too_large = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return too_large if code in _TOO_LARGE else _COORDINATOR_ERRORS.get(code, code)


def verification_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a transactional offset commit whose transaction could not be verified.

    Old clients retry it if it says that the coordinator loads, without looking for another.
    """
    if code is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return offset_commit_error(code)


def transaction_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a transition that could not be stored."""
    return _TRANSACTION_ERRORS.get(code, code)
