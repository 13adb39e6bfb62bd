"""When a failed call is tried again, and what an error means for the client that met it."""

from __future__ import annotations

import enum

from odradek.config.client.connection import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from odradek.config.definition import Settings
from odradek.model.client_errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    ClientError,
    ProducerFenced,
    RecordTooLarge,
    RequestRefused,
    UnknownTopic,
)
from odradek.model.errors import ErrorCode
from odradek.net.backoff import exponential_backoff_ms
from odradek.ports.entropy import Entropy


def backoff(attempt: int, settings: Settings, entropy: Entropy) -> int:
    """Milliseconds to wait before a retry; ``attempt`` is 0 for the first one."""
    return exponential_backoff_ms(
        settings[RETRY_BACKOFF_MS], settings[RETRY_BACKOFF_MAX_MS], attempt, entropy
    )


class Remedy(enum.Enum):
    """What a client does about an error code."""

    NONE = "there is no error"
    RETRY = "try again after a while"
    REFRESH = "ask for metadata, then try again"
    FIND_COORDINATOR = "find the coordinator again, then try again"
    FAIL = "tell the caller"


_COORDINATOR_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_AUTHENTICATION = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
_AUTHORIZATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_CLASS_OF: dict[ErrorCode, type[RequestRefused]] = {
    **dict.fromkeys(_AUTHENTICATION, AuthenticationFailed),
    **dict.fromkeys(_AUTHORIZATION, AuthorizationFailed),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopic,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
}


def remedy(code: ErrorCode) -> Remedy:
    """What to do about a code, where a call gives it no meaning of its own."""
    if code is ErrorCode.NONE:
        return Remedy.NONE
    if code in _COORDINATOR_ELSEWHERE:
        return Remedy.FIND_COORDINATOR
    if code.stale_metadata:
        return Remedy.REFRESH
    return Remedy.RETRY if code.retriable else Remedy.FAIL


def broker_error(
    code: ErrorCode | int, what: str, *, message: str | None = None, broker: str | None = None
) -> ClientError:
    """The exception for a broker's error code: ``what`` was tried, ``message`` are the broker's words."""
    known = ErrorCode(code)
    words = f"{what}: {known.name}" + (f": {message}" if message and message != known.name else "")
    return _CLASS_OF.get(known, RequestRefused)(words, code=known, broker=broker)
