"""Ports of this machine's loopback interface."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"
_CONNECT_S: Final = 1.0


def is_port_free(port: int) -> bool:
    """Return whether a server could listen on a port now."""
    with socket.socket() as probe:
        # As servers do: connections that were closed a moment ago do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def is_listening(port: int) -> bool:
    """Return whether a server accepts connections on a port."""
    try:
        with socket.create_connection((HOST, port), timeout=_CONNECT_S):
            return True
    except OSError:
        return False
