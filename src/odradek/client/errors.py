"""Exceptions for broker error codes, and the backoff of retries."""

from __future__ import annotations

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
    """Return the milliseconds to wait before a retry; ``attempt`` is 0 for the first one."""
    return exponential_backoff_ms(
        settings[RETRY_BACKOFF_MS], settings[RETRY_BACKOFF_MAX_MS], attempt, entropy
    )


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
_EXCEPTION_CLASSES: dict[ErrorCode, type[RequestRefused]] = {
    **dict.fromkeys(_AUTHENTICATION, AuthenticationFailed),
    **dict.fromkeys(_AUTHORIZATION, AuthorizationFailed),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopic,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
}


def broker_error(
    code: ErrorCode | int, what: str, *, message: str | None = None, broker: str | None = None
) -> ClientError:
    """Return the exception for an error code; ``what`` failed, ``message`` is the broker's error message."""
    error = ErrorCode(code)
    text = f"{what}: {error.name}" + (f": {message}" if message and message != error.name else "")
    return _EXCEPTION_CLASSES.get(error, RequestRefused)(text, code=error, broker=broker)
