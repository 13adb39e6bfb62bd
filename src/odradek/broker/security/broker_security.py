"""Security of a broker: its listeners, its connections to other brokers, and the key sets they use.

Imported only by a broker with a listener that is not PLAINTEXT, as it takes time to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from odradek.broker.audit import AuditLog
from odradek.broker.environment import Environment
from odradek.broker.scheduled_tasks import ScheduledTask
from odradek.broker.security.inter_broker_login import inter_broker_handshake
from odradek.broker.security.key_sets import KeySetSource
from odradek.broker.security.listener_sasl import CredentialStore
from odradek.broker.security.listener_security import ListenerSecurity, SecurityParts
from odradek.broker.security.tls_options import tls_options
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import ListenerEndpoint, protocol_of
from odradek.net.broker_connection import Handshake
from odradek.net.sasl_login import FILE_SCHEME
from odradek.net.tls.tls_network import TlsNetwork
from odradek.ports.network import Network
from odradek.security.sasl.scram_credential import ScramCredential, parse_credential
from odradek.security.sasl.scram_server import TokenCredential
from odradek.security.tls.context_source import TlsContextSource

KEY_SET_TIMEOUT_S: Final = 10.0
CERTIFICATE_CHECK_MS: Final = 10_000
"""Interval of the check whether certificate files have changed."""

ScramText = Callable[[str, str], str | None]
"""Returns the stored credential of a mechanism and user, in Kafka's format."""


class BrokerSecurity:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        environment: Environment,
        audit: AuditLog,
        scram_text: ScramText,
        token: Callable[[str, str], TokenCredential | None],
    ) -> None:
        self._config = config
        self._environment = environment
        self._login = None if environment.login_ports is None else environment.login_ports()
        files = environment.files
        self._credentials = CredentialStore(
            partial(_scram_credential, scram_text),
            token,
            environment.entropy.token,
            environment.clock,
            lambda path: files.read_whole(path).decode(),
            self._read_text,
        )
        self._parts = SecurityParts(
            self._credentials, files.read_whole, files.offload_read, audit, lambda: config.broker
        )
        self._clients: dict[str, TlsContextSource] = {}
        self._refreshing: set[asyncio.Task[None]] = set()

    def for_listener(self, endpoint: ListenerEndpoint, values: Settings) -> ListenerSecurity | None:
        """Return the security of a listener, None for PLAINTEXT. Raises ConfigError."""
        if endpoint.protocol is SecurityProtocol.PLAINTEXT:
            return None
        return ListenerSecurity(endpoint, values, self._parts)

    # Connections to other brokers.

    def network(self, listener: str) -> Network:
        """Return the network for connections to a listener of other brokers."""
        values, network = self._config.broker, self._environment.network
        if not protocol_of(values, listener).encrypted:
            return network
        options = tls_options(values, listener, is_sasl=protocol_of(values, listener).sasl)
        source = TlsContextSource(options, self._environment.files.read_whole, server_side=False)
        self._clients[listener] = source
        return TlsNetwork(network, client=source)

    def handshake(self, listener: str) -> Handshake | None:
        """Return the SASL handshake of connections to a listener of other brokers. Raises ConfigError."""
        return inter_broker_handshake(self._config.broker, listener, self._login)

    # Keys and certificates.

    async def load(self) -> None:
        """Read the key sets of all listeners; raises ConfigError if one cannot be read."""
        for source in self._credentials.key_sets.values():
            await source.load()
            source.on_unknown_key = partial(self._refresh_soon, source)

    def _refresh_soon(self, source: KeySetSource) -> None:
        task = asyncio.get_running_loop().create_task(source.refresh())
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)

    async def refresh_key_sets(self) -> None:
        for source in list(self._credentials.key_sets.values()):
            await source.refresh()

    async def _read_text(self, url: str) -> str:
        """Read a key set from a file or an HTTP server, on a thread."""
        if url.startswith(FILE_SCHEME):
            path = "/" + url.removeprefix(FILE_SCHEME).lstrip("/")
            return (await self._environment.workers.run(partial(self._parts.read_bytes, path))).decode()
        if self._login is None:
            raise OSError("HTTP is not possible here")
        status, body = await self._environment.workers.run(
            partial(self._login.http.get, url, KEY_SET_TIMEOUT_S)
        )
        if status != 200:
            raise OSError(f"the server answered with status {status}")
        return body.decode()

    def tasks(self, reload_listeners: Callable[[], None]) -> list[ScheduledTask]:
        """Return the periodic tasks: keys are read again, and certificates whose files have changed."""
        refresh_ms = self._config.broker[settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS]

        async def reload() -> None:
            reload_listeners()
            for source in self._clients.values():
                source.reload()

        return [
            ScheduledTask("refresh_key_sets", max(refresh_ms, 1000), self.refresh_key_sets),
            ScheduledTask("reload_certificates", CERTIFICATE_CHECK_MS, reload),
        ]

    async def close(self) -> None:
        for task in list(self._refreshing):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._refreshing, return_exceptions=True)


def _scram_credential(scram_text: ScramText, mechanism: str, name: str) -> ScramCredential | None:
    text = scram_text(mechanism, name)
    if text is None:
        return None
    try:
        return parse_credential(mechanism, text)
    except ValueError:
        return None  # as in Kafka, a credential that cannot be read is none
