"""SASL PLAIN (RFC 4616), both sides, with the messages of Kafka's PlainSaslServer."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import PLAIN, InvalidCredentials, SaslRefused

MESSAGE_SIZE_MAX: Final = 16_384
"""Longest message in bytes; RFC 4616 asks for 255 octets in each of its three parts."""

WRONG_PARTS: Final = "Invalid SASL/PLAIN response: expected 3 tokens, got {}"
NO_USERNAME: Final = "Authentication failed: username not specified"
NO_PASSWORD: Final = "Authentication failed: password not specified"
INVALID_PASSWORD: Final = "Authentication failed: Invalid username or password"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
NOTHING_EXPECTED: Final = "no further SASL message was expected"


class PlainServer:
    """Checks a username and password. ``verify`` takes both and returns whether they belong together."""

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self._verify = verify
        self._is_used = False
        self._authorization_id = ""

    def evaluate(self, response: bytes) -> bytes:
        if self._is_used:
            raise SaslRefused(NOTHING_EXPECTED)
        self._is_used = True
        authorization_id, username, password = _parts(response)
        if not self._verify(username, password):
            raise SaslRefused(INVALID_PASSWORD)
        if authorization_id not in ("", username):
            raise SaslRefused(OTHER_AUTHORIZATION_ID)
        self._authorization_id = username
        return b""

    @property
    def is_complete(self) -> bool:
        return bool(self._authorization_id)

    @property
    def authorization_id(self) -> str:
        return self._authorization_id

    @property
    def expires_at_ms(self) -> int | None:
        return None

    @property
    def is_token(self) -> bool:
        return False


def _parts(response: bytes) -> list[str]:
    """Return authorization id, username and password."""
    if len(response) > MESSAGE_SIZE_MAX:
        raise InvalidCredentials(PLAIN, f"message must be <= {MESSAGE_SIZE_MAX} bytes, got {len(response)}")
    try:
        parts = response.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        # No cause: its message quotes bytes of the password.
        raise InvalidCredentials(PLAIN, "message is not UTF-8") from None
    if len(parts) != 3:
        raise SaslRefused(WRONG_PARTS.format(min(len(parts), 4)))
    if not parts[1]:
        raise SaslRefused(NO_USERNAME)
    if not parts[2]:
        raise SaslRefused(NO_PASSWORD)
    return parts


class _State(enum.Enum):
    UNSTARTED = enum.auto()
    SENT = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class PlainClient:
    """Sends a username and password."""

    def __init__(self, username: str, password: Secret, authorization_id: str = "") -> None:
        for name, value in (("username", username), ("password", password.reveal())):
            if not value or "\0" in value:
                raise ValueError(f"{name} must be a non-empty str without NUL, got {len(value)} characters")
        if "\0" in authorization_id:
            raise ValueError(f"authorization id must have no NUL, got {authorization_id!r}")
        self._message = Secret(f"{authorization_id}\0{username}\0{password.reveal()}")
        self._state = _State.UNSTARTED

    def start(self) -> bytes:
        if self._state is not _State.UNSTARTED:
            raise SaslRefused(NOTHING_EXPECTED)
        self._state = _State.SENT
        return self._message.reveal().encode("utf-8")

    def evaluate(self, challenge: bytes) -> bytes | None:
        state, self._state = self._state, _State.FAILED
        if state is not _State.SENT or challenge:
            raise SaslRefused(NOTHING_EXPECTED)
        self._state = _State.COMPLETE
        return None

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE
