"""A raw connection over TLS, or with a user that has authenticated by SASL PLAIN."""

from __future__ import annotations

import ssl
import struct

from tests.support.raw_connection import ConnectionEnded, RawConnection, header_v1

SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36


class SecuredConnection(RawConnection):
    """Connects, completes the TLS handshake if there is a context, and authenticates if there is a user."""

    def __init__(
        self,
        bootstrap: str,
        context: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        super().__init__(bootstrap)
        try:
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
            if user is not None:
                self.authenticate(user, password or "")
        except ssl.SSLError as error:
            self.close()
            raise ConnectionEnded(str(error)) from error
        except BaseException:
            self.close()
            raise

    def authenticate(self, user: str, password: str) -> None:
        """Authenticate by PLAIN; raises ConnectionEnded if the broker refuses."""
        self.send_frame(handshake_frame("PLAIN"))
        self.receive_frame()
        self.send_frame(token_frame(f"\0{user}\0{password}".encode()))
        _, error_code = struct.unpack_from(">ih", self.receive_frame())
        if error_code:
            raise ConnectionEnded(f"authentication failed with error {error_code}")

    def send(self, data: bytes) -> None:
        try:
            super().send(data)
        except ssl.SSLError as error:
            raise ConnectionEnded(str(error)) from error

    def receive(self, count: int) -> bytes:
        try:
            return super().receive(count)
        except ssl.SSLError as error:
            raise ConnectionEnded(str(error)) from error


def client_context(authority_path: str) -> ssl.SSLContext:
    """Return the context of a client without a certificate."""
    return ssl.create_default_context(cafile=authority_path)


def handshake_frame(mechanism: str, version: int = 1, correlation_id: int = 0) -> bytes:
    """Encode a SaslHandshake request by hand."""
    name = mechanism.encode()
    return header_v1(SASL_HANDSHAKE, version, correlation_id) + struct.pack(">h", len(name)) + name


def token_frame(token: bytes, correlation_id: int = 1, version: int = 0) -> bytes:
    """Encode a SaslAuthenticate request of version 0 or 1 by hand."""
    return header_v1(SASL_AUTHENTICATE, version, correlation_id) + struct.pack(">i", len(token)) + token
