"""SCRAM credentials of the admin client."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.scram_credentials import ScramMechanism as BrokerMechanism
from odradek.broker.scram_credentials import make_credential
from odradek.client.admin.scram_credentials import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode

RunWithAdmin = Callable[..., None]
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_passwords_are_set_described_and_deleted(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        admin = fixture.admin
        changes = [
            UserScramCredentialUpsertion("alice", SHA_256, "secret"),
            UserScramCredentialUpsertion("alice", SHA_512, "secret", 8192),
            UserScramCredentialUpsertion("bob", SHA_256, "other"),
        ]
        await admin.alter_user_scram_credentials(changes)
        alice = [ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192)]
        assert await admin.describe_user_scram_credentials() == {"alice": alice, "bob": alice[:1]}
        assert await admin.describe_user_scram_credentials(["alice"]) == {"alice": alice}
        await admin.alter_user_scram_credentials(
            [UserScramCredentialDeletion("alice", SHA_256), UserScramCredentialDeletion("bob", SHA_256)]
        )
        assert await admin.describe_user_scram_credentials() == {"alice": alice[1:]}

    run_with_admin(scenario)


def test_broker_has_the_keys_of_the_password(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        change = UserScramCredentialUpsertion("alice", SHA_512, "pässword", 5000, b"salt")
        await fixture.admin.alter_user_scram_credentials([change])
        await fixture.cluster.clock.sleep_ms(100)
        salted = hashlib.pbkdf2_hmac("sha512", "pässword".encode(), b"salt", 5000)
        credentials = fixture.memory.broker._client_configs.credentials
        assert credentials.scram_credential("SCRAM-SHA-512", "alice") == make_credential(
            BrokerMechanism.SCRAM_SHA_512, b"salt", salted, 5000
        )

    run_with_admin(scenario)


def test_each_user_has_its_error(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        changes = [
            UserScramCredentialUpsertion("alice", SHA_256, "secret"),
            UserScramCredentialUpsertion("bob", SHA_256, "secret", 1),
            UserScramCredentialDeletion("carol", SHA_256),
        ]
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.alter_user_scram_credentials(changes)
        assert raised.value.results == {"alice": None}
        assert {user: error.code for user, error in raised.value.errors.items()} == {
            "bob": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "carol": ErrorCode.RESOURCE_NOT_FOUND,
        }
        with pytest.raises(PartialFailure, match="carol"):
            await fixture.admin.describe_user_scram_credentials(["alice", "carol"])

    run_with_admin(scenario)


def test_password_is_not_shown_and_salts_differ() -> None:
    first, second = (UserScramCredentialUpsertion("alice", SHA_256, "hunter2") for _ in range(2))
    assert "hunter2" not in repr(first) + str(vars(first))
    assert first.salt != second.salt
    assert len(first.salt) == 32
