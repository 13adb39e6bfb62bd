"""Encryption and authentication of a client's connections, from its options."""

from __future__ import annotations

from odradek.client.environment import ClientEnvironment
from odradek.config.client.connection import REQUEST_TIMEOUT_MS, SECURITY_PROTOCOL
from odradek.config.definition import Settings
from odradek.config.endpoints import SecurityProtocol
from odradek.model.errors import ConfigError
from odradek.net.broker_connection import Handshake
from odradek.ports.network import Network


def secured(
    network: Network, settings: Settings, environment: ClientEnvironment
) -> tuple[Network, Handshake | None]:
    """Return the network and the handshake of a client's connections. Raises ConfigError.

    The modules of TLS and SASL take time to load, and are only imported by clients that use them.
    """
    protocol = SecurityProtocol(settings[SECURITY_PROTOCOL])
    if protocol.encrypted:
        network = _encrypted(network, settings, environment)
    return network, _handshake(settings, environment) if protocol.sasl else None


def _encrypted(network: Network, settings: Settings, environment: ClientEnvironment) -> Network:
    from odradek.client.tls_options import tls_options
    from odradek.net.tls.tls_network import TlsNetwork
    from odradek.security.tls.context_source import TlsContextSource

    if environment.read_file is None:
        raise ConfigError(["security.protocol: TLS is not possible in this environment"])
    source = TlsContextSource(
        tls_options(settings, environment.read_file), environment.read_file, server_side=False
    )
    return TlsNetwork(network, client=source)


def _handshake(settings: Settings, environment: ClientEnvironment) -> Handshake:
    from odradek.client.network.sasl_options import sasl_login
    from odradek.net.sasl_handshake import SaslHandshake

    if environment.login_ports is None:
        raise ConfigError(["security.protocol: SASL is not possible in this environment"])
    login = sasl_login(settings, environment.login_ports())
    return SaslHandshake(login.mechanism, login.new_client, settings[REQUEST_TIMEOUT_MS])
