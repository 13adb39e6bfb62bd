"""Encryption and authentication of the connections of one listener.

Made from the settings of the listener when it is opened, and updated when they change: new connections use
the new settings, and existing ones keep theirs. A change that is not valid is refused, or logged if it comes
from the store or a file, and the previous settings stay in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from odradek.broker.audit import AuditLog
from odradek.broker.network.session import Session
from odradek.broker.security.listener_sasl import CredentialStore, enabled_mechanisms, server_credentials
from odradek.broker.security.sasl_authenticator import Dispatch, SaslAuthenticator, SaslSettings
from odradek.broker.security.tls_options import change_rules, tls_options
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import ListenerEndpoint, listeners
from odradek.model.errors import ConfigError
from odradek.net.tls.tls_connection import OffloadRead
from odradek.net.tls.tls_network import TlsNetwork
from odradek.ports.network import Connection, Network
from odradek.security.principal import user
from odradek.security.sasl.mechanisms import create_server
from odradek.security.tls.context_source import TlsContextSource
from odradek.security.tls.principal_mapper import NoMatchingRule, PrincipalMapper
from odradek.security.tls.tls_options import TlsOptions
from odradek.telemetry import events
from odradek.wire.server_connection import Request

log = events.logger("listener_security")


@dataclass(frozen=True, slots=True)
class SecurityParts:
    """Parts that all listeners of a broker share."""

    credentials: CredentialStore
    read_bytes: Callable[[str], bytes]
    offload_read: OffloadRead
    audit: AuditLog
    values: Callable[[], Settings]
    """The current settings."""


class ListenerSecurity:
    """Security of one listener. Raises ConfigError if its settings are not valid."""

    def __init__(self, endpoint: ListenerEndpoint, values: Settings, parts: SecurityParts) -> None:
        self.endpoint = endpoint
        self._parts = parts
        self.tls: TlsContextSource | None = None
        self._options: TlsOptions | None = None
        if endpoint.protocol.encrypted:
            self._options = self._tls_options(values)
            self.tls = TlsContextSource(
                self._options,
                parts.read_bytes,
                server_side=True,
                rules=change_rules(values, endpoint.name),
                connects_to_itself=endpoint.name == listeners(values).inter_broker,
            )
        self._mapper, self._sasl = self._made(values)

    def problems(self, values: Settings) -> list[str]:
        """Return why changed settings of this listener cannot be used."""
        problems: list[str] = []
        options = self._tls_options(values)
        if self.tls is not None and options != self._options:
            problems += self.tls.check(options)
        try:
            self._made(values)
        except ConfigError as error:
            problems += error.problems
        return problems

    def update(self, values: Settings) -> list[str]:
        """Use changed settings for new connections; return the problems if they keep the previous ones."""
        try:
            made, options = self._made(values), self._tls_options(values)
            if self.tls is not None and options != self._options:
                self.tls.replace(options)
                self._options = options
        except ConfigError as error:
            return list(error.problems)
        self._mapper, self._sasl = made
        return []

    def reload(self) -> None:
        """Read certificates again if their files have changed; log the result."""
        result = None if self.tls is None else self.tls.reload()
        if result is None:
            return
        if result.is_replaced:
            log.info("certificate_replaced", listener=self.endpoint.name)
        for problem in result.problems:
            log.error("certificate_not_replaced", listener=self.endpoint.name, reason=problem)

    def _tls_options(self, values: Settings) -> TlsOptions:
        return tls_options(values, self.endpoint.name, is_sasl=self.endpoint.protocol.sasl)

    def _made(self, values: Settings) -> tuple[PrincipalMapper, SaslSettings | None]:
        name, protocol = self.endpoint.name, self.endpoint.protocol
        mapper, sasl = PrincipalMapper(), None
        try:
            if protocol is SecurityProtocol.SSL:
                mapper = PrincipalMapper(values.for_listener(name, settings.SSL_PRINCIPAL_MAPPING_RULES))
            if protocol.sasl:
                sasl = _sasl_settings(values, name, self._parts)
        except (ValueError, OSError) as problem:
            raise ConfigError([f"listener {name}: {problem}"]) from None
        return mapper, sasl

    # Connections.

    def network(self, network: Network) -> Network:
        """Return the network on which to listen."""
        if self.tls is None:
            return network
        timeout_ms = self._parts.values()[settings.ODRADEK_AUTHENTICATION_TIMEOUT_MS]
        return TlsNetwork(
            network,
            server=self.tls,
            handshake_timeout_ms=timeout_ms,
            offload_read=self._parts.offload_read,
        )

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
