"""Authorization of every API: allowed, denied, and both in one request; and nothing told to who is denied."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.unit.broker.handlers.acl_client import (
    AUTHORIZATION_ERRORS,
    CLUSTER,
    SETTINGS,
    TOPIC,
    acl,
    allow,
    codes_by_name,
    connect_as,
    denied,
    send,
)
from tests.unit.broker.handlers.authorization_cases import (
    CLUSTER_CASES,
    NAMED_CASES,
    OTHER_CASES,
    TOPIC_CASES,
    Case,
)
from tests.unit.broker.handlers.transactional_client import TransactionalProducer, create_coordinators

from odradek.broker.handlers import HANDLERS
from odradek.broker.requests.authorization import ERROR_OF_TYPE, REQUIREMENTS
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.security.acls.authorizer import AclAuthorizer
from odradek.security.acls.bindings import AclBinding
from odradek.security.principal import user
from odradek.testing.broker import ConnectionEnded
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TOKEN_REQUESTS = {
    "CreateDelegationToken": CreateDelegationTokenRequest("User", "bob"),
    "DescribeDelegationToken": DescribeDelegationTokenRequest(None),
}
WITHOUT_TOPICS = {"CreateTopics"}
"""APIs whose entries are not existing topics."""


async def prepare(harness: Any) -> Any:
    """Create topics and coordinators; return a client with the principal ``User:alice``."""
    for topic in ("mine", "theirs"):
        await harness.create(topic)
        await harness.produce(topic, b"a")
    await create_coordinators(harness)
    committed = OffsetCommitRequestTopic("mine", [OffsetCommitRequestPartition(0, 1)])
    await send(harness.client, "OffsetCommit", 9, OffsetCommitRequest("group", topics=[committed]))
    return await connect_as(harness, "alice")


def binding_of(case: Case, name: str) -> AclBinding:
    suffix = "-new" if case.api in WITHOUT_TOPICS and case.resource_type is TOPIC else ""
    return acl(case.operation, case.resource_type, name + suffix)


def codes(response: Any, case: Case) -> dict[str, set[ErrorCode]]:
    by_name = codes_by_name(response)
    return {name.removesuffix("-new"): each for name, each in by_name.items()}


def error_of(case: Case) -> ErrorCode:
    return ERROR_OF_TYPE[case.resource_type]


@pytest.mark.parametrize("case", TOPIC_CASES, ids=str)
def test_topics_are_allowed_one_by_one(run_scenario, case: Case) -> None:
    async def scenario(harness):
        alice = await prepare(harness)
        await allow(harness, binding_of(case, "mine"), *case.always)
        for version in case.versions:
            names = ["theirs", "mine", "nowhere"]
            response = await send(alice, case.api, version, case.make(version, names))
            by_name = codes(response, case)
            assert error_of(case) not in by_name["mine"], by_name
            assert by_name["theirs"] == by_name["nowhere"] == {error_of(case)}, by_name

    run_scenario(scenario, SETTINGS)


@pytest.mark.parametrize("case", TOPIC_CASES, ids=str)
def test_denied_topic_is_as_if_it_did_not_exist(run_scenario, case: Case) -> None:
    async def scenario(harness):
        alice = await prepare(harness)
        await allow(harness, *case.always)
        for version in case.versions:
            responses = [
                repr_of(await send(alice, case.api, version, case.make(version, [name])))
                for name in ("theirs", "nowher")
            ]
            assert responses[0].replace("theirs", "nowher") == responses[1]

    run_scenario(scenario, SETTINGS)


def repr_of(value: Any) -> str:
    """Return the content of a message as text."""
    if isinstance(value, list):
        return f"[{', '.join(map(repr_of, value))}]"
    if isinstance(value, memoryview):
        return repr(bytes(value))
    names = getattr(type(value), "__slots__", None)
    if names is None or isinstance(value, str | bytes | int | tuple):
        return repr(value)
    return f"{type(value).__name__}({', '.join(f'{n}={repr_of(getattr(value, n, None))}' for n in names)})"


@pytest.mark.parametrize("case", NAMED_CASES, ids=str)
def test_groups_and_transactional_ids_are_allowed_one_by_one(run_scenario, case: Case) -> None:
    async def scenario(harness):
        alice = await prepare(harness)
        await allow(harness, binding_of(case, "mine"), *case.always)
        for version in case.versions:
            allowed = await send(alice, case.api, version, case.make(version, ["mine"]))
            assert denied(codes_by_name(allowed)) == {}, version
            refused = await send(alice, case.api, version, case.make(version, ["theirs"]))
            every = set().union(*codes_by_name(refused).values()) - {ErrorCode.NONE}
            assert every == {error_of(case)}, version
            both = codes_by_name(await send(alice, case.api, version, case.make(version, ["mine", "theirs"])))
            if {"mine", "theirs"} <= both.keys():
                assert denied(both) == {"theirs": error_of(case)}

    run_scenario(scenario, SETTINGS)


@pytest.mark.parametrize("case", CLUSTER_CASES, ids=str)
def test_cluster_is_allowed_as_a_whole(run_scenario, case: Case) -> None:
    async def scenario(harness):
        alice, bob = await prepare(harness), await connect_as(harness, "bob")
        is_any_topic = case.resource_type is TOPIC
        granted = acl(case.operation, TOPIC, "any") if is_any_topic else acl(case.operation, CLUSTER)
        await allow(harness, granted, *case.always)
        for version in case.versions:
            refused = await send(bob, case.api, version, case.make(version, ["mine"]))
            every = set().union(*codes_by_name(refused).values()) - {ErrorCode.NONE}
            assert every <= AUTHORIZATION_ERRORS, every
            if case.api != "WriteTxnMarkers":  # its response has an error for each marker only
                assert every, version
            allowed = await send(alice, case.api, version, case.make(version, ["mine"]))
            assert denied(codes_by_name(allowed)) == {} or case.api == "CreateTopics", version

    run_scenario(scenario, SETTINGS)


class RecordingAuthorizer:
    """Records the operations that handlers ask for; allows those of ``allowed``."""

    def __init__(self) -> None:
        self.asked: set[tuple[AclOperation, AclResourceType]] = set()
        self.allowed: set[AclResourceType] = set()

    def is_allowed(
        self, principal: Any, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        self.asked.add((operation, resource_type))
        return resource_type in self.allowed

    def is_allowed_on_any(
        self, principal: Any, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        return self.is_allowed(principal, host, operation, resource_type, "")


def test_table_of_requirements_is_what_handlers_ask_for(run_scenario, monkeypatch) -> None:
    """A handler asks for all it may need, if each request is sent with different things allowed.

    First come requests that need what later ones delete.
    """
    asked: dict[str, set[tuple[AclOperation, AclResourceType]]] = {}

    async def scenario(harness):
        alice = await prepare(harness)
        producer = TransactionalProducer(harness, "mine")
        assert (await producer.init(), await producer.add("mine")) == (0, {0: 0})
        recording = RecordingAuthorizer()
        monkeypatch.setattr(AclAuthorizer, "is_allowed", lambda _, *action: recording.is_allowed(*action))
        monkeypatch.setattr(AclAuthorizer, "is_allowed_on_any", lambda _, *a: recording.is_allowed_on_any(*a))
        for case in (*OTHER_CASES, *reversed(NAMED_CASES), *TOPIC_CASES, *CLUSTER_CASES):
            for allowed in ([], [CLUSTER], list(AclResourceType), [*set(AclResourceType) - {CLUSTER}]):
                recording.asked, recording.allowed = set(), set(allowed)
                with contextlib.suppress(ConnectionEnded):
                    version = case.versions[-1]
                    await send(alice, case.api, version, case.make(version, ["mine"]))
                operations = {operation for operation in recording.asked if not is_listing(case, operation)}
                asked.setdefault(case.api, set()).update(operations)

        # Only a topic that exists has an id to hide its name behind.
        recording.asked, recording.allowed = set(), set()
        by_id = DeleteTopicsRequest([DeleteTopicState(None, harness.topic_id("theirs"))], timeout_ms=1000)
        await send(alice, "DeleteTopics", 6, by_id)
        asked["DeleteTopics"] |= recording.asked

        # Tokens are for connections that prove an identity; one of another user is asked for in each way.
        authenticated = await connect_as(harness, "alice", listener="SASL_SSL")
        await harness.broker._delegation_tokens.create(user("bob"), user("bob"), [], 0)
        for api, request in TOKEN_REQUESTS.items():
            recording.asked = set()
            await send(authenticated, api, 3, request)
            asked[api] = recording.asked

    run_scenario(scenario, {**SETTINGS, "delegation.token.secret.key": "secret"})
    declared = {
        API_BY_KEY[handler.api_key].name: {
            each[:2] for each in REQUIREMENTS[API_BY_KEY[handler.api_key].name]
        }
        for handler in HANDLERS
    }
    assert {api: operations for api, operations in declared.items() if operations} == asked


def is_listing(case: Case, operation: tuple[AclOperation, AclResourceType]) -> bool:
    """Return whether an operation was asked for only to list the authorized operations."""
    return case.label == "operations" and operation != (AclOperation.DESCRIBE, CLUSTER)
