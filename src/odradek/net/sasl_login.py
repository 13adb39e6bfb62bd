"""Credentials of this side of connections to brokers, as the options describe them.

A name and password are fixed; an access token is fetched when the first connection needs one, and again in
time before it expires. Both may block, so that ``SaslHandshake`` calls them on a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.ports.http import Http
from odradek.security.sasl.client_credentials import (
    AccessToken,
    ClientCredentialsRequest,
    TokenEndpointError,
    parse_token_response,
    read_access_token,
)
from odradek.security.sasl.mechanism import SaslClient, SaslRefused
from odradek.security.sasl.mechanisms import ClientCredentials, create_client
from odradek.security.sasl.token_refresh import RefreshSettings, refresh_at_ms, retry_wait_ms

FILE_SCHEME: Final = "file:"


class LoginPorts(NamedTuple):
    """Ports of a login. All block, and are called on a thread."""

    http: Http
    read_file: Callable[[str], str]
    random_bytes: Callable[[int], bytes]
    wall_ms: Callable[[], int]
    sleep_ms: Callable[[int], None]


Credentials = Callable[[], ClientCredentials]


class SaslLogin:
    """Makes the client's side of exchanges."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self.mechanism = mechanism
        self._credentials = credentials

    def new_client(self, host: str) -> SaslClient:
        """Return the machine of one exchange; may wait for a token. Raises SaslRefused."""
        del host
        return create_client(self.mechanism, self._credentials())


class TokenSettings(NamedTuple):
    """The options ``sasl.oauthbearer.*`` and ``sasl.login.*`` of a client."""

    endpoint_url: str
    request: ClientCredentialsRequest | None
    """None if ``endpoint_url`` is the URL of a file that has the token."""
    extensions: Mapping[str, str]
    timeout_s: float
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    refresh: RefreshSettings
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class AccessTokens:
    """The current access token, fetched when it is needed and due."""

    def __init__(self, settings: TokenSettings, ports: LoginPorts) -> None:
        self._settings = settings
        self._ports = ports
        self._lock = threading.Lock()
        self._token: AccessToken | None = None
        self._refresh_at_ms = 0

    def credentials(self) -> ClientCredentials:
        with self._lock:
            if self._token is None or self._ports.wall_ms() >= self._refresh_at_ms:
                self._renew()
            token = self._token
        assert token is not None
        return ClientCredentials(
            token.principal_name, token.token, self._ports.random_bytes, extensions=self._settings.extensions
        )

    def _renew(self) -> None:
        """Replace the token. One that is still valid outlives an endpoint that fails."""
        settings = self._settings
        try:
            self._token = self._fetch_with_retries()
        except (TokenEndpointError, ValueError, OSError) as error:
            if self._token is None or self._token.expires_at_ms <= self._ports.wall_ms():
                raise SaslRefused(f"no access token from {settings.endpoint_url}: {error}") from None
        token = self._token
        assert token is not None
        random = self._ports.random_bytes(1)[0] / 255
        self._refresh_at_ms = refresh_at_ms(
            self._ports.wall_ms(), token.issued_at_ms, token.expires_at_ms, settings.refresh, random
        )

    def _fetch_with_retries(self) -> AccessToken:
        settings, attempt, waited_ms = self._settings, 0, 0
        while True:
            attempt += 1
            try:
                return self._fetch()
            except (TokenEndpointError, OSError) as error:
                is_final = isinstance(error, TokenEndpointError) and not error.is_retriable
                left_ms = settings.retry_backoff_max_ms - waited_ms
                wait_ms = retry_wait_ms(attempt, settings.retry_backoff_ms, left_ms)
                if is_final or wait_ms is None:
                    raise
            self._ports.sleep_ms(wait_ms)
            waited_ms += wait_ms

    def _fetch(self) -> AccessToken:
        settings = self._settings
        if settings.request is None:
            text = self._ports.read_file(settings.endpoint_url.removeprefix(FILE_SCHEME)).strip()
            return read_access_token(Secret(text), settings.scope_claim, settings.sub_claim)
        request = settings.request
        status, body = self._ports.http.post(
            settings.endpoint_url, request.headers(), request.body(), settings.timeout_s
        )
        return parse_token_response(status, body, settings.scope_claim, settings.sub_claim)
