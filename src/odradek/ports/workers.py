"""The port for worker threads.

Long computations, such as decompressing a large batch, must not block the event loop. ``run`` is for work of
bounded size, several at a time; ``run_alone`` for work that needs much memory, one at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    def run(self, work: Callable[[], T]) -> Awaitable[T]: ...

    def run_alone(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run work after all earlier ``run_alone`` work."""
        ...
