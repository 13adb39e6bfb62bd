"""Administrative requests in the audit log: resources and outcome, for every API of the table."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.audit import CHANGES_MAX, AuditLog
from odradek.broker.network.session import Session
from odradek.broker.requests.audited_apis import AUDITED, NAMES_MAX, audited, outcome
from odradek.broker.requests.dispatcher import LocalSession, RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.principal import user
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CREATE_TOPICS, METADATA = 19, 3


def filled(cls: Any) -> Any:
    """Return a message with one element in each of its lists, at any depth."""
    values: dict[str, Any] = {}
    for name, field in cls.FIELDS.items():
        default = getattr(cls(), name)
        element = field.of
        if element is not None and hasattr(element, "FIELDS"):
            values[name] = [filled(element)]
        elif isinstance(default, list) or (default is None and element is not None):
            values[name] = ["name"]
        elif isinstance(default, str):
            values[name] = "name"
    return cls(**values)


class AliceSession(Session):
    """Session of a client that has authenticated."""

    peer_host = "10.0.0.1"

    def __init__(self) -> None:
        self.principal = user("alice")


def request_context(session: Session | LocalSession | None = None) -> RequestContext:
    clock: Any = SimpleNamespace(monotonic_ms=lambda: 0)
    broker: Any = SimpleNamespace(audit=AuditLog(clock))
    return RequestContext(broker, 7, "client", session or AliceSession(), None, "CreateTopics")


def create_topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names])


@pytest.mark.parametrize("api_key", AUDITED)
def test_resources_of_every_audited_api(api_key: int) -> None:
    request = filled(API_BY_KEY[api_key].request)
    names = [str(name) for name in AUDITED[api_key](request)]
    assert names
    assert all(names)


def test_change_is_logged_with_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    response = CreateTopicsResponse(
        topics=[CreatableTopicResult(name="a"), CreatableTopicResult(name="b", error_code=36)]
    )
    handle = audited(CREATE_TOPICS, "CreateTopics", lambda request, context: response)
    assert handle(create_topics("a", "b"), request_context()) is response
    (line,) = caplog.messages
    for part in ("audit.changed", "principal=User:alice", "host=10.0.0.1", "api=CreateTopics", "a, b"):
        assert part in line
    assert "TOPIC_ALREADY_EXISTS" in line


def test_late_results_are_logged_once_they_are_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    response, pending = CreateTopicsResponse(), PendingResponse[Any]()

    async def later(request: Any, context: Any) -> Any:
        return response

    result = audited(CREATE_TOPICS, "CreateTopics", later)(create_topics("a"), request_context())
    assert caplog.messages == []
    assert asyncio.run(result) is response
    assert len(caplog.messages) == 1
    handle = audited(CREATE_TOPICS, "CreateTopics", lambda request, context: pending)
    values: list[Any] = []
    late = handle(create_topics("a"), request_context())
    late.then(values.append)
    assert len(caplog.messages) == 1
    pending.complete(response)
    assert (len(caplog.messages), values) == (2, [response])


@pytest.mark.parametrize("is_late", [False, True])
def test_refused_change_is_logged_too(caplog: pytest.LogCaptureFixture, is_late: bool) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")

    def refuse(request: Any, context: Any) -> Any:
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def refuse_late(request: Any, context: Any) -> Any:
        refuse(request, context)

    handle = audited(CREATE_TOPICS, "CreateTopics", refuse_late if is_late else refuse)

    async def call() -> None:
        result = handle(create_topics("a"), request_context())
        if is_late:
            await result

    with pytest.raises(BrokerError):
        asyncio.run(call())
    (line,) = caplog.messages
    assert "CLUSTER_AUTHORIZATION_FAILED" in line


def test_reads_and_requests_of_the_broker_itself_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")

    def handle(request: Any, context: Any) -> Any:
        return CreateTopicsResponse()

    assert audited(METADATA, "Metadata", handle) is handle
    context = request_context(LocalSession("broker-0", "PLAINTEXT"))
    audited(CREATE_TOPICS, "CreateTopics", handle)(create_topics("a"), context)
    assert caplog.messages == []


def test_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    context = request_context()
    handle = audited(CREATE_TOPICS, "CreateTopics", lambda request, context: CreateTopicsResponse())
    names = [f"{number}-{'x' * 1000}" for number in range(1000)]
    for _ in range(CHANGES_MAX + 10):
        handle(create_topics(*names), context)
    assert len(caplog.messages) == CHANGES_MAX
    assert "1000 resources, the first: 0-x" in caplog.messages[0]
    assert f"{NAMES_MAX}-x" not in caplog.messages[0]
    assert len(caplog.messages[0]) < 10_000


def test_outcome_names_all_errors_of_a_response() -> None:
    codes = (36, 0, 29, 36)
    response = CreateTopicsResponse(topics=[CreatableTopicResult(error_code=code) for code in codes])
    assert outcome(response) == "TOPIC_AUTHORIZATION_FAILED, TOPIC_ALREADY_EXISTS"
    assert outcome(CreateTopicsResponse()) == "NONE"
