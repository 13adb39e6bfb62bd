"""Composition root of the clients: chooses the system clock, randomness and network."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.system.clock import SystemClock
from odradek.system.entropy import SystemEntropy
from odradek.system.transports import TransportNetwork


class ClientEnvironment(NamedTuple):
    """Ports of a client. ``network`` takes the sizes of the send and receive buffers."""

    clock: Clock
    entropy: Entropy
    network: Callable[[int, int], Network]


def system_environment() -> ClientEnvironment:
    return ClientEnvironment(SystemClock(), SystemEntropy(), TransportNetwork)
