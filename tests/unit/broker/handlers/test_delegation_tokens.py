"""The delegation token APIs: checks, lifetimes, and brokers that learn of changes."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from tests.unit.broker.handlers.acl_client import SETTINGS, acl, allow, connect_as, send

from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.secret import Secret
from odradek.security.principal import KafkaPrincipal, user
from odradek.security.sasl.mechanism import SCRAM_SHA_256
from odradek.security.tokens.token_checks import RENEWERS_MAX
from odradek.security.tokens.token_information import TokenInformation, token_hmac
from odradek.security.tokens.token_nodes import decode_token, encode_token
from odradek.store.layout import znode_paths
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from odradek.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

SECRET: Final = "the cluster's secret"
ENABLED: Final = {"delegation.token.secret.key": SECRET}
HOUR: Final = 3600 * 1000
DAY: Final = 24 * HOUR
ALICE, BOB, CAROL = user("alice"), user("bob"), user("carol")


async def connect(harness: Any, name: str = "alice", listener: str = "SASL_SSL") -> Any:
    return await connect_as(harness, name, listener=listener)


async def create(
    client: Any, *renewers: str, lifetime_ms: int = -1, owner: str = "", version: int = 3
) -> Any:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", name) for name in renewers], max_lifetime_ms=lifetime_ms
    )
    if owner:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return await send(client, "CreateDelegationToken", version, request)


async def renew(client: Any, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[ErrorCode, int]:
    response = await send(
        client, "RenewDelegationToken", version, RenewDelegationTokenRequest(hmac, period_ms)
    )
    return ErrorCode(response.error_code), response.expiry_timestamp_ms


async def expire(client: Any, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[ErrorCode, int]:
    request = ExpireDelegationTokenRequest(hmac, period_ms)
    response = await send(client, "ExpireDelegationToken", version, request)
    return ErrorCode(response.error_code), response.expiry_timestamp_ms


async def describe(client: Any, *owners: str, version: int = 3) -> dict[str, Any]:
    """Return the described tokens of owners, by default of all, by id."""
    requested = [DescribeDelegationTokenOwner("User", name) for name in owners] or None
    request = DescribeDelegationTokenRequest(requested)
    response = await send(client, "DescribeDelegationToken", version, request)
    assert response.error_code == 0
    return {token.token_id: token for token in response.tokens}


def authenticates(broker: Any, token_id: str) -> bool:
    return broker._token_credential(SCRAM_SHA_256, token_id) is not None


@pytest.mark.parametrize("version", range(4))
def test_token_is_created_described_renewed_and_expired(run_scenario, version: int) -> None:
    async def scenario(harness):
        client = await connect(harness)
        now_ms = harness.cluster.clock.wall_ms()
        created = await create(client, "bob", version=version)
        assert (created.error_code, created.principal_type, created.principal_name) == (0, "User", "alice")
        assert 0 <= created.issue_timestamp_ms - now_ms < 1000
        assert created.expiry_timestamp_ms == created.issue_timestamp_ms + DAY
        assert created.max_timestamp_ms == created.issue_timestamp_ms + 7 * DAY
        assert bytes(created.hmac) == token_hmac(created.token_id, Secret(SECRET))
        assert authenticates(harness.broker, created.token_id)

        [described] = (await describe(client, version=version)).values()
        assert (described.token_id, described.principal_name) == (created.token_id, "alice")
        assert bytes(described.hmac) == bytes(created.hmac)
        assert [renewer.principal_name for renewer in described.renewers] == ["bob"]
        assert described.issue_timestamp == created.issue_timestamp_ms
        assert described.max_timestamp == created.max_timestamp_ms
        if version >= 3:
            assert created.token_requester_principal_name == "alice"
            assert described.token_requester_principal_name == "alice"

        older = min(version, 2)
        code, expiry_ms = await renew(client, created.hmac, 2 * DAY, older)
        assert code == 0
        assert 0 <= expiry_ms - created.issue_timestamp_ms - 2 * DAY < 1000
        assert (await describe(client))[created.token_id].expiry_timestamp == expiry_ms
        code, expiry_ms = await expire(client, created.hmac, HOUR, older)
        assert code == 0
        assert 0 <= expiry_ms - created.issue_timestamp_ms - HOUR < 1000
        assert (await describe(client))[created.token_id].expiry_timestamp == expiry_ms
        code, expiry_ms = await expire(client, created.hmac, -1, older)
        assert code == 0
        assert 0 <= expiry_ms - created.issue_timestamp_ms < 1000
        assert await describe(client) == {}
        assert not authenticates(harness.broker, created.token_id)
        assert (await renew(client, created.hmac))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    run_scenario(scenario, ENABLED)


async def codes_of_all(client: Any) -> set[ErrorCode]:
    """Return the error codes of each API."""
    described = await send(client, "DescribeDelegationToken", 3, DescribeDelegationTokenRequest(None))
    assert described.tokens == []
    created = await create(client)
    assert (created.expiry_timestamp_ms, created.token_id, bytes(created.hmac)) == (-1, "", b"")
    changed = [await renew(client, b"x"), await expire(client, b"x")]
    assert {timestamp for _, timestamp in changed} == {-1}
    codes = {ErrorCode(created.error_code), ErrorCode(described.error_code)}
    return codes | {code for code, _ in changed}


@pytest.mark.parametrize(
    ("listener", "name", "with_token"),
    [
        ("PLAINTEXT", "alice", False),
        ("SSL", "ANONYMOUS", False),
        ("SASL_SSL", "alice", True),
        ("SSL", "alice", True),
    ],
)
def test_connection_without_an_identity_of_its_own(
    run_scenario, listener: str, name: str, with_token: bool
) -> None:
    async def scenario(harness):
        client = await connect_as(harness, name, listener=listener, with_token=with_token)
        assert await codes_of_all(client) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}

    for values in (ENABLED, {}):
        run_scenario(scenario, values)


def test_certificate_and_sasl_without_encryption_are_identities(run_scenario) -> None:
    async def scenario(harness):
        for listener in ("SSL", "SASL_PLAINTEXT"):
            assert (await create(await connect(harness, listener=listener))).error_code == 0

    run_scenario(scenario, ENABLED)


@pytest.mark.parametrize("values", [{}, {"delegation.token.secret.key": ""}])
def test_tokens_are_disabled_without_a_secret(run_scenario, values: dict[str, str]) -> None:
    async def scenario(harness):
        assert await codes_of_all(await connect(harness)) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
        assert harness.broker._delegation_tokens is None
        assert await harness.cluster.ensemble.connect().exists(znode_paths.DELEGATION_TOKEN) is None
        assert not authenticates(harness.broker, "any")

    run_scenario(scenario, values)


def test_old_name_of_the_secret(run_scenario) -> None:
    async def scenario(harness):
        created = await create(await connect(harness))
        assert bytes(created.hmac) == token_hmac(created.token_id, Secret("old"))

    run_scenario(scenario, {"delegation.token.master.key": "old"})


def test_token_of_another_owner_requires_create_tokens(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        refused = await create(alice, owner="bob")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        assert refused.max_timestamp_ms == -1
        assert (await create(alice, owner="alice")).error_code == 0
        await allow(harness, acl(AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob"))
        created = await create(alice, "dave", owner="bob")
        assert (created.error_code, created.principal_name) == (0, "bob")
        assert created.token_requester_principal_name == "alice"
        assert (await create(alice, owner="carol")).error_code == refused.error_code
        credential = harness.broker._token_credential(SCRAM_SHA_256, created.token_id)
        assert credential.owner == "bob"
        # The requester sees the token, but may not change it.
        assert created.token_id in await describe(alice)
        mismatch = (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
        assert await renew(alice, created.hmac) == await expire(alice, created.hmac) == mismatch
        for name in ("bob", "dave"):
            assert (await renew(await connect(harness, name), created.hmac))[0] == 0

    run_scenario(scenario, {**SETTINGS, **ENABLED})


@pytest.mark.parametrize("owner", [("Group", "alice"), ("", "alice"), (None, "alice")])
def test_owners_and_renewers_are_users(run_scenario, owner: tuple[str | None, str]) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        invalid = ErrorCode.INVALID_PRINCIPAL_TYPE
        by_owner = CreateDelegationTokenRequest(*owner)
        assert (await send(alice, "CreateDelegationToken", 3, by_owner)).error_code == invalid
        renewers = [CreatableRenewers("User", "bob"), CreatableRenewers(owner[0] or "", "bob")]
        by_renewer = CreateDelegationTokenRequest(renewers=renewers)
        assert (await send(alice, "CreateDelegationToken", 3, by_renewer)).error_code == invalid
        assert await describe(alice) == {}

    run_scenario(scenario, ENABLED)


def test_renewers_are_bounded(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        many = [f"renewer-{number}" for number in range(RENEWERS_MAX + 1)]
        assert (await create(alice, *many)).error_code == ErrorCode.INVALID_REQUEST
        assert (await create(alice, *many[:-1])).error_code == 0
        long = ["x" * 2_000 for _ in range(RENEWERS_MAX)]
        assert (await create(alice, *long)).error_code == ErrorCode.INVALID_REQUEST
        assert len(await describe(alice)) == 1

    run_scenario(scenario, ENABLED)


def test_lifetimes_are_those_of_the_settings(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        for lifetime_ms, expected_ms in ((-1, 1000), (0, 1000), (300, 300), (5000, 1000)):
            created = await create(alice, lifetime_ms=lifetime_ms)
            assert created.max_timestamp_ms - created.issue_timestamp_ms == expected_ms
            assert created.expiry_timestamp_ms - created.issue_timestamp_ms == min(400, expected_ms)

    lifetimes = {"delegation.token.max.lifetime.ms": "1000", "delegation.token.expiry.time.ms": "400"}
    run_scenario(scenario, {**ENABLED, **lifetimes})


def test_descriptions_require_a_part_in_the_token_or_an_acl(run_scenario) -> None:
    async def scenario(harness):
        alice, bob, carol, dave = [await connect(harness, name) for name in ("alice", "bob", "carol", "dave")]
        first, second = await create(alice, "bob"), await create(carol)
        assert set(await describe(alice)) == set(await describe(bob)) == {first.token_id}
        assert await describe(dave) == await describe(bob, "carol") == {}
        assert set(await describe(bob, "alice", "carol")) == {first.token_id}
        token, principal = AclResourceType.DELEGATION_TOKEN, "User:dave"
        await allow(harness, acl(AclOperation.DESCRIBE, token, first.token_id, principal=principal))
        assert set(await describe(dave)) == {first.token_id}
        owner = acl(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "User:carol", principal=principal)
        await allow(harness, owner)
        assert set(await describe(dave)) == {first.token_id, second.token_id}
        assert set(await describe(dave, "carol")) == {second.token_id}
        nobody = await send(dave, "DescribeDelegationToken", 3, DescribeDelegationTokenRequest([]))
        assert (nobody.error_code, nobody.tokens) == (0, [])

    run_scenario(scenario, {**SETTINGS, **ENABLED})


@pytest.mark.parametrize("hmac", [b"", b"x", bytes(64)])
def test_unknown_hmacs(run_scenario, hmac: bytes) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        await create(alice)
        missing = (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
        assert (
            await renew(alice, hmac) == await expire(alice, hmac, 5) == await expire(alice, hmac) == missing
        )
        assert len(await describe(alice)) == 1

    run_scenario(scenario, ENABLED)


def test_token_expires_by_time_and_is_removed_later(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect(harness)
        short, long = await create(alice, lifetime_ms=HOUR), await create(alice)
        await asyncio.sleep(3601)
        assert not authenticates(harness.broker, short.token_id)
        assert authenticates(harness.broker, long.token_id)
        alice = await connect(harness)  # the connection before was idle for too long
        expired = (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
        assert await renew(alice, short.hmac) == await expire(alice, short.hmac, 5) == expired
        store = harness.cluster.ensemble.connect()
        assert set(await store.children(znode_paths.DELEGATION_TOKENS)) == {short.token_id, long.token_id}
        await asyncio.sleep(3601)
        alice = await connect(harness)  # the connection before was idle for too long
        assert await store.children(znode_paths.DELEGATION_TOKENS) == [long.token_id]
        assert set(await describe(alice)) == {long.token_id}
        assert (await renew(alice, short.hmac))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    interval = {"delegation.token.expiry.check.interval.ms": str(2 * HOUR)}
    run_scenario(scenario, {**ENABLED, **interval})


def test_old_notifications_are_removed(run_scenario) -> None:
    async def scenario(harness):
        await create(await connect(harness))
        store = harness.cluster.ensemble.connect()
        assert len(await store.children(znode_paths.DELEGATION_TOKEN_CHANGES)) == 1
        await asyncio.sleep(16 * 60)
        assert len(await store.children(znode_paths.DELEGATION_TOKEN_CHANGES)) == 1
        await asyncio.sleep(5 * 60)
        assert await store.children(znode_paths.DELEGATION_TOKEN_CHANGES) == []

    run_scenario(scenario, ENABLED)


def test_tokens_survive_a_restart_but_not_another_secret(run_with_restarts) -> None:
    async def scenario(cluster, start_broker):
        harness = await start_broker(ENABLED)
        created = await create(await connect(harness), "bob")
        await harness.memory_broker.stop()
        harness = await start_broker(ENABLED)
        [described] = (await describe(await connect(harness))).values()
        assert (described.token_id, bytes(described.hmac)) == (created.token_id, bytes(created.hmac))
        await harness.memory_broker.stop()
        harness = await start_broker({"delegation.token.secret.key": "another"})
        assert (await renew(await connect(harness), created.hmac))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    run_with_restarts(scenario)


class Node:
    """A broker of a cluster, with the attributes of a harness that ``connect_as`` needs."""

    def __init__(self, memory_broker: Any) -> None:
        self.memory_broker = memory_broker
        self.broker = memory_broker.broker
        self.client: Any = None

    def authenticates(self, token_id: str) -> bool:
        return authenticates(self.broker, token_id)

    def tokens(self) -> dict[str, TokenInformation]:
        manager = self.broker._delegation_tokens._manager
        return {token.information.token_id: token.information for token in manager.cache.tokens()}


def run_on_two_brokers(scenario: Any, values: dict[str, str] | None = None) -> None:
    async def main() -> None:
        cluster = MemoryCluster()
        nodes = [
            Node(await cluster.start({**ENABLED, **(values or {})}, broker_id=number)) for number in (1, 2)
        ]
        try:
            for node in nodes:
                node.client = await connect(node)
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
        created = await create(first.client)
        await until(lambda: second.authenticates(created.token_id))
        code, expiry_ms = await renew(second.client, created.hmac, 5 * DAY)
        assert code == 0
        await until(lambda: first.tokens()[created.token_id].expiry_timestamp == expiry_ms)
        assert (await expire(first.client, created.hmac))[0] == 0
        await until(lambda: not second.authenticates(created.token_id))

    run_on_two_brokers(scenario)


def test_removed_token_does_not_come_back_by_a_late_renewal() -> None:
    async def scenario(cluster, first, second):
        created = await create(first.client)
        await until(lambda: second.authenticates(created.token_id))
        store = cluster.ensemble.connect()
        await store.delete(znode_paths.delegation_token(created.token_id))  # and nobody has been notified
        assert second.authenticates(created.token_id)
        missing = (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
        assert await renew(second.client, created.hmac) == missing
        assert not second.authenticates(created.token_id)
        assert await expire(first.client, created.hmac) == missing
        assert await store.children(znode_paths.DELEGATION_TOKENS) == []

    run_on_two_brokers(scenario)


def test_token_changed_elsewhere_is_decided_on_again() -> None:
    async def scenario(cluster, first, second):
        created = await create(first.client)
        await until(lambda: second.authenticates(created.token_id))
        store, path = cluster.ensemble.connect(), znode_paths.delegation_token(created.token_id)
        token = decode_token((await store.get(path))[0])
        await store.set(path, encode_token(token._replace(owner=BOB)))
        assert (await renew(second.client, created.hmac))[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert decode_token((await store.get(path))[0]).expiry_timestamp == token.expiry_timestamp
        changed = token._replace(renewers=(CAROL,))
        await store.set(path, encode_token(changed))
        code, expiry_ms = await renew(first.client, created.hmac, 2 * DAY)
        assert code == 0
        assert decode_token((await store.get(path))[0]) == changed._replace(expiry_timestamp=expiry_ms)

    run_on_two_brokers(scenario)


def test_only_the_controller_removes_expired_tokens_and_keeps_renewed_ones() -> None:
    async def scenario(cluster, first, second):
        await until(lambda: first.broker._is_controller() or second.broker._is_controller())
        controller, other = (first, second) if first.broker._is_controller() else (second, first)
        store = cluster.ensemble.connect()
        renewed, expired = await create(first.client, lifetime_ms=DAY), await create(first.client)
        await until(lambda: controller.authenticates(expired.token_id))
        await until(lambda: other.authenticates(expired.token_id))
        # All notifications are lost: the knowledge of both brokers is out of date.
        path = znode_paths.delegation_token(renewed.token_id)
        token = decode_token((await store.get(path))[0])
        later = token.max_timestamp + 9 * DAY
        await store.set(path, encode_token(token._replace(max_timestamp=later, expiry_timestamp=later)))
        await asyncio.sleep(25 * 3600)
        await other.broker._delegation_tokens.tasks(other.broker.config.broker, lambda: False)[0].run()
        assert len(await store.children(znode_paths.DELEGATION_TOKENS)) == 2
        await controller.broker._delegation_tokens.remove_expired()
        assert await store.children(znode_paths.DELEGATION_TOKENS) == [renewed.token_id]
        assert controller.authenticates(renewed.token_id)
        await until(lambda: expired.token_id not in other.tokens())

    run_on_two_brokers(scenario, {"delegation.token.expiry.check.interval.ms": str(30 * DAY)})


def test_everything_is_read_again_after_a_session_expired() -> None:
    async def scenario(cluster, first, second):
        removed, kept = await create(first.client), await create(first.client)
        await until(lambda: second.authenticates(kept.token_id))
        second.memory_broker.pause()
        await second.memory_broker.expire_session()
        await expire(first.client, removed.hmac)
        created = await create(first.client)
        # Notifications that nobody keeps for a broker without a session.
        store = cluster.ensemble.connect()
        for name in await store.children(znode_paths.DELEGATION_TOKEN_CHANGES):
            await store.delete(f"{znode_paths.DELEGATION_TOKEN_CHANGES}/{name}")
        second.memory_broker.resume()
        await until(lambda: second.authenticates(created.token_id))
        assert not second.authenticates(removed.token_id)
        assert second.authenticates(kept.token_id)
        later = await create(first.client)
        await until(lambda: second.authenticates(later.token_id))

    run_on_two_brokers(scenario)


OTHER_TOKEN: Final = TokenInformation("other", ALICE, ALICE, (), 1, 1 << 50, 1 << 50)


@pytest.mark.parametrize("data", [b"?", encode_token(OTHER_TOKEN)], ids=["no JSON", "other token"])
def test_node_that_cannot_be_decoded_authenticates_nobody(data: bytes) -> None:
    async def scenario(cluster, first, second):
        created = await create(first.client)
        await until(lambda: second.authenticates(created.token_id))
        store = cluster.ensemble.connect()
        await store.set(znode_paths.delegation_token(created.token_id), data)
        prefix = f"{znode_paths.DELEGATION_TOKEN_CHANGES}/{znode_paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
        for change in (created.token_id.encode(), b"\xff", b"", b"../tokens", b"missing"):
            await store.create(prefix, change, sequence=True)
        await until(lambda: not first.authenticates(created.token_id))
        await until(lambda: not second.authenticates(created.token_id))
        # Those after it are still processed.
        later = await create(first.client)
        await until(lambda: second.authenticates(later.token_id))
        assert set(first.tokens()) == set(second.tokens()) == {later.token_id}

    run_on_two_brokers(scenario)


def test_token_that_kafka_wrote() -> None:
    async def scenario(cluster, first, second):
        store = cluster.ensemble.connect()
        token = TokenInformation("by-kafka", BOB, KafkaPrincipal("User", "x"), (ALICE,), 1, 1 << 50, 1 << 50)
        await store.create(znode_paths.delegation_token("by-kafka"), encode_token(token))
        prefix = f"{znode_paths.DELEGATION_TOKEN_CHANGES}/{znode_paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
        await store.create(prefix, b"by-kafka", sequence=True)
        await until(lambda: first.authenticates("by-kafka") and second.authenticates("by-kafka"))
        assert (await renew(first.client, token_hmac("by-kafka", Secret(SECRET))))[0] == 0

    run_on_two_brokers(scenario)
