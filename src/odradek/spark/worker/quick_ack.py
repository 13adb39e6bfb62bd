"""The socket through which Spark sends a Python worker its work, made to answer at once.

Spark sends a task in two pieces: the function, and then the rows or the partition it is for. The system sends
the second only once the first is acknowledged, and the worker's system waits 40 ms with that in case the
worker had something to say. For a small task that is half of its time. The function comes with an object of
ours, whose arrival is the one moment between the two pieces that is ours.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any, Final

_DESCRIPTORS: Final = "/proc/self/fd"
_ANSWER_AT_ONCE: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
"""Linux has it, and forgets it after a moment."""


class QuickAckOnUnpickle:
    """What is sent to workers as part of a function."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge what has come through any socket of this process, now and not in 40 ms."""
    if _ANSWER_AT_ONCE is None or socket.getdefaulttimeout() is not None:
        # To look at a socket with such a timeout would make it one that does not wait.
        return
    for descriptor in _descriptors():
        # Most are no sockets, or of another kind.
        with suppress(OSError):
            _acknowledge(descriptor, _ANSWER_AT_ONCE)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:
        # Without /proc tasks are slower, and go on.
        return []


def _acknowledge(descriptor: int, option: int) -> None:
    copy = os.dup(descriptor)
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with found:
        found.setsockopt(socket.IPPROTO_TCP, option, 1)
