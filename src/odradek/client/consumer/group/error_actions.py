"""Actions of a member for the coordinator's error codes, by API."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from odradek.model.errors import ErrorCode


class GroupApi(enum.Enum):
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    COMMIT = "OffsetCommit"


class GroupErrorAction(enum.Enum):
    NONE = "no error"
    RETRY = "retry after the backoff"
    REDISCOVER = "find the coordinator, then retry"
    REJOIN = "rejoin: the group is rebalancing"
    REJOIN_WITH_MEMBER_ID = "rejoin with the member id in the response"
    RESET_GENERATION = "lose the assignment and rejoin with the same member id"
    RESET_MEMBER_ID = "lose the assignment and rejoin as a new member"
    FAIL = "raise in the application"


_E = ErrorCode
_COORDINATOR_MOVED: Final = {
    _E.NOT_COORDINATOR: GroupErrorAction.REDISCOVER,
    _E.COORDINATOR_NOT_AVAILABLE: GroupErrorAction.REDISCOVER,
}
_GENERATION_LOST: Final = {
    _E.UNKNOWN_MEMBER_ID: GroupErrorAction.RESET_MEMBER_ID,
    _E.ILLEGAL_GENERATION: GroupErrorAction.RESET_GENERATION,
}

ERROR_ACTIONS: Final[Mapping[GroupApi, Mapping[ErrorCode, GroupErrorAction]]] = {
    GroupApi.JOIN: {
        **_COORDINATOR_MOVED,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.MEMBER_ID_REQUIRED: GroupErrorAction.REJOIN_WITH_MEMBER_ID,
        _E.UNKNOWN_MEMBER_ID: GroupErrorAction.RESET_MEMBER_ID,
    },
    GroupApi.SYNC: {
        **_COORDINATOR_MOVED,
        **_GENERATION_LOST,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
    GroupApi.HEARTBEAT: {
        **_COORDINATOR_MOVED,
        **_GENERATION_LOST,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
    GroupApi.COMMIT: {
        **_COORDINATOR_MOVED,
        **_GENERATION_LOST,
        _E.REQUEST_TIMED_OUT: GroupErrorAction.REDISCOVER,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.UNKNOWN_TOPIC_OR_PARTITION: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
}


def error_action(api: GroupApi, code: ErrorCode) -> GroupErrorAction:
    """Return the action for an error code; codes not in the table fail."""
    if code is ErrorCode.NONE:
        return GroupErrorAction.NONE
    return ERROR_ACTIONS[api].get(code, GroupErrorAction.FAIL)
