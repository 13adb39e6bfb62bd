"""A gate at which a thread is held back between two of its steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    def __init__(self) -> None:
        self._entry = threading.Lock()
        self._step = threading.Lock()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wait until the gate is open, and keep it from closing during a step."""
        with self._entry:
            pass
        with self._step:
            yield

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait for the end of a step, and let none begin meanwhile."""
        with self._entry, self._step:
            yield
