"""The broker's side of SCRAM-SHA-256 and SCRAM-SHA-512, for users and for delegation tokens.

As in Kafka, with two differences. The channel binding of the final message is verified, as RFC 5802 asks. An
unknown user or token is refused in the second step and not in the first: a credential made of its name stands
in for the missing one, so that an exchange does not tell which names there are.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.security.sasl.mechanism import InvalidCredentials, SaslRefused
from odradek.security.sasl.scram_credential import (
    HASHES,
    ITERATIONS_MIN,
    SALT_BITS,
    ScramCredential,
    random_text,
    text_of_number,
)
from odradek.security.sasl.scram_messages import (
    ClientFirst,
    ServerFirst,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)
from odradek.security.sasl.scram_proof import auth_message, is_client_proof, server_signature

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
DECOY_KEY_SIZE: Final = 32


class TokenCredential(NamedTuple):
    """The credential of a delegation token, whose owner is authenticated by it."""

    owner: str
    expires_at_ms: int
    credential: ScramCredential


class ScramCredentials(NamedTuple):
    """Credentials that a broker has for a mechanism, and randomness.

    ``user`` returns the credential of a username; ``token`` that of the id of a delegation token that is not
    expired. ``decoy_key`` is DECOY_KEY_SIZE random bytes that stay the same while the broker runs.
    """

    user: Callable[[str], ScramCredential | None]
    token: Callable[[str], TokenCredential | None]
    random_bytes: Callable[[int], bytes]
    decoy_key: bytes


class _State(enum.Enum):
    FIRST = enum.auto()
    FINAL = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class _Exchange(NamedTuple):
    """State between the two steps. ``is_known`` is false for a decoy, which no proof fits."""

    first: ClientFirst
    server: ServerFirst
    credential: ScramCredential
    is_known: bool
    owner: str
    expires_at_ms: int | None

    def __repr__(self) -> str:
        return f"_Exchange(owner={self.owner!r})"


class ScramServer:
    """Checks that a client knows a password, and proves to it that the broker knows it too."""

    def __init__(self, mechanism: str, credentials: ScramCredentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._state = _State.FIRST
        self._exchange: _Exchange | None = None
        self._authorization_id = ""
        self._expires_at_ms: int | None = None
        self._is_token = False

    def evaluate(self, response: bytes) -> bytes:
        state, self._state = self._state, _State.FAILED
        exchange, self._exchange = self._exchange, None
        self._authorization_id = ""
        try:
            if state is _State.FIRST:
                return self._take_first(parse_client_first(response))
            if state is _State.FINAL and exchange is not None:
                return self._take_final(exchange, response)
        except ValueError as invalid:
            raise InvalidCredentials(self._mechanism, str(invalid)) from None
        raise SaslRefused("no further SASL message was expected")

    def _take_first(self, first: ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.username):
            raise SaslRefused(OTHER_AUTHORIZATION_ID)
        credential: ScramCredential | None = None
        owner, expires_at_ms = first.username, None
        if first.is_token_authenticated:
            token = self._credentials.token(first.username)
            if token is not None:
                owner, expires_at_ms, credential = token
        else:
            credential = self._credentials.user(first.username)
        is_known = credential is not None
        if credential is None:
            credential = decoy_credential(self._mechanism, first.username, self._credentials.decoy_key)
        if credential.iterations < ITERATIONS_MIN:
            raise InvalidCredentials(
                self._mechanism,
                f"iterations of the credential must be >= {ITERATIONS_MIN}, got {credential.iterations}",
            )
        nonce = first.nonce + random_text(self._credentials.random_bytes)
        server = server_first(nonce, credential.salt, credential.iterations)
        self._exchange = _Exchange(first, server, credential, is_known, owner, expires_at_ms)
        self._state = _State.FINAL
        return server.text.encode()

    def _take_final(self, exchange: _Exchange, response: bytes) -> bytes:
        final = parse_client_final(response)
        credential = exchange.credential
        if final.nonce != exchange.server.nonce:
            raise ValueError("nonce of the final message must be that of the exchange, got another")
        if final.channel_binding != exchange.first.gs2_header.encode():
            raise ValueError("channel binding must be the gs2 header of the first message, got another")
        message = auth_message(exchange.first, exchange.server, final.without_proof)
        is_proven = is_client_proof(self._mechanism, credential.stored_key, message, final.proof)
        if not exchange.is_known:
            kind = "token" if exchange.first.is_token_authenticated else "user"
            raise InvalidCredentials(self._mechanism, f"unknown {kind} {exchange.first.username!r}")
        if not is_proven:
            raise InvalidCredentials(self._mechanism, f"wrong password of {exchange.first.username!r}")
        self._authorization_id = exchange.owner
        self._expires_at_ms = exchange.expires_at_ms
        self._is_token = exchange.first.is_token_authenticated
        self._state = _State.COMPLETE
        return server_final(server_signature(self._mechanism, credential.server_key, message))

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    @property
    def authorization_id(self) -> str:
        return self._authorization_id

    @property
    def expires_at_ms(self) -> int | None:
        return self._expires_at_ms

    @property
    def is_token(self) -> bool:
        return self._is_token


def decoy_credential(mechanism: str, name: str, key: bytes) -> ScramCredential:
    """Return a credential that looks like those made by default, always the same for a name."""
    if len(key) < DECOY_KEY_SIZE:
        raise ValueError(f"decoy key must be at least {DECOY_KEY_SIZE} bytes, got {len(key)}")

    def derived(purpose: str) -> bytes:
        return hmac.digest(key, f"{mechanism}\0{purpose}\0{name}".encode(), HASHES[mechanism])

    salt = text_of_number(int.from_bytes(derived("salt"), "big") % (1 << SALT_BITS))
    return ScramCredential(salt.encode("ascii"), derived("stored key"), derived("server key"), ITERATIONS_MIN)
