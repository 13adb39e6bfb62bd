"""What a coordinator's error codes mean for a member, by the call that they answer."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from odradek.model.errors import ErrorCode


class GroupCall(enum.Enum):
    JOIN = "join group"
    SYNC = "hear the assignment of group"
    HEARTBEAT = "send a heartbeat to group"
    COMMIT = "commit offsets"


class Verdict(enum.Enum):
    FINE = "there is no error"
    RETRY = "the same again, after a while"
    REDISCOVER = "the coordinator is elsewhere: find it, then the same again"
    REJOIN = "the group rebalances: join it"
    IDENTIFY = "join again with the id that came with the answer"
    RESTART = "the generation is over: what was assigned is lost; join again under the same id"
    FORGET = "the group does not know this member: what was assigned is lost; join as a new one"
    FAIL = "the application must hear of it"


_E = ErrorCode
_ELSEWHERE: Final = {_E.NOT_COORDINATOR: Verdict.REDISCOVER, _E.COORDINATOR_NOT_AVAILABLE: Verdict.REDISCOVER}
_MEMBERSHIP: Final = {_E.UNKNOWN_MEMBER_ID: Verdict.FORGET, _E.ILLEGAL_GENERATION: Verdict.RESTART}

VERDICTS: Final[Mapping[GroupCall, Mapping[ErrorCode, Verdict]]] = {
    GroupCall.JOIN: {
        **_ELSEWHERE,
        _E.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
        _E.REBALANCE_IN_PROGRESS: Verdict.RETRY,
        _E.MEMBER_ID_REQUIRED: Verdict.IDENTIFY,
        _E.UNKNOWN_MEMBER_ID: Verdict.FORGET,
    },
    GroupCall.SYNC: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
        _E.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    },
    GroupCall.HEARTBEAT: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
        _E.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    },
    GroupCall.COMMIT: {
        **_ELSEWHERE,
        **_MEMBERSHIP,
        _E.REQUEST_TIMED_OUT: Verdict.REDISCOVER,
        _E.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
        _E.UNKNOWN_TOPIC_OR_PARTITION: Verdict.RETRY,
        _E.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    },
}


def verdict(call: GroupCall, code: ErrorCode) -> Verdict:
    """Codes that the table does not know are for the application."""
    return Verdict.FINE if code is ErrorCode.NONE else VERDICTS[call].get(code, Verdict.FAIL)
