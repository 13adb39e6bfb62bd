"""The mechanisms there are: a table from names to the two sides of an exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.security.sasl.client_credentials import ClientCredentialsRequest
from odradek.security.sasl.jaas import JaasEntry, LoginModule, check_secured
from odradek.security.sasl.mechanism import (
    GSSAPI,
    OAUTHBEARER,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    SaslClient,
    SaslRefused,
    SaslServer,
)
from odradek.security.sasl.oauthbearer_client import OAuthBearerClient
from odradek.security.sasl.oauthbearer_server import OAuthBearerServer, ValidatedToken
from odradek.security.sasl.plain import PlainClient, PlainServer
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.scram_messages import TOKEN_AUTHENTICATION
from odradek.security.sasl.scram_server import ScramCredentials, ScramServer

MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
GSSAPI_REFUSED: Final = (
    f"SASL mechanism GSSAPI (Kerberos) is not supported; choose one of {', '.join(MECHANISMS)}"
)

LOGIN_MODULES: Final[Mapping[str, LoginModule]] = {
    PLAIN: LoginModule.PLAIN,
    SCRAM_SHA_256: LoginModule.SCRAM,
    SCRAM_SHA_512: LoginModule.SCRAM,
    OAUTHBEARER: LoginModule.OAUTHBEARER,
}
"""The login module that the JAAS configuration of a mechanism must have."""


class UnsupportedMechanism(SaslRefused):
    """Raised for a mechanism that is not enabled; a broker answers UNSUPPORTED_SASL_MECHANISM."""


class ServerCredentials(NamedTuple):
    """Everything that a listener checks clients with; None for mechanisms that are not enabled."""

    plain: Callable[[str, str], bool] | None = None
    """Returns whether a username and password belong together."""
    scram: Mapping[str, ScramCredentials] | None = None
    """By mechanism."""
    oauthbearer: Callable[[str], ValidatedToken] | None = None
    """Verifies an access token, or raises SaslRefused."""


class ClientCredentials(NamedTuple):
    """Everything that a client authenticates with. ``password`` is the access token for OAUTHBEARER."""

    username: str
    password: Secret
    random_bytes: Callable[[int], bytes]
    is_delegation_token: bool = False
    """True if username and password are a delegation token's id and HMAC."""
    extensions: Mapping[str, str] = {}


def check_mechanisms(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of enabled mechanisms. Raises ValueError for those that do not exist here."""
    mechanisms = tuple(names)
    for name in mechanisms:
        check_mechanism(name)
    return mechanisms


def check_mechanism(name: str) -> str:
    if name == GSSAPI:
        raise ValueError(GSSAPI_REFUSED)
    if name not in MECHANISMS:
        raise ValueError(f"SASL mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}")
    return name


def check_login_module(mechanism: str, entry: JaasEntry) -> JaasEntry:
    """Return the entry if it is for the mechanism. Raises ValueError."""
    expected = LOGIN_MODULES[check_mechanism(mechanism)]
    if entry.module is not expected:
        raise ValueError(f"login module of {mechanism} must be {expected.value}, got {entry.module.value}")
    check_secured(entry)
    return entry


def client_credentials_of(entry: JaasEntry, random_bytes: Callable[[int], bytes]) -> ClientCredentials:
    """Return the username and password of a PLAIN or SCRAM entry. Raises JaasError."""
    return ClientCredentials(
        entry.required("username").reveal(),
        entry.required("password"),
        random_bytes,
        is_delegation_token=entry.module is LoginModule.SCRAM and entry.is_true(TOKEN_AUTHENTICATION),
    )


def token_request_of(entry: JaasEntry, is_urlencoded: bool = False) -> ClientCredentialsRequest:
    """Return the request for an access token that an OAUTHBEARER entry describes. Raises JaasError."""
    return ClientCredentialsRequest(
        entry.required("clientId").reveal(),
        entry.required("clientSecret"),
        entry.text("scope"),
        is_urlencoded,
    )


def create_server(mechanism: str, enabled: Collection[str], credentials: ServerCredentials) -> SaslServer:
    """Return the broker's side of an exchange. Raises UnsupportedMechanism."""
    if mechanism in enabled:
        if mechanism == PLAIN and credentials.plain is not None:
            return PlainServer(credentials.plain)
        if mechanism == OAUTHBEARER and credentials.oauthbearer is not None:
            return OAuthBearerServer(credentials.oauthbearer)
        scram = (credentials.scram or {}).get(mechanism)
        if scram is not None:
            return ScramServer(mechanism, scram)
    raise UnsupportedMechanism(f"SASL mechanism is not enabled; choose one of {', '.join(enabled)}")


def create_client(mechanism: str, credentials: ClientCredentials) -> SaslClient:
    """Return the client's side of an exchange. Raises ValueError."""
    check_mechanism(mechanism)
    if mechanism == OAUTHBEARER:
        return OAuthBearerClient(credentials.password, credentials.extensions)
    if mechanism == PLAIN:
        return PlainClient(credentials.username, credentials.password)
    return ScramClient(
        mechanism,
        credentials.username,
        credentials.password,
        credentials.random_bytes,
        is_token=credentials.is_delegation_token,
    )
