"""The client's side of SASL OAUTHBEARER (RFC 7628), as in Kafka's OAuthBearerSaslClient."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import SaslRefused
from odradek.security.sasl.oauthbearer_messages import (
    ACKNOWLEDGE_ERROR,
    InitialResponse,
    check_extensions,
    check_token,
    format_initial_response,
    printable_error,
)


class _State(enum.Enum):
    UNSTARTED = enum.auto()
    SENT = enum.auto()
    REFUSED = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class OAuthBearerClient:
    """Sends an access token. An error of the broker is acknowledged, and kept as ``error``."""

    def __init__(
        self, token: Secret, extensions: Mapping[str, str] | None = None, authorization_id: str = ""
    ) -> None:
        check_token(token.reveal())
        check_extensions(extensions or {})
        self._message = Secret(
            format_initial_response(InitialResponse(token, authorization_id, extensions or {})).decode()
        )
        self._state = _State.UNSTARTED
        self._error = ""

    def start(self) -> bytes:
        if self._state is not _State.UNSTARTED:
            raise SaslRefused("the SASL exchange has been started already")
        self._state = _State.SENT
        return self._message.reveal().encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        state, self._state = self._state, _State.FAILED
        if state is _State.SENT and not challenge:
            self._state = _State.COMPLETE
            return None
        if state is _State.SENT:
            self._error = printable_error(challenge)
            self._state = _State.REFUSED
            return ACKNOWLEDGE_ERROR
        if state is _State.REFUSED:
            raise SaslRefused(f"the broker refused the access token: {self._error}")
        raise SaslRefused("no SASL message was expected from the broker")

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    @property
    def error(self) -> str:
        """The broker's error as it sent it, or an empty str."""
        return self._error
