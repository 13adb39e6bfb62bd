"""The SASL options of a client: the login that they describe, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.config.client import security as options
from odradek.config.client.connection import SECURITY_PROTOCOL
from odradek.config.definition import Settings
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.net.sasl_login import (
    FILE_SCHEME,
    AccessTokens,
    LoginPorts,
    SaslLogin,
    TokenSettings,
)
from odradek.security.sasl.client_credentials import ClientCredentialsRequest
from odradek.security.sasl.jaas import JaasEntry, parse_jaas_config
from odradek.security.sasl.mechanism import OAUTHBEARER
from odradek.security.sasl.mechanisms import ClientCredentials, check_login_module, check_mechanism
from odradek.security.sasl.token_refresh import RefreshSettings

HTTP_TIMEOUT_S: Final = 10.0
"""Timeout of the token endpoint without ``sasl.login.connect.timeout.ms`` and ``….read.timeout.ms``."""


def sasl_login(settings: Settings, ports: LoginPorts) -> SaslLogin:
    """Return the login of a client. Raises ConfigError."""
    try:
        mechanism = check_mechanism(settings[options.SASL_MECHANISM])
        entry = _jaas_entry(settings, mechanism)
        if mechanism == OAUTHBEARER:
            tokens = AccessTokens(_token_settings(settings, entry), ports)
            return SaslLogin(mechanism, tokens.credentials)
        credentials = _password_credentials(settings, entry, ports.random_bytes)
        return SaslLogin(mechanism, lambda: credentials)
    except ValueError as problem:
        raise ConfigError([f"security.protocol={settings[SECURITY_PROTOCOL]}: {problem}"]) from None


def _jaas_entry(settings: Settings, mechanism: str) -> JaasEntry | None:
    config = settings[options.SASL_JAAS_CONFIG]
    return None if config is None else check_login_module(mechanism, parse_jaas_config(config.reveal()))


def _password_credentials(
    settings: Settings, entry: JaasEntry | None, random_bytes: Callable[[int], bytes]
) -> ClientCredentials:
    """Return name and password of PLAIN and SCRAM, or id and HMAC of a delegation token."""
    username, password = settings[options.SASL_USERNAME], settings[options.SASL_PASSWORD]
    if entry is not None:
        if username is not None or password is not None:
            raise ValueError("set either sasl.jaas.config, or sasl.username and sasl.password")
        username, password = entry.required("username").reveal(), entry.required("password")
    if username is None or password is None:
        mechanism = settings[options.SASL_MECHANISM]
        raise ValueError(f"sasl.mechanism={mechanism} requires sasl.username and sasl.password")
    is_token = entry is not None and entry.is_true("tokenauth")
    return ClientCredentials(username, password, random_bytes, is_delegation_token=is_token)


def _token_settings(settings: Settings, entry: JaasEntry | None) -> TokenSettings:
    url = settings[options.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL]
    if not url:
        raise ValueError("sasl.mechanism=OAUTHBEARER requires sasl.oauthbearer.token.endpoint.url")
    timeouts_ms = (
        settings[options.SASL_LOGIN_CONNECT_TIMEOUT_MS],
        settings[options.SASL_LOGIN_READ_TIMEOUT_MS],
    )
    limits_s = [timeout_ms / 1000 for timeout_ms in timeouts_ms if timeout_ms is not None]
    return TokenSettings(
        url,
        None if url.startswith(FILE_SCHEME) else _token_request(settings, entry),
        {} if entry is None else entry.extensions(),
        max(limits_s, default=HTTP_TIMEOUT_S),
        settings[options.SASL_LOGIN_RETRY_BACKOFF_MS],
        settings[options.SASL_LOGIN_RETRY_BACKOFF_MAX_MS],
        RefreshSettings(
            settings[options.SASL_LOGIN_REFRESH_WINDOW_FACTOR],
            settings[options.SASL_LOGIN_REFRESH_WINDOW_JITTER],
            settings[options.SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS],
            settings[options.SASL_LOGIN_REFRESH_BUFFER_SECONDS],
        ),
    )


def _token_request(settings: Settings, entry: JaasEntry | None) -> ClientCredentialsRequest:
    client_id = settings[options.SASL_OAUTHBEARER_CLIENT_ID]
    secret: Secret | None = settings[options.SASL_OAUTHBEARER_CLIENT_SECRET]
    scope = settings[options.SASL_OAUTHBEARER_SCOPE]
    if entry is not None:
        client_id = client_id or entry.text("clientId")
        secret = secret or entry.options.get("clientSecret")
        scope = scope or entry.text("scope")
    if not client_id or secret is None:
        raise ValueError(
            "sasl.mechanism=OAUTHBEARER requires clientId and clientSecret in sasl.jaas.config, or "
            "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        )
    return ClientCredentialsRequest(
        client_id, secret, scope, is_urlencoded=settings[options.SASL_OAUTHBEARER_HEADER_URLENCODE]
    )
