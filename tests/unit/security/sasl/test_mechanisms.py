"""The table of mechanisms."""

from __future__ import annotations

import os

import pytest

from odradek.model.secret import Secret
from odradek.security.sasl.jaas import JaasError, parse_jaas_config
from odradek.security.sasl.mechanism import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from odradek.security.sasl.mechanisms import (
    MECHANISMS,
    ClientCredentials,
    ServerCredentials,
    UnsupportedMechanism,
    check_login_module,
    check_mechanisms,
    client_credentials_of,
    create_client,
    create_server,
    token_request_of,
)
from odradek.security.sasl.oauthbearer_server import ValidatedToken
from odradek.security.sasl.scram_credential import create_credential
from odradek.security.sasl.scram_server import ScramCredentials

PASSWORD = Secret("pencil")
SERVER = ServerCredentials(
    plain=lambda username, password: (username, password) == ("user", "pencil"),
    scram={
        mechanism: ScramCredentials(
            {"user": create_credential(mechanism, PASSWORD, os.urandom)}.get,
            lambda _: None,
            os.urandom,
            bytes(32),
        )
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
    },
    oauthbearer={"pencil": ValidatedToken("user", 1)}.__getitem__,
)
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_of_each_mechanism(mechanism: str) -> None:
    server = create_server(mechanism, MECHANISMS, SERVER)
    client = create_client(mechanism, ClientCredentials("user", PASSWORD, os.urandom))
    message: bytes | None = client.start()
    while message is not None:
        message = client.evaluate(server.evaluate(message))
    assert (client.is_complete, server.is_complete, server.authorization_id) == (True, True, "user")


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "GSSAPI", "EXTERNAL", "ANONYMOUS", "", "plain"])
def test_mechanisms_that_are_not_enabled_are_refused(mechanism: str) -> None:
    enabled = [name for name in (PLAIN, SCRAM_SHA_512) if name != mechanism]
    with pytest.raises(UnsupportedMechanism, match=f"choose one of {', '.join(enabled)}"):
        create_server(mechanism, enabled, SERVER)
    with pytest.raises(UnsupportedMechanism):
        create_server(mechanism, [mechanism], ServerCredentials())


def test_names_are_checked() -> None:
    assert check_mechanisms(["PLAIN", "OAUTHBEARER"]) == ("PLAIN", "OAUTHBEARER")
    with pytest.raises(ValueError, match=r"GSSAPI \(Kerberos\) is not supported; choose one of PLAIN"):
        check_mechanisms(["PLAIN", "GSSAPI"])
    with pytest.raises(ValueError, match=r"must be one of PLAIN.* got 'plain'"):
        create_client("plain", ClientCredentials("user", PASSWORD, os.urandom))


def test_login_modules_fit_their_mechanisms() -> None:
    entries = {
        PLAIN: parse_jaas_config(f"{PLAIN_MODULE} required;"),
        SCRAM_SHA_256: parse_jaas_config(f"{SCRAM_MODULE} required;"),
        SCRAM_SHA_512: parse_jaas_config(f"{SCRAM_MODULE} required;"),
        OAUTHBEARER: parse_jaas_config(f"{OAUTH_MODULE} required;"),
    }
    for mechanism in MECHANISMS:
        for entry in entries.values():
            if entry.module is entries[mechanism].module:
                assert check_login_module(mechanism, entry) is entry
            else:
                with pytest.raises(ValueError, match=f"login module of {mechanism} must be"):
                    check_login_module(mechanism, entry)


def test_unsecured_tokens_are_refused_with_the_configuration() -> None:
    entry = parse_jaas_config(f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="alice";')
    with pytest.raises(JaasError, match="unsecured OAUTHBEARER tokens"):
        check_login_module(OAUTHBEARER, entry)


def test_credentials_of_configurations() -> None:
    entry = parse_jaas_config(f'{SCRAM_MODULE} required username="id" password="pencil" tokenauth="true";')
    credentials = client_credentials_of(entry, os.urandom)
    assert (credentials.username, credentials.password) == ("id", PASSWORD)
    assert credentials.is_delegation_token
    assert b",tokenauth=true" in create_client(SCRAM_SHA_256, credentials).start()
    entry = parse_jaas_config(f'{PLAIN_MODULE} required username="id" password="pencil" tokenauth="true";')
    assert not client_credentials_of(entry, os.urandom).is_delegation_token
    with pytest.raises(JaasError, match="needs option password"):
        client_credentials_of(parse_jaas_config(f"{PLAIN_MODULE} required username=a;"), os.urandom)


def test_token_requests_of_configurations() -> None:
    entry = parse_jaas_config(f'{OAUTH_MODULE} required clientId="c" clientSecret="s" scope="x";')
    request = token_request_of(entry, is_urlencoded=True)
    assert request == ("c", Secret("s"), "x", True)
    with pytest.raises(JaasError, match="needs option clientId"):
        token_request_of(parse_jaas_config(f"{OAUTH_MODULE} required;"))
