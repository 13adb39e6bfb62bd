"""Composition root of the clients: chooses the system clock, randomness and network.

Code that no client passes its ports to (commands, Spark tasks) takes them from here too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.system.clock import SystemClock, block_thread
from odradek.system.entropy import SystemEntropy
from odradek.system.transports import TransportNetwork

if TYPE_CHECKING:
    from odradek.net.sasl_login import LoginPorts

__all__ = ["ClientEnvironment", "block_thread", "new_uuid", "system_environment"]


class ClientEnvironment(NamedTuple):
    """Ports of a client. ``network`` takes the sizes of the send and receive buffers.

    ``login_ports`` returns what a login needs, ``read_file`` reads certificates.
    """

    clock: Clock
    entropy: Entropy
    network: Callable[[int, int], Network]
    login_ports: Callable[[], LoginPorts] | None = None
    read_file: Callable[[str], bytes] | None = None


def system_environment() -> ClientEnvironment:
    return ClientEnvironment(SystemClock(), SystemEntropy(), TransportNetwork, _login_ports, _read_file)


def _login_ports() -> LoginPorts:
    """Return what clients with SASL need; imported only then."""
    from odradek.net.sasl_login import LoginPorts
    from odradek.system.http import SystemHttp

    return LoginPorts(
        SystemHttp(),
        lambda path: _read_file(path).decode(),
        SystemEntropy().token,
        SystemClock().wall_ms,
        lambda duration_ms: block_thread(duration_ms / 1000),
    )


def _read_file(path: str) -> bytes:
    return Path(path).read_bytes()


def new_uuid() -> UUID:
    """Return a random UUID."""
    return UUID(bytes=system_environment().entropy.uuid())
