"""SASL authentication of a connection to a broker, the client's side (KIP-43, KIP-152, KIP-368).

SaslHandshake names the mechanism, SaslAuthenticate carries its tokens. The machine of the mechanism may take
milliseconds to derive a key, so it runs on a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.model.client_errors import AuthenticationFailed, ClientError, UnsupportedVersion, caused_by
from odradek.model.errors import ErrorCode
from odradek.security.sasl.mechanism import SaslClient, SaslRefused
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.net.broker_connection import BrokerConnection

HANDSHAKE_KEY: Final = 17
AUTHENTICATE_KEY: Final = 36
STEPS_MAX: Final = 16
"""Tokens of one exchange; no mechanism needs more than four."""


class SaslHandshake:
    """Authenticates connections with one mechanism. ``new_client`` makes the machine of an exchange."""

    def __init__(self, mechanism: str, new_client: Callable[[str], SaslClient], timeout_ms: int) -> None:
        """``new_client`` gets the host name of the broker."""
        self._mechanism = mechanism
        self._new_client = new_client
        self._timeout_ms = timeout_ms

    async def authenticate(self, connection: BrokerConnection, host: str) -> int:
        """Authenticate; return the lifetime of the session in milliseconds, 0 if unlimited.

        Raises AuthenticationFailed, which is not retriable, or another ClientError.
        """
        await self._choose_mechanism(connection)
        client = await asyncio.to_thread(self._new_client, host)
        version = self._version_of(connection, AUTHENTICATE_KEY)
        token: bytes | None = await self._evaluated(connection, client.start)
        for _ in range(STEPS_MAX):
            if token is None:
                break
            response = await self._send_token(connection, version, token)
            challenge = bytes(response.auth_bytes)
            token = await self._evaluated(connection, partial(client.evaluate, challenge))
            if client.is_complete and token is None:
                return int(response.session_lifetime_ms)
        raise self._failed(connection, "the exchange did not complete")

    async def _choose_mechanism(self, connection: BrokerConnection) -> None:
        version = self._version_of(connection, HANDSHAKE_KEY)
        if version < 1:
            raise UnsupportedVersion(
                "the broker must support SaslHandshake version 1 (Apache Kafka 1.0)", broker=connection.name
            )
        request = SaslHandshakeRequest(mechanism=self._mechanism)
        response: SaslHandshakeResponse = await connection.send_in_version(request, 1, self._timeout_ms)
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms) or "none"
            raise self._failed(
                connection,
                f"the broker does not support sasl.mechanism={self._mechanism}; enabled: {enabled}",
            )
        if response.error_code:
            raise self._failed(connection, f"SaslHandshake failed: {ErrorCode(response.error_code).name}")

    async def _send_token(
        self, connection: BrokerConnection, version: int, token: bytes
    ) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        response: SaslAuthenticateResponse = await connection.send_in_version(
            request, version, self._timeout_ms
        )
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise self._failed(connection, response.error_message or code.name, code)
        return response

    async def _evaluated(self, connection: BrokerConnection, step: Callable[[], Any]) -> Any:
        refusal: SaslRefused | None = None
        try:
            return await asyncio.to_thread(step)
        except SaslRefused as refused:
            refusal = refused
        raise caused_by(self._failed(connection, f"the broker failed to authenticate: {refusal}"), refusal)

    def _version_of(self, connection: BrokerConnection, api_key: int) -> int:
        return min(connection.version_of(api_key), 2)

    def _failed(
        self,
        connection: BrokerConnection,
        reason: str,
        code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
    ) -> ClientError:
        return AuthenticationFailed(reason, code=code, broker=connection.name)
