"""Composition root of the clients: chooses the system clock, randomness and network.

Code that no client passes its ports to (commands, Spark tasks) takes them from here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.system.clock import SystemClock, block_thread
from odradek.system.entropy import SystemEntropy
from odradek.system.transports import TransportNetwork

__all__ = ["ClientEnvironment", "block_thread", "new_uuid", "system_environment"]


class ClientEnvironment(NamedTuple):
    """Ports of a client. ``network`` takes the sizes of the send and receive buffers."""

    clock: Clock
    entropy: Entropy
    network: Callable[[int, int], Network]


def system_environment() -> ClientEnvironment:
    return ClientEnvironment(SystemClock(), SystemEntropy(), TransportNetwork)


def new_uuid() -> UUID:
    """Return a random UUID."""
    return UUID(bytes=system_environment().entropy.uuid())
