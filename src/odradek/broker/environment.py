"""Ports a broker runs on. Composition roots and tests choose them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSystem
from odradek.ports.network import Network
from odradek.ports.workers import Workers
from odradek.store.port import Store

if TYPE_CHECKING:
    from odradek.net.sasl_login import LoginPorts


class Ensemble(Protocol):
    """Provider of store sessions. A broker has one at a time, and another after an expiry.

    While ``defers_writes`` is set, a full disk rejects no write: it is written once there is space.
    """

    defers_writes: bool

    async def open_session(self) -> Store:
        """Open a session; raises ``Unavailable`` if the store cannot be reached."""
        ...

    async def close(self) -> None:
        """Close the sessions of this broker."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """Ports a broker runs on.

    ``open_store`` opens the store: the embedded one in this file, or ZooKeeper if ``zookeeper.connect`` is
    set. ``on_resized`` is called with the partition count. ``login_ports`` returns
    what fetches keys and tokens; without it, neither is possible.
    """

    clock: Clock
    entropy: Entropy
    files: FileSystem
    network: Network
    host_name: Callable[[], str]
    open_store: Callable[[str], Ensemble]
    workers: Workers
    on_resized: Callable[[int], None] = lambda _: None
    login_ports: Callable[[], LoginPorts] | None = None
