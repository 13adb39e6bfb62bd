"""Errors of the sink, with advice."""

from __future__ import annotations

import re

import pytest

from odradek.model.client_errors import (
    BufferFull,
    ClientError,
    ConnectionFailed,
    ProducerFenced,
    RecordTooLarge,
    RequestRefused,
    TimedOut,
    UnknownTopic,
)
from odradek.model.errors import ErrorCode
from odradek.spark.options.sink_options import Guarantee, SinkOptions
from odradek.spark.sink.errors import explain

ONCE = SinkOptions({"transaction.timeout.ms": "600000"}, guarantee=Guarantee.EXACTLY_ONCE)
PLAIN = SinkOptions({})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ProducerFenced("x"), "another driver on the same checkpoint, or another attempt of this task"),
        (RequestRefused("x", code=ErrorCode.INVALID_PRODUCER_EPOCH), "another attempt of this task"),
        (ProducerFenced("x"), r"kafka.transaction.timeout.ms \(600000\)"),
        (RequestRefused("x", code=ErrorCode.INVALID_TRANSACTION_TIMEOUT), "transaction.max.timeout.ms"),
        (RecordTooLarge("x"), "kafka.max.request.size of the sink and max.message.bytes of the topic"),
        (UnknownTopic("x"), "create the topic"),
        (RequestRefused("x", code=ErrorCode.KAFKA_STORAGE_ERROR), "which may be full"),
        (BufferFull("x"), "kafka.max.block.ms"),
        (TimedOut("x"), "kafka.delivery.timeout.ms"),
        (ConnectionFailed("x"), "check that the brokers are up"),
    ],
)
def test_sink_errors_have_advice(error: ClientError, message: str) -> None:
    assert re.search(message, str(explain(error, ONCE)))


def test_sink_errors_state_what_happens_to_the_rows() -> None:
    error = ClientError("7 record(s) for t-0: NOBODY_KNOWS")
    assert str(explain(error, ONCE)).startswith(f"{error}; when this task runs again")
    assert "are written again" in str(explain(error, PLAIN))
