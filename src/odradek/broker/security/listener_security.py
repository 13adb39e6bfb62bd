"""How the connections of one listener are encrypted and authenticated.

Made from the settings of the listener when it is opened, and updated when they change: new connections use
the new settings, and existing ones keep theirs. A change that is not valid is refused, or logged if it comes
from the store or a file, and the previous settings stay in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from odradek.broker.network.sasl_authenticator import Dispatch, SaslAuthenticator, SaslSettings
from odradek.broker.network.session import Session
from odradek.broker.security.audit import AuditLog
from odradek.broker.security.listener_sasl import CredentialStore, enabled_mechanisms, server_credentials
from odradek.broker.security.tls_options import client_tls_options, server_tls_options
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import ListenerEndpoint, listeners
from odradek.model.errors import ConfigError
from odradek.ports.network import Connection
from odradek.security.principal import user
from odradek.security.sasl.mechanisms import create_server
from odradek.security.tls.context_source import ChangeRules, TlsContextSource
from odradek.security.tls.principal_mapper import NoMatchingRule, PrincipalMapper
from odradek.wire.server_connection import Request


@dataclass(frozen=True, slots=True)
class SecurityParts:
    """What all listeners of a broker share."""

    credentials: CredentialStore
    read_bytes: Callable[[str], bytes]
    audit: AuditLog
    values: Callable[[], Settings]
    """The current settings."""


class ListenerSecurity:
    """Security of one listener. Raises ConfigError if its settings are not valid."""

    def __init__(self, endpoint: ListenerEndpoint, values: Settings, parts: SecurityParts) -> None:
        self.endpoint = endpoint
        self._parts = parts
        self.tls: TlsContextSource | None = None
        self._mapper = PrincipalMapper()
        self._sasl: SaslSettings | None = None
        if endpoint.protocol.encrypted:
            self.tls = TlsContextSource(
                server_tls_options(values, endpoint.name),
                parts.read_bytes,
                server_side=True,
                rules=_change_rules(values, endpoint.name),
                connects_to_itself=endpoint.name == listeners(values).inter_broker,
            )
        self._set(values)

    def update(self, values: Settings) -> None:
        """Use changed settings for new connections. Raises ConfigError, and keeps the previous ones then."""
        if self.tls is not None:
            self.tls.replace(server_tls_options(values, self.endpoint.name))
        self._set(values)

    def _set(self, values: Settings) -> None:
        name = self.endpoint.name
        try:
            if self.endpoint.protocol is SecurityProtocol.SSL:
                self._mapper = PrincipalMapper(
                    values.for_listener(name, settings.SSL_PRINCIPAL_MAPPING_RULES)
                )
            if self.endpoint.protocol.sasl:
                self._sasl = _sasl_settings(values, name, self._parts)
        except (ValueError, OSError) as problem:
            raise ConfigError([f"listener {name}: {problem}"]) from None

    # Connections.

    def frame_bytes_max(self, values: Settings) -> int:
        """Return the largest first request of a connection."""
        if self._sasl is None:
            return values[settings.SOCKET_REQUEST_MAX_BYTES]
        return values[settings.SASL_SERVER_MAX_RECEIVE_SIZE]

    def begin(self, session: Session, connection: Connection, dispatch: Dispatch) -> None:
        """Let a new session authenticate before it is served."""
        if self._sasl is not None:
            self._begin_sasl(self._sasl, session, dispatch)
        elif self.tls is not None:
            session.handle_request = partial(self._take_certificate, connection, dispatch)

    def _begin_sasl(self, sasl: SaslSettings, session: Session, dispatch: Dispatch) -> None:
        loop, values = asyncio.get_running_loop(), self._parts.values()
        authenticator = SaslAuthenticator(
            sasl, dispatch, self._parts.credentials.clock, loop.call_later, self._parts.audit
        )
        timeout_ms = values[settings.ODRADEK_AUTHENTICATION_TIMEOUT_MS]
        timer = loop.call_later(timeout_ms / 1000, session.abort)
        authenticator.on_authenticated = timer.cancel
        session.on_lost = timer.cancel
        session.handle_request = authenticator.handle

    def _take_certificate(
        self, connection: Connection, dispatch: Dispatch, request: Request, session: Session
    ) -> None:
        """Take the principal from the certificate of a client, before its first request."""
        name = getattr(connection, "peer_principal_name", None)
        if name is not None:
            try:
                session.principal = user(self._mapper.principal_name(name))
            except NoMatchingRule as problem:
                self._parts.audit.authentication_failed(
                    session.peer_host, session.peer, session.listener_name, "SSL", str(problem)
                )
                session.close_with_reason(str(problem), "principal")
                return
            self._parts.audit.authenticated(session.principal, session.peer, session.listener_name, "SSL")
        session.handle_request = dispatch
        dispatch(request, session)


def _change_rules(values: Settings, listener: str) -> ChangeRules:
    return ChangeRules(
        values.for_listener(listener, settings.SSL_ALLOW_DN_CHANGES),
        values.for_listener(listener, settings.SSL_ALLOW_SAN_CHANGES),
    )


def _sasl_settings(values: Settings, listener: str, parts: SecurityParts) -> SaslSettings:
    mechanisms = enabled_mechanisms(values, listener)
    credentials = server_credentials(values, listener, parts.credentials)
    return SaslSettings(
        mechanisms,
        lambda mechanism: create_server(mechanism, mechanisms, credentials),
        lambda mechanism: values.for_mechanism(listener, mechanism, settings.CONNECTIONS_MAX_REAUTH_MS),
        lambda: values.for_listener(listener, settings.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS),
        values[settings.SOCKET_REQUEST_MAX_BYTES],
    )
