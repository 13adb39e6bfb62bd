"""What a coordinator's error codes mean for a member, by the call that they answer."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from odradek.model.errors import ErrorCode


class GroupApi(enum.Enum):
    JOIN = "join group"
    SYNC = "hear the assignment of group"
    HEARTBEAT = "send a heartbeat to group"
    COMMIT = "commit offsets"


class GroupErrorAction(enum.Enum):
    FINE = "there is no error"
    RETRY = "the same again, after a while"
    REDISCOVER = "the coordinator is elsewhere: find it, then the same again"
    REJOIN = "the group rebalances: join it"
    IDENTIFY = "join again with the id that came with the answer"
    RESTART = "the generation is over: what was assigned is lost; join again under the same id"
    FORGET = "the group does not know this member: what was assigned is lost; join as a new one"
    FAIL = "the application must hear of it"


_E = ErrorCode
_ELSEWHERE: Final = {
    _E.NOT_COORDINATOR: GroupErrorAction.REDISCOVER,
    _E.COORDINATOR_NOT_AVAILABLE: GroupErrorAction.REDISCOVER,
}
_MEMBERSHIP: Final = {
    _E.UNKNOWN_MEMBER_ID: GroupErrorAction.FORGET,
    _E.ILLEGAL_GENERATION: GroupErrorAction.RESTART,
}

ERROR_ACTIONS: Final[Mapping[GroupApi, Mapping[ErrorCode, GroupErrorAction]]] = {
    GroupApi.JOIN: {
        **_ELSEWHERE,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.MEMBER_ID_REQUIRED: GroupErrorAction.IDENTIFY,
        _E.UNKNOWN_MEMBER_ID: GroupErrorAction.FORGET,
    },
    GroupApi.SYNC: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
    GroupApi.HEARTBEAT: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
    GroupApi.COMMIT: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.REQUEST_TIMED_OUT: GroupErrorAction.REDISCOVER,
        _E.COORDINATOR_LOAD_IN_PROGRESS: GroupErrorAction.RETRY,
        _E.UNKNOWN_TOPIC_OR_PARTITION: GroupErrorAction.RETRY,
        _E.REBALANCE_IN_PROGRESS: GroupErrorAction.REJOIN,
    },
}


def error_action(call: GroupApi, code: ErrorCode) -> GroupErrorAction:
    """Codes that the table does not know are for the application."""
    return (
        GroupErrorAction.FINE
        if code is ErrorCode.NONE
        else ERROR_ACTIONS[call].get(code, GroupErrorAction.FAIL)
    )
