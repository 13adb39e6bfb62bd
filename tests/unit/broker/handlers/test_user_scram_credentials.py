"""SCRAM credentials of users: altered and described by requests, and cached by all brokers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode
from typing import Any

import pytest

from odradek.broker.scram_credentials import ScramCredentialCache, iterations_of, make_credential
from odradek.broker.scram_credentials import ScramMechanism as Mechanism
from odradek.model.errors import ErrorCode
from odradek.store.configs import change_config, read_config
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

DESCRIBE, ALTER = 50, 51
SHA_256, SHA_512 = 1, 2
SALT, SALTED_PASSWORD = b"some salt", b"salted password"


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, SALT, SALTED_PASSWORD)


async def alter(harness: Any, *changes: Any) -> dict[str, int]:
    deletions = [change for change in changes if isinstance(change, ScramCredentialDeletion)]
    upsertions = [change for change in changes if isinstance(change, ScramCredentialUpsertion)]
    response = await harness.request(ALTER, 0, AlterUserScramCredentialsRequest(deletions, upsertions))
    await asyncio.sleep(0.02)
    codes = {result.user: result.error_code for result in response.results}
    assert len(codes) == len(response.results), "each user has one result"
    for result in response.results:
        assert "salted" not in (result.error_message or "")
    return codes


async def describe(harness: Any, *users: str) -> dict[str, Any]:
    names = [UserName(user) for user in users] if users else None
    response = await harness.request(DESCRIBE, 0, DescribeUserScramCredentialsRequest(names))
    assert response.error_code == 0
    return {
        result.user: result.error_code
        or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_credential_has_the_keys_of_rfc_5802(mechanism: Mechanism) -> None:
    hash_name = {1: "sha256", 2: "sha512"}[mechanism]
    fields = dict(
        field.split("=", 1) for field in make_credential(mechanism, SALT, SALTED_PASSWORD, 4096).split(",")
    )
    assert list(fields) == ["salt", "stored_key", "server_key", "iterations"]
    client_key = hmac.new(SALTED_PASSWORD, b"Client Key", hash_name).digest()
    assert b64decode(fields["salt"]) == SALT
    assert b64decode(fields["stored_key"]) == hashlib.new(hash_name, client_key).digest()
    assert b64decode(fields["server_key"]) == hmac.new(SALTED_PASSWORD, b"Server Key", hash_name).digest()
    assert fields["iterations"] == "4096"


def test_credential_is_the_one_of_rfc_7677() -> None:
    """The example of SCRAM-SHA-256: the server signature is computed with the server key."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted_password = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    credential = make_credential(Mechanism.SCRAM_SHA_256, salt, salted_password, 4096)
    server_key = b64decode(credential.split("server_key=")[1].split(",")[0])
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    signature = hmac.digest(server_key, message.encode(), "sha256")
    assert signature == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("text", ["", "iterations=", "iterations=x", "salt=YQ==", "iterations=" + "9" * 50])
def test_invalid_credential_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ValueError, match="must have iterations") as error:
        iterations_of(text)
    assert not text or text not in str(error.value)


def test_cache_holds_the_credentials_of_users() -> None:
    cache = ScramCredentialCache()
    cache.update("alice", {"SCRAM-SHA-256": "a", "SCRAM-SHA-512": "b", "producer_byte_rate": "1"})
    assert cache.scram_credential("SCRAM-SHA-256", "alice") == "a"
    assert cache.scram_credential("SCRAM-SHA-512", "alice") == "b"
    assert cache.scram_credential("PLAIN", "alice") is None
    assert cache.scram_credential("producer_byte_rate", "alice") is None
    assert cache.scram_credential("SCRAM-SHA-256", "bob") is None
    cache.update("alice", {"SCRAM-SHA-512": "c"})
    assert cache.scram_credential("SCRAM-SHA-256", "alice") is None
    cache.replace({"bob": {"SCRAM-SHA-256": "d"}})
    assert cache.scram_credential("SCRAM-SHA-512", "alice") is None
    assert cache.scram_credential("SCRAM-SHA-256", "bob") == "d"
    assert "d'" not in repr(cache)


def test_credentials_are_stored_described_and_deleted(run_scenario):
    async def scenario(harness):
        store = harness.broker._membership.store
        cache = harness.broker._client_configs.credentials
        await change_config(store, "users", "al%20ice", {"producer_byte_rate": "7"})
        assert await alter(harness, upsert("al ice"), upsert("bob", SHA_512, 16384)) == {
            "al ice": 0,
            "bob": 0,
        }
        assert await describe(harness) == {"al ice": [(SHA_256, 4096)], "bob": [(SHA_512, 16384)]}
        credential = make_credential(Mechanism.SCRAM_SHA_256, SALT, SALTED_PASSWORD, 4096)
        config = await read_config(store, "users", "al%20ice")
        assert config == {"producer_byte_rate": "7", "SCRAM-SHA-256": credential}
        assert cache.scram_credential("SCRAM-SHA-256", "al ice") == credential
        changes = [ScramCredentialDeletion("al ice", SHA_256), upsert("al ice", SHA_512)]
        assert await alter(harness, *changes) == {"al ice": 0}
        assert await describe(harness, "al ice") == {"al ice": [(SHA_512, 4096)]}
        assert cache.scram_credential("SCRAM-SHA-256", "al ice") is None
        assert await alter(harness, ScramCredentialDeletion("bob", SHA_512)) == {"bob": 0}
        assert await store.children("/config/users") == ["al%20ice"]
        assert cache.scram_credential("SCRAM-SHA-512", "bob") is None

    run_scenario(scenario)


INVALID = [
    ([upsert("")], {"": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("..")], {"..": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", iterations=4095)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", iterations=16385)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", iterations=-1)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", mechanism=0)], {"a": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ([upsert("a", mechanism=3)], {"a": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ([ScramCredentialDeletion("a", 99)], {"a": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ([ScramCredentialDeletion("a", SHA_256)], {"a": ErrorCode.RESOURCE_NOT_FOUND}),
    ([upsert("a"), upsert("a")], {"a": ErrorCode.DUPLICATE_RESOURCE}),
    ([ScramCredentialDeletion("a", SHA_256), upsert("a")], {"a": ErrorCode.DUPLICATE_RESOURCE}),
    ([upsert("a", SHA_512), ScramCredentialDeletion("a", SHA_256)], {"a": ErrorCode.RESOURCE_NOT_FOUND}),
    ([], {}),
]


@pytest.mark.parametrize(("changes", "codes"), INVALID)
def test_invalid_changes_of_a_user_change_nothing(run_scenario, changes, codes):
    async def scenario(harness):
        assert await alter(harness, *changes, upsert("valid")) == {**codes, "valid": 0}
        assert await describe(harness) == {"valid": [(SHA_256, 4096)]}

    run_scenario(scenario)


def test_credential_that_does_not_fit_into_a_node_is_rejected(run_scenario):
    async def scenario(harness):
        large = ScramCredentialUpsertion("a", SHA_256, 4096, bytes(2_000_000), SALTED_PASSWORD)
        assert await alter(harness, large) == {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}
        assert await describe(harness) == {}

    run_scenario(scenario)


def test_described_users_have_an_error_each(run_scenario):
    async def scenario(harness):
        store = harness.broker._membership.store
        await alter(harness, upsert("alice"))
        await change_config(store, "users", "damaged", {"SCRAM-SHA-256": "secret"})
        await change_config(store, "users", "quota", {"producer_byte_rate": "1"})
        await change_config(store, "users", "<default>", {"producer_byte_rate": "1"})
        not_found = ErrorCode.RESOURCE_NOT_FOUND
        assert await describe(harness, "alice", "", "twice", "twice", "quota", "nobody", "damaged") == {
            "alice": [(SHA_256, 4096)],
            "": not_found,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
            "quota": not_found,
            "nobody": not_found,
            "damaged": ErrorCode.UNKNOWN_SERVER_ERROR,
        }
        assert list(await describe(harness)) == ["alice", "damaged"]

    run_scenario(scenario)


def test_only_the_controller_alters_and_all_brokers_know():
    async def main():
        cluster = MemoryCluster()
        brokers = [await cluster.start(broker_id=number) for number in (1, 2)]
        await asyncio.sleep(1)
        clients = [await broker.connect() for broker in brokers]
        memberships: list[Any] = [broker.broker._membership for broker in brokers]
        is_controller = [membership.is_controller for membership in memberships]
        assert sorted(is_controller) == [False, True]
        for leads, client in sorted(zip(is_controller, clients, strict=True), key=lambda pair: pair[0]):
            request = AlterUserScramCredentialsRequest([], [upsert("alice"), upsert("alice", SHA_512)])
            response = await client.request(ALTER, 0, request)
            code = ErrorCode.NONE if leads else ErrorCode.NOT_CONTROLLER
            assert [(result.user, result.error_code) for result in response.results] == [("alice", code)]
        await asyncio.sleep(0.1)
        for broker in brokers:
            assert broker.broker._client_configs.credentials.scram_credential("SCRAM-SHA-512", "alice")
            await broker.stop()
        await cluster.close()

    run_virtually(main)


def test_credentials_are_loaded_at_start(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker()
        await alter(harness, upsert("alice"))
        await harness.memory_broker.stop()
        harness = await start_broker()
        assert harness.broker._client_configs.credentials.scram_credential("SCRAM-SHA-256", "alice")
        await harness.memory_broker.stop()

    run_with_restarts(scenario)
