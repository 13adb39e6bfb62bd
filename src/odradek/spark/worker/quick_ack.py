"""Immediate TCP acknowledgement of the task functions that Spark sends to a Python worker.

Spark sends a task in two pieces: the function, and then its rows or its partition. The sender's kernel holds
back the second until the first is acknowledged, and the worker's kernel delays that by 40 ms. For a small
task that is half of its time. The function contains one of our objects: its unpickling is the only point
between the two pieces where our code runs.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any, Final

_DESCRIPTORS: Final = "/proc/self/fd"
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
"""Linux only, and not permanent: the kernel clears it."""


class QuickAckOnUnpickle:
    """Mixin of objects that are pickled into a task function."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge received bytes on all sockets of this process now."""
    if _QUICKACK is None or socket.getdefaulttimeout() is not None:
        # With a default timeout, wrapping a descriptor would make its socket non-blocking.
        return
    for descriptor in _descriptors():
        # Most descriptors are not TCP sockets.
        with suppress(OSError):
            _acknowledge(descriptor, _QUICKACK)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:
        # Without /proc tasks are only slower.
        return []


def _acknowledge(descriptor: int, option: int) -> None:
    copy = os.dup(descriptor)
    try:
        wrapped = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with wrapped:
        wrapped.setsockopt(socket.IPPROTO_TCP, option, 1)
