"""Exceptions for error codes, and the backoff of retries."""

from __future__ import annotations

import pytest

from odradek.client.errors import backoff, broker_error
from odradek.config.client.connection import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from odradek.config.definition import Settings
from odradek.model.client_errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    ProducerFenced,
    RecordTooLarge,
    RequestRefused,
    UnknownTopic,
)
from odradek.model.errors import ErrorCode
from odradek.testing.entropy import SeededEntropy

SETTINGS = Settings({RETRY_BACKOFF_MS: 100, RETRY_BACKOFF_MAX_MS: 1000})


@pytest.mark.parametrize(
    ("attempt", "expected_ms"), [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (50, 1000)]
)
def test_backoff_doubles_up_to_its_maximum(attempt, expected_ms):
    for seed in range(20):
        assert 0.8 * expected_ms <= backoff(attempt, SETTINGS, SeededEntropy(seed)) <= 1.2 * expected_ms


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopic),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationFailed),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, AuthenticationFailed),
        (ErrorCode.MESSAGE_TOO_LARGE, RecordTooLarge),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.INVALID_CONFIG, RequestRefused),
    ],
)
def test_error_code_maps_to_its_exception_class(code: ErrorCode, cls: type) -> None:
    error = broker_error(code, "topic letters", message="no", broker="1 (host:9092)")
    assert type(error) is cls
    assert error.code is code
    assert error.retriable == code.retriable
    assert str(error) == f"topic letters: {code.name}: no (broker 1 (host:9092))"


def test_unknown_error_code_is_unknown_server_error():
    assert broker_error(4711, "topic letters").code is ErrorCode.UNKNOWN_SERVER_ERROR
