"""A file that only this process can read, for OpenSSL, which loads private keys from files only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DESCRIPTORS: Final = "/proc/self/fd"


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """Return the path of a file with these contents: in memory, or with mode 0600 in a directory with mode
    0700, which are deleted at the end."""
    if hasattr(os, "memfd_create") and os.path.isdir(_DESCRIPTORS):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            _write(descriptor, content)
            yield f"{_DESCRIPTORS}/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as directory:  # has mode 0700
        path = os.path.join(directory, "key")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write(descriptor, content)
        finally:
            os.close(descriptor)
        yield path


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
