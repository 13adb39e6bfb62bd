"""Addresses of hosts, from the system's resolver."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final

from odradek.ports.network import UnknownHost

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""One entry of ``getaddrinfo``."""

# The name was looked up, and does not exist or has no address; other failures may pass.
_FINAL: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if hasattr(socket, name)
)


async def addresses_of(host: str, port: int) -> Sequence[Address]:
    """Return where a host can be dialled, at least one; raise UnknownHost, or OSError for what may pass."""
    try:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as failed:
        raise resolution_error(host, failed) from failed


def resolution_error(host: str, failed: OSError | UnicodeError) -> OSError:
    """The exception for a name that was not resolved."""
    if isinstance(failed, UnicodeError):
        return UnknownHost(host, "it is no valid host name")
    if failed.errno in _FINAL:
        return UnknownHost(host, failed.strerror or str(failed))
    return OSError(f"host {host!r} could not be resolved: {failed.strerror}")
