"""SASL authentication of one connection to a listener (KIP-43, KIP-152, KIP-368).

Until it is complete, the authenticator gets the requests of the session, in place of the dispatcher: one
ApiVersions, one SaslHandshake and the tokens of the mechanism. Anything else closes the connection. Then the
session has a principal, and requests go to the dispatcher. A client may re-authenticate with the same
mechanism and principal; it must before its session expires, or its next request closes the connection.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from odradek.broker.audit import AuditLog
from odradek.broker.network.session import Session
from odradek.model.errors import ErrorCode, RemoteProtocolViolation
from odradek.ports.clock import Clock
from odradek.security.principal import KafkaPrincipal, user
from odradek.security.sasl.mechanism import InvalidCredentials, SaslRefused, SaslServer
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.wire.server_connection import TOKEN_KEY, Request

HANDSHAKE_KEY: Final = 17
API_VERSIONS_KEY: Final = 18
AUTHENTICATE_KEY: Final = 36
HANDSHAKE_VERSIONS: Final = range(2)
AUTHENTICATE_VERSIONS: Final = range(3)
API_VERSIONS_VERSIONS: Final = range(5)

REAUTHENTICATION_INTERVAL_MS_MIN: Final = 1000
"""A client that re-authenticates more often is refused, as it would occupy the broker."""

_MECHANISM: Final = re.compile(r"[A-Z0-9_-]{1,20}")
"""Name of a mechanism (RFC 4422, section 3.1)."""

Dispatch = Callable[[Request, Session], None]


class Scheduled(Protocol):
    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """SASL on one listener. ``new_server`` makes the machine of one exchange of an enabled mechanism."""

    mechanisms: tuple[str, ...]
    new_server: Callable[[str], SaslServer]
    reauthentication_ms_max: Callable[[str], int]
    """``connections.max.reauth.ms`` of a mechanism; 0 is unlimited."""
    failure_delay_ms: Callable[[], int]
    frame_bytes_max: int
    """Largest request of an authenticated client."""


class State(enum.Enum):
    START = "waiting for ApiVersions or SaslHandshake"
    HANDSHAKE = "waiting for SaslHandshake"
    AUTHENTICATE = "exchanging tokens"
    COMPLETE = "authenticated"
    FAILED = "failed"


class SaslAuthenticator:
    """Gets the requests of a session until its client is authenticated, and when it does so again."""

    def __init__(
        self,
        settings: SaslSettings,
        dispatch: Dispatch,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], Scheduled],
        audit: AuditLog,
    ) -> None:
        self._settings = settings
        self._dispatch = dispatch
        self._clock = clock
        self._call_later = call_later
        self._audit = audit
        self._state = State.START
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._principal: KafkaPrincipal | None = None
        self._is_reauthenticating = False
        self._last_reauthentication_ms = 0
        self._expires_at_ms: int | None = None
        self.on_authenticated: Callable[[], None] | None = None

    # Requests of the session.

    def handle(self, request: Request, session: Session) -> None:
        """Handle a request of a client that is not authenticated."""
        key = request.api_key
        if key == API_VERSIONS_KEY and self._state is State.START:
            if request.api_version in API_VERSIONS_VERSIONS:
                self._state = State.HANDSHAKE
            self._dispatch(request, session)
        elif key == HANDSHAKE_KEY and self._state in {State.START, State.HANDSHAKE}:
            self._handle_handshake(request, session)
        elif self._state is State.AUTHENTICATE and (key == AUTHENTICATE_KEY or _is_token(request)):
            self._handle_token(request, session)
        else:
            api = API_BY_KEY.get(key)
            name = f"API {key}" if api is None else api.name
            raise RemoteProtocolViolation(f"unexpected {name} request during SASL authentication")

    def handle_authenticated(self, request: Request, session: Session) -> None:
        """Pass a request on, unless it re-authenticates, or the session has expired."""
        key = request.api_key
        if self._state is not State.COMPLETE:
            self.handle(request, session)
        elif key == HANDSHAKE_KEY and self._may_reauthenticate():
            self._last_reauthentication_ms = self._clock.monotonic_ms()
            self._is_reauthenticating = True
            self._handle_handshake(request, session)
        elif self._is_expired():
            session.close_with_reason(
                f"the session of {self._principal} has expired without re-authentication", "expired"
            )
        else:
            self._dispatch(request, session)

    def _may_reauthenticate(self) -> bool:
        elapsed_ms = self._clock.monotonic_ms() - self._last_reauthentication_ms
        return not self._last_reauthentication_ms or elapsed_ms >= REAUTHENTICATION_INTERVAL_MS_MIN

    def _is_expired(self) -> bool:
        return self._expires_at_ms is not None and self._clock.monotonic_ms() > self._expires_at_ms

    # SaslHandshake.

    def _handle_handshake(self, request: Request, session: Session) -> None:
        version = _checked_version(request, HANDSHAKE_VERSIONS)
        message, _ = decoder(SaslHandshakeRequest, version)(request.frame, request.body_position)
        mechanism = message.mechanism
        code = self._mechanism_error(mechanism)
        if code is ErrorCode.NONE:
            self._mechanism = mechanism
            self._server = self._settings.new_server(mechanism)
            self._state = State.AUTHENTICATE
            if version == 0:
                session.expect_tokens()
        response = SaslHandshakeResponse(error_code=code, mechanisms=list(self._settings.mechanisms))
        parts = parts_encoder(SaslHandshakeResponse, version)(response)
        if code is ErrorCode.NONE:
            session.send_response(request, parts)
        else:
            reason = f"unsupported mechanism {_shown(mechanism)}"
            if self._is_reauthenticating:
                reason = f"cannot re-authenticate with mechanism {_shown(mechanism)}, was {self._mechanism}"
            self._fail(request, session, parts, reason)

    def _mechanism_error(self, mechanism: str) -> ErrorCode:
        if mechanism not in self._settings.mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self._is_reauthenticating and mechanism != self._mechanism:
            return ErrorCode.SASL_AUTHENTICATION_FAILED
        return ErrorCode.NONE

    # Tokens.

    def _handle_token(self, request: Request, session: Session) -> None:
        assert self._server is not None
        try:
            answer = self._server.evaluate(self._token_of(request))
            if self._server.is_complete:
                self._check_principal()
        except SaslRefused as refused:
            self._refuse(request, session, refused)
            return
        lifetime_ms = self._complete(session) if self._server.is_complete else 0
        self._send_token(request, session, answer, lifetime_ms)

    def _token_of(self, request: Request) -> bytes:
        if request.api_key == TOKEN_KEY:
            return bytes(request.frame)
        version = _checked_version(request, AUTHENTICATE_VERSIONS)
        message, _ = decoder(SaslAuthenticateRequest, version)(request.frame, request.body_position)
        return bytes(message.auth_bytes)

    def _send_token(self, request: Request, session: Session, answer: bytes, lifetime_ms: int) -> None:
        if request.api_key == TOKEN_KEY:
            session.send_response(request, [answer])
            return
        response = SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)
        encode = parts_encoder(SaslAuthenticateResponse, request.api_version)
        session.send_response(request, encode(response))

    def _check_principal(self) -> None:
        assert self._server is not None
        principal = user(self._server.authorization_id)
        if self._is_reauthenticating and principal != self._principal:
            raise SaslRefused(
                f"cannot change principals during re-authentication from {self._principal} to {principal}"
            )

    def _complete(self, session: Session) -> int:
        """Let the session in; return the lifetime of the session in milliseconds, 0 if unlimited."""
        server = self._server
        assert server is not None
        self._principal = session.principal = user(server.authorization_id)
        session.authenticated_with_token = server.is_token
        lifetime_ms = self._lifetime_ms(server)
        self._expires_at_ms = None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms
        self._state, self._server = State.COMPLETE, None
        session.expect_requests(self._settings.frame_bytes_max)
        session.handle_request = self.handle_authenticated
        self._is_reauthenticating = False
        self._audit.authenticated(self._principal, session.peer, session.listener_name, self._mechanism)
        if self.on_authenticated is not None:
            self.on_authenticated()
        return lifetime_ms or 0

    def _lifetime_ms(self, server: SaslServer) -> int | None:
        """Return how long the credential and ``connections.max.reauth.ms`` allow; None if they do not end."""
        limit_ms = self._settings.reauthentication_ms_max(self._mechanism)
        limits = [limit_ms] if limit_ms > 0 else []
        if server.expires_at_ms is not None:
            limits.append(max(server.expires_at_ms - self._clock.wall_ms(), 0))
        return min(limits) if limits else None

    # Failures.

    def _refuse(self, request: Request, session: Session, refused: SaslRefused) -> None:
        parts: list[Any] = []
        if request.api_key != TOKEN_KEY:
            message = str(refused)
            if self._is_reauthenticating and isinstance(refused, InvalidCredentials):
                message = refused.message_on_reauthentication
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
            )
            parts = parts_encoder(SaslAuthenticateResponse, request.api_version)(response)
        reason = f"{refused}: {refused.detail}" if refused.detail else str(refused)
        self._fail(request, session, parts, reason)

    def _fail(self, request: Request, session: Session, parts: list[Any], reason: str) -> None:
        """Answer and close after ``connection.failed.authentication.delay.ms``, which slows down guessing."""
        self._state = State.FAILED
        self._server = None
        session.stop_reading()
        self._audit.authentication_failed(
            session.peer_host, session.peer, session.listener_name, self._mechanism, reason
        )

        def close() -> None:
            if parts:
                session.send_response(request, parts)
            else:
                session.send_no_response(request)
            session.close()

        self._call_later(self._settings.failure_delay_ms() / 1000, close)


def _is_token(request: Request) -> bool:
    """Return whether a frame has no header; a client could send a header with the same key."""
    return request.api_key == TOKEN_KEY and request.body_position == 0


def _checked_version(request: Request, versions: range) -> int:
    if request.api_version not in versions:
        name = API_BY_KEY[request.api_key].name
        raise RemoteProtocolViolation(f"{name} version {request.api_version} is not supported")
    return request.api_version


def _shown(mechanism: str) -> str:
    """Return a mechanism for a log line. Other text may be a password that a client sent by mistake."""
    return mechanism if _MECHANISM.fullmatch(mechanism) else f"of {len(mechanism)} characters"
