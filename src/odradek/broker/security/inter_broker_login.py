"""Login of this broker at other brokers, from the settings of the listener between brokers."""

from __future__ import annotations

from typing import TypeVar

from odradek.broker.security.listener_sasl import enabled_mechanisms, jaas_entry
from odradek.config import broker as settings
from odradek.config.definition import Setting, Settings
from odradek.config.listeners import protocol_of
from odradek.model.errors import ConfigError
from odradek.net.sasl_handshake import SaslHandshake
from odradek.net.sasl_login import FILE_SCHEME, AccessTokens, LoginPorts, SaslLogin, TokenSettings
from odradek.security.sasl.client_credentials import ClientCredentialsRequest
from odradek.security.sasl.jaas import JaasEntry
from odradek.security.sasl.mechanism import OAUTHBEARER
from odradek.security.sasl.mechanisms import ClientCredentials, check_mechanism
from odradek.security.sasl.token_refresh import RefreshSettings

V = TypeVar("V")

_HTTP_TIMEOUT_S = 10.0


def inter_broker_handshake(values: Settings, listener: str, ports: LoginPorts | None) -> SaslHandshake | None:
    """Return the handshake of connections to a listener of other brokers, None without SASL.

    Raises ConfigError.
    """
    if not protocol_of(values, listener).sasl:
        return None
    try:
        mechanism = check_mechanism(
            values.for_listener(listener, settings.SASL_MECHANISM_INTER_BROKER_PROTOCOL)
        )
        if mechanism not in enabled_mechanisms(values, listener):
            raise ValueError(
                f"sasl.mechanism.inter.broker.protocol must be in sasl.enabled.mechanisms, got {mechanism}"
            )
        entry = jaas_entry(values, listener, mechanism)
        if entry is None:
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            raise ValueError(f"{name} must have the login of this broker at other brokers")
        if ports is None:
            raise ValueError("SASL between brokers is not possible here")
        login = _login(values, listener, mechanism, entry, ports)
    except ValueError as problem:
        raise ConfigError([f"inter-broker listener {listener}: {problem}"]) from None
    return SaslHandshake(mechanism, login.new_client, values[settings.REQUEST_TIMEOUT_MS])


def _login(values: Settings, listener: str, mechanism: str, entry: JaasEntry, ports: LoginPorts) -> SaslLogin:
    if mechanism == OAUTHBEARER:
        tokens = AccessTokens(_token_settings(values, listener, entry), ports)
        return SaslLogin(mechanism, tokens.credentials)
    credentials = ClientCredentials(
        entry.required("username").reveal(), entry.required("password"), ports.random_bytes
    )
    return SaslLogin(mechanism, lambda: credentials)


def _token_settings(values: Settings, listener: str, entry: JaasEntry) -> TokenSettings:
    def of(setting: Setting[V]) -> V:
        return values.for_mechanism(listener, OAUTHBEARER, setting)

    url = of(settings.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL)
    if not url:
        raise ValueError("OAUTHBEARER between brokers requires sasl.oauthbearer.token.endpoint.url")
    request = None
    if not url.startswith(FILE_SCHEME):
        client_id = entry.text("clientId")
        if client_id is None:
            raise ValueError("OAUTHBEARER between brokers requires clientId in sasl.jaas.config")
        request = ClientCredentialsRequest(client_id, entry.required("clientSecret"), entry.text("scope"))
    timeouts_ms = (of(settings.SASL_LOGIN_CONNECT_TIMEOUT_MS), of(settings.SASL_LOGIN_READ_TIMEOUT_MS))
    limits_s = [timeout_ms / 1000 for timeout_ms in timeouts_ms if timeout_ms is not None]
    return TokenSettings(
        url,
        request,
        entry.extensions(),
        max(limits_s, default=_HTTP_TIMEOUT_S),
        of(settings.SASL_LOGIN_RETRY_BACKOFF_MS),
        of(settings.SASL_LOGIN_RETRY_BACKOFF_MAX_MS),
        RefreshSettings(
            of(settings.SASL_LOGIN_REFRESH_WINDOW_FACTOR),
            of(settings.SASL_LOGIN_REFRESH_WINDOW_JITTER),
            of(settings.SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS),
            of(settings.SASL_LOGIN_REFRESH_BUFFER_SECONDS),
        ),
        of(settings.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
        of(settings.SASL_OAUTHBEARER_SUB_CLAIM_NAME),
    )
