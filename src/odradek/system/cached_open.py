"""Opening a file without waiting for the disk: ``openat2`` with ``RESOLVE_CACHED`` (Linux 5.12).

The system call fails if a name on the way or the file's inode would have to be read. Python has no function
for it. Where it is missing or forbidden (seccomp), no file counts as cached.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from struct import Struct
from typing import Final

_NUMBER: Final = 437
_NUMBER_IS_KNOWN: Final = sys.platform == "linux" and os.uname().machine in {"x86_64", "aarch64", "riscv64"}
_AT_FDCWD: Final = -100
_RESOLVE_CACHED: Final = 0x20
_HOW: Final = Struct("=QQQ").pack(os.O_RDONLY | os.O_CLOEXEC, 0, _RESOLVE_CACHED)
_NOT_SUPPORTED: Final = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG})


def _load_system_call() -> Callable[..., int]:
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    system_call.restype = ctypes.c_long
    system_call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    return system_call


class CachedOpen:
    """Opens files for reading that need no disk access to be opened."""

    def __init__(self) -> None:
        self._system_call = _load_system_call() if _NUMBER_IS_KNOWN else None

    def open(self, path: str) -> int:
        """Return a descriptor, or -1 after any failure: the caller opens the file on a thread."""
        if self._system_call is None:
            return -1
        descriptor = self._system_call(_NUMBER, _AT_FDCWD, os.fsencode(path), _HOW, len(_HOW))
        if descriptor < 0 and ctypes.get_errno() in _NOT_SUPPORTED:
            self._system_call = None
        return descriptor
