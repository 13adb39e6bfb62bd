"""Host name resolution."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final

from odradek.ports.network import UnknownHost

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""One entry of ``getaddrinfo``."""

# The name does not exist or has no address; other failures may be temporary.
_PERMANENT_ERRORS: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if hasattr(socket, name)
)


async def addresses_of(host: str, port: int) -> Sequence[Address]:
    """Return the addresses of a host, at least one; raises UnknownHost, or OSError if temporary."""
    try:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise resolution_error(host, error) from error


def resolution_error(host: str, error: OSError | UnicodeError) -> OSError:
    """Return the exception for a failed resolution."""
    if isinstance(error, UnicodeError):
        return UnknownHost(host, "not a valid host name")
    if error.errno in _PERMANENT_ERRORS:
        return UnknownHost(host, error.strerror or str(error))
    return OSError(f"host {host!r} could not be resolved: {error.strerror}")
