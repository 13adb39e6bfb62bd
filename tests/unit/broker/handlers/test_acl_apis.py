"""CreateAcls, DescribeAcls and DeleteAcls with an authorizer, and brokers that learn of changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.broker.handlers.acl_client import CLUSTER, SETTINGS, TOPIC, acl, allow, connect_as, send

from odradek.model.acl_enums import CLUSTER_NAME, AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.security.acls.bindings import ResourcePattern
from odradek.security.principal import user
from odradek.store.acls import update_acls
from odradek.store.layout import acl_znodes
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LITERAL, PREFIXED, MATCH, ANY = (
    PatternType.LITERAL,
    PatternType.PREFIXED,
    PatternType.MATCH,
    PatternType.ANY,
)
ALLOW, READ = AclPermissionType.ALLOW, AclOperation.READ
ANY_CODE = 1


def creation(name: str = "orders", **fields: Any) -> AclCreation:
    made = AclCreation(TOPIC, name, LITERAL, "User:alice", "*", READ, ALLOW)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


async def create(harness: Any, *creations: AclCreation, version: int = 3) -> list[ErrorCode]:
    response = await send(harness.client, "CreateAcls", version, CreateAclsRequest(list(creations)))
    return [ErrorCode(result.error_code) for result in response.results]


async def described(harness: Any, *, version: int = 3, **fields: Any) -> set[tuple[Any, ...]]:
    """Return resource type, name, pattern type and principal of the bindings that a filter selects."""
    request = DescribeAclsRequest(ANY_CODE, None, ANY if version else LITERAL, None, None, ANY_CODE, ANY_CODE)
    for field, value in fields.items():
        setattr(request, field, value)
    response = await send(harness.client, "DescribeAcls", version, request)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        (resource.resource_type, resource.resource_name, resource.pattern_type, each.principal)
        for resource in response.resources
        for each in resource.acls
    }


async def delete(harness: Any, *filters: DeleteAclsFilter, version: int = 3) -> list[set[tuple[Any, ...]]]:
    response = await send(harness.client, "DeleteAcls", version, DeleteAclsRequest(list(filters)))
    assert all(result.error_code == 0 for result in response.filter_results)
    for result in response.filter_results:
        assert all((acl.error_code, acl.error_message) == (0, None) for acl in result.matching_acls)
    return [
        {(each.resource_name, each.pattern_type, each.principal) for each in result.matching_acls}
        for result in response.filter_results
    ]


def deletion(
    name: str | None = None, kind: PatternType = ANY, principal: str | None = None
) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        ANY_CODE if name is None else TOPIC, name, kind, principal, None, ANY_CODE, ANY_CODE
    )


@pytest.mark.parametrize("version", range(4))
def test_created_acls_are_described_and_deleted(run_scenario, version) -> None:
    async def scenario(harness):
        assert (
            await create(
                harness, creation(), creation(principal="User:bob"), creation("payments"), version=version
            )
            == [ErrorCode.NONE] * 3
        )
        everything = await described(harness, version=version)
        assert everything == {
            (TOPIC, "orders", LITERAL, "User:alice"),
            (TOPIC, "orders", LITERAL, "User:bob"),
            (TOPIC, "payments", LITERAL, "User:alice"),
        }
        assert await described(harness, version=version, principal_filter="User:bob") == {
            (TOPIC, "orders", LITERAL, "User:bob")
        }
        kind = ANY if version else LITERAL
        assert await delete(
            harness, deletion("orders", kind), deletion("payments", kind), version=version
        ) == [
            {("orders", LITERAL, "User:alice"), ("orders", LITERAL, "User:bob")},
            {("payments", LITERAL, "User:alice")},
        ]
        assert await described(harness, version=version) == set()

    run_scenario(scenario, SETTINGS)


def test_prefixed_acls_and_match_filters(run_scenario) -> None:
    async def scenario(harness):
        prefixed = creation("ord", resource_pattern_type=PREFIXED)
        await create(harness, creation(), prefixed, creation("*"), creation("payments"))
        matching = {(TOPIC, "orders", LITERAL), (TOPIC, "ord", PREFIXED), (TOPIC, "*", LITERAL)}
        fields = {"resource_type_filter": TOPIC, "resource_name_filter": "orders"}
        found_by_match = await described(harness, pattern_type_filter=MATCH, **fields)
        assert {each[:3] for each in found_by_match} == matching
        assert {each[:3] for each in await described(harness, **fields)} == {(TOPIC, "orders", LITERAL)}
        [deleted] = await delete(harness, deletion("orders", MATCH))
        assert {each[:2] for each in deleted} == {each[1:] for each in matching}
        assert {each[1] for each in await described(harness)} == {"payments"}

    run_scenario(scenario, SETTINGS)


def test_version_0_knows_literal_patterns_only(run_scenario) -> None:
    async def scenario(harness):
        await create(harness, creation(), creation("ord", resource_pattern_type=PREFIXED))
        assert {each[1] for each in await described(harness, version=0)} == {"orders"}
        assert await delete(harness, deletion(kind=LITERAL), version=0) == [
            {("orders", LITERAL, "User:alice")}
        ]
        assert {each[1] for each in await described(harness)} == {"ord"}

    run_scenario(scenario, SETTINGS)


def test_binding_that_several_filters_select_is_that_of_the_first(run_scenario) -> None:
    async def scenario(harness):
        await create(harness, creation(), creation(principal="User:bob"))
        assert await delete(harness, deletion("orders", principal="User:bob"), deletion("orders")) == [
            {("orders", LITERAL, "User:bob")},
            {("orders", LITERAL, "User:alice")},
        ]

    run_scenario(scenario, SETTINGS)


INVALID = {
    "empty name": creation(""),
    "slash": creation("a/b"),
    "dot": creation("."),
    "control character": creation("a\0b"),
    "unknown resource type": creation(resource_type=99),
    "any resource type": creation(resource_type=1),
    "another cluster": creation("my-cluster", resource_type=CLUSTER),
    "any pattern type": creation(resource_pattern_type=ANY),
    "match pattern type": creation(resource_pattern_type=MATCH),
    "unknown pattern type": creation(resource_pattern_type=0),
    "no principal type": creation(principal="alice"),
    "empty principal type": creation(principal=":alice"),
    "empty host": creation(host=""),
    "any operation": creation(operation=1),
    "unknown operation": creation(operation=77),
    "any permission": creation(permission_type=1),
    "unknown permission": creation(permission_type=0),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_creation_fails_by_itself(run_scenario, name) -> None:
    async def scenario(harness):
        request = CreateAclsRequest([creation(), INVALID[name], creation("payments")])
        response = await send(harness.client, "CreateAcls", 3, request)
        assert [result.error_code for result in response.results] == [0, ErrorCode.INVALID_REQUEST, 0]
        assert [bool(result.error_message) for result in response.results] == [False, True, False]
        assert {each[1] for each in await described(harness)} == {"orders", "payments"}

    run_scenario(scenario, SETTINGS)


@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_filter_with_an_unknown_code_is_rejected(run_scenario, field) -> None:
    async def scenario(harness):
        await create(harness, creation())
        described_by = DescribeAclsRequest(ANY_CODE, None, ANY, None, None, ANY_CODE, ANY_CODE)
        setattr(described_by, field, 99)
        response = await send(harness.client, "DescribeAcls", 3, described_by)
        assert (response.error_code, response.resources) == (ErrorCode.INVALID_REQUEST, [])
        deleted_by = deletion()
        setattr(deleted_by, field, 99)
        response = await send(harness.client, "DeleteAcls", 3, DeleteAclsRequest([deleted_by, deletion()]))
        assert {each.error_code for each in response.filter_results} == {ErrorCode.INVALID_REQUEST}
        assert len(await described(harness)) == 1

    run_scenario(scenario, SETTINGS)


def test_acl_apis_are_denied_without_alter_and_describe_on_the_cluster(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(AclOperation.ALL, TOPIC, "*"), acl(AclOperation.DESCRIBE, CLUSTER))
        response = await send(alice, "CreateAcls", 3, CreateAclsRequest([creation(), creation("x")]))
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [each.error_code for each in response.results] == [denied] * 2
        response = await send(alice, "DeleteAcls", 3, DeleteAclsRequest([deletion()]))
        assert [(each.error_code, each.matching_acls) for each in response.filter_results] == [(denied, [])]
        request = DescribeAclsRequest(ANY_CODE, None, ANY, None, None, ANY_CODE, ANY_CODE)
        assert len((await send(alice, "DescribeAcls", 3, request)).resources) == 2
        bob = await connect_as(harness, "bob")
        response = await send(bob, "DescribeAcls", 3, request)
        assert (response.error_code, response.resources) == (denied, [])

    run_scenario(scenario, SETTINGS)


def offsets_of(topic: str) -> ListOffsetsRequest:
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])])


async def may_list_offsets(client: Any, topic: str) -> bool:
    response = await send(client, "ListOffsets", 5, offsets_of(topic))
    return response.topics[0].partitions[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_created_acl_applies_to_the_next_request(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        assert not await may_list_offsets(alice, "orders")
        await create(harness, creation())
        assert await may_list_offsets(alice, "orders")
        await create(harness, creation(permission_type=AclPermissionType.DENY, operation=AclOperation.ALL))
        assert not await may_list_offsets(alice, "orders")
        await delete(harness, deletion("orders"))
        assert not await may_list_offsets(alice, "orders")

    run_scenario(scenario, SETTINGS)


def test_acls_survive_a_restart(run_with_restarts) -> None:
    async def scenario(cluster, start_broker):
        harness = await start_broker(SETTINGS)
        await create(harness, creation(), creation("ord", resource_pattern_type=PREFIXED))
        before = await described(harness)
        await harness.memory_broker.stop()
        harness = await start_broker(SETTINGS)
        assert await described(harness) == before
        assert await may_list_offsets(await connect_as(harness, "alice"), "orders")

    run_with_restarts(scenario)


class Node:
    """A broker of a cluster, with the attributes of a harness that ``connect_as`` needs."""

    def __init__(self, memory_broker: Any) -> None:
        self.memory_broker = memory_broker
        self.broker = memory_broker.broker
        self.client: Any = None

    @property
    def authorizer(self) -> Any:
        return self.broker._acl_manager.authorizer

    def allows(self, name: str = "orders") -> bool:
        allowed: bool = self.authorizer.is_allowed(user("alice"), "h", READ, AclResourceType.TOPIC, name)
        return allowed


def run_on_two_brokers(scenario: Any) -> None:
    async def main() -> None:
        cluster = MemoryCluster()
        nodes = [Node(await cluster.start(SETTINGS, broker_id=number)) for number in (1, 2)]
        try:
            for node in nodes:
                node.client = await node.memory_broker.connect()
            await scenario(cluster, *nodes)
        finally:
            for node in nodes:
                await node.memory_broker.stop()
            await cluster.close()

    run_virtually(main)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_other_broker_learns_of_changes() -> None:
    async def scenario(cluster, first, second):
        await create(first, creation(), creation("pay", resource_pattern_type=PREFIXED))
        await until(lambda: second.allows("orders") and second.allows("payments"))
        # Its knowledge of the node's version is up to date, too.
        await create(second, creation(principal="User:bob"))
        await delete(second, deletion("orders", principal="User:alice"), deletion("pay", PREFIXED))
        await until(lambda: not first.allows("orders") and not first.allows("payments"))
        await until(lambda: len(first.authorizer.patterns()) == 1)
        assert first.authorizer.entries(ResourcePattern(TOPIC, "orders")) == {
            acl(READ, TOPIC, "orders", principal="User:bob").entry
        }

    run_on_two_brokers(scenario)


def test_brokers_that_change_one_resource_at_once_lose_nothing() -> None:
    async def scenario(cluster, first, second):
        await asyncio.gather(
            *(
                create([first, second][number % 2], creation(principal=f"User:u{number}"))
                for number in range(10)
            )
        )
        pattern = ResourcePattern(TOPIC, "orders")
        await until(lambda: len(first.authorizer.entries(pattern)) == 10)
        await until(lambda: len(second.authorizer.entries(pattern)) == 10)

    run_on_two_brokers(scenario)


def test_everything_is_read_again_after_a_session_expired() -> None:
    async def scenario(cluster, first, second):
        await create(first, creation(), creation("payments"))
        await until(lambda: second.allows("orders"))
        second.memory_broker.pause()
        await second.memory_broker.expire_session()
        await delete(first, deletion("orders"))
        await create(first, creation("invoices"))
        # Notifications that nobody keeps for a broker without a session.
        store = cluster.ensemble.connect()
        for root in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
            for name in await store.children(root):
                await store.delete(f"{root}/{name}")
        second.memory_broker.resume()
        await until(lambda: second.allows("invoices"))
        assert not second.allows("orders")
        assert second.allows("payments")
        await create(first, creation("later"))
        await until(lambda: second.allows("later"))

    run_on_two_brokers(scenario)


def test_node_that_kafka_or_somebody_else_wrote_is_applied() -> None:
    async def scenario(cluster, first, second):
        store = cluster.ensemble.connect()
        pattern = ResourcePattern(AclResourceType.TOPIC, "orders")
        await update_acls(store, pattern, lambda _: frozenset({acl(READ, TOPIC, "orders").entry}))
        await until(lambda: first.allows() and second.allows())
        await store.set(acl_znodes.path_of(pattern), b"?")
        await store.create("/kafka-acl-changes/acl_changes_", b"Topic:orders", sequence=True)
        await until(lambda: not first.allows() and not second.allows())
        response = await send(first.client, "CreateAcls", 3, CreateAclsRequest([creation(), creation("x")]))
        codes = [ErrorCode(each.error_code) for each in response.results]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]

    run_on_two_brokers(scenario)


def test_super_users_need_no_acl_and_brokers_replicate(run_scenario) -> None:
    async def scenario(harness):
        root = await connect_as(harness, "root")
        assert await may_list_offsets(root, "orders")
        assert not await may_list_offsets(harness.client, "orders"), "others are not super users"

    run_scenario(scenario, {**SETTINGS, "super.users": "User:admin; User:root;"})


def test_everyone_is_allowed_where_there_is_no_acl(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        assert await may_list_offsets(alice, "orders")
        await allow(harness, acl(READ, TOPIC, "orders", principal="User:bob"))
        assert not await may_list_offsets(alice, "orders")
        assert await may_list_offsets(alice, "payments")

    run_scenario(scenario, {**SETTINGS, "super.users": "", "allow.everyone.if.no.acl.found": "true"})


def test_cluster_has_one_name() -> None:
    assert CLUSTER_NAME == "kafka-cluster"
