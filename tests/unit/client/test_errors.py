"""What errors mean to a client, and how long it waits before it tries again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.errors import Remedy, backoff, broker_error, remedy
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
    ("attempt", "plain_ms"), [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (50, 1000)]
)
def test_waits_double_up_to_their_bound(attempt, plain_ms):
    for seed in range(20):
        assert 0.8 * plain_ms <= backoff(attempt, SETTINGS, SeededEntropy(seed)) <= 1.2 * plain_ms


@given(st.sampled_from(ErrorCode))
def test_every_error_has_one_remedy_that_agrees_with_its_flags(code):
    found = remedy(code)
    assert (found is Remedy.NONE) == (code is ErrorCode.NONE)
    assert (found is Remedy.FAIL) == (code is not ErrorCode.NONE and not code.retriable)
    assert found is not Remedy.REFRESH or code.stale_metadata


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, Remedy.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Remedy.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Remedy.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Remedy.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Remedy.REFRESH),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Remedy.RETRY),
        (ErrorCode.MESSAGE_TOO_LARGE, Remedy.FAIL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Remedy.FAIL),
    ],
)
def test_remedies_of_errors_met_often(code, expected):
    assert remedy(code) is expected


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
def test_an_error_code_becomes_an_exception_of_its_class(code, cls):
    made = broker_error(code, "topic letters", message="no", broker="1 (host:9092)")
    assert type(made) is cls
    assert made.code is code
    assert made.retriable == code.retriable
    assert str(made) == f"topic letters: {code.name}: no (broker 1 (host:9092))"


def test_a_number_that_is_no_code_we_know_is_an_error_of_the_server():
    assert broker_error(4711, "topic letters").code is ErrorCode.UNKNOWN_SERVER_ERROR
