"""The client's side of SCRAM-SHA-256 and SCRAM-SHA-512."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import SaslRefused
from odradek.security.sasl.scram_credential import HASHES, ITERATIONS_MIN, random_text, salted_password
from odradek.security.sasl.scram_messages import (
    TOKEN_AUTHENTICATION,
    ServerFirst,
    client_final,
    client_final_without_proof,
    client_first,
    parse_server_final,
    parse_server_first,
)
from odradek.security.sasl.scram_proof import auth_message, client_proof, is_server_signature

ITERATIONS_LIMIT: Final = 1_000_000
"""Most iterations that a broker may ask for: about half a second of work. Kafka creates up to 16384."""
ERROR_LENGTH_MAX: Final = 200


class _State(enum.Enum):
    UNSTARTED = enum.auto()
    FIRST = enum.auto()
    FINAL = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class ScramClient:
    """Proves knowledge of a password, and checks that the broker knows it too.

    The first ``evaluate`` derives a key, which takes milliseconds. For a delegation token, username and
    password are its id and its HMAC in base64.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: Secret,
        random_bytes: Callable[[int], bytes],
        *,
        is_token: bool = False,
        authorization_id: str = "",
    ) -> None:
        if mechanism not in HASHES:
            raise ValueError(f"mechanism must be one of {', '.join(HASHES)}, got {mechanism!r}")
        if not password.reveal():
            raise ValueError("password must be a non-empty str, got an empty one")
        extensions = {TOKEN_AUTHENTICATION: "true"} if is_token else {}
        self._mechanism = mechanism
        self._password = password
        self._first = client_first(username, random_text(random_bytes), extensions, authorization_id)
        self._salted_password = b""
        self._auth_message = b""
        self._state = _State.UNSTARTED

    def start(self) -> bytes:
        if self._state is not _State.UNSTARTED:
            raise SaslRefused("the SASL exchange has been started already")
        self._state = _State.FIRST
        return f"{self._first.gs2_header}{self._first.bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        state, self._state = self._state, _State.FAILED
        try:
            if state is _State.FIRST:
                return self._take_first(parse_server_first(challenge))
            if state is _State.FINAL:
                self._take_final(challenge)
                return None
        except ValueError as invalid:
            raise SaslRefused(f"invalid {self._mechanism} message from the broker: {invalid}") from None
        raise SaslRefused("no SASL message was expected from the broker")

    def _take_first(self, server: ServerFirst) -> bytes:
        if not server.nonce.startswith(self._first.nonce) or server.nonce == self._first.nonce:
            raise ValueError("nonce must begin with that of the client and be longer, got another")
        if not ITERATIONS_MIN <= server.iterations <= ITERATIONS_LIMIT:
            raise ValueError(
                f"iterations must be from {ITERATIONS_MIN} to {ITERATIONS_LIMIT}, got {server.iterations}"
            )
        salted = salted_password(self._mechanism, self._password, server.salt, server.iterations)
        without_proof = client_final_without_proof(self._first.gs2_header, server.nonce)
        self._auth_message = auth_message(self._first, server, without_proof)
        self._salted_password = salted
        self._state = _State.FINAL
        return client_final(without_proof, client_proof(self._mechanism, salted, self._auth_message))

    def _take_final(self, challenge: bytes) -> None:
        final = parse_server_final(challenge)
        salted, self._salted_password = self._salted_password, b""
        if final.error is not None:
            error = final.error[:ERROR_LENGTH_MAX]
            raise SaslRefused(f"the broker refused {self._mechanism} authentication with error {error!r}")
        if not is_server_signature(self._mechanism, salted, self._auth_message, final.signature):
            raise ValueError("wrong server signature: the broker does not know the password")
        self._state = _State.COMPLETE

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE
