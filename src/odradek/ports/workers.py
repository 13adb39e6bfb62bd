"""The port for threads that do computing work.

The event loop must not be held by work that takes long, such as unpacking a large batch. ``run`` is for work
of bounded size, several at a time; ``run_alone`` for work that takes much memory, one at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    def run(self, work: Callable[[], T]) -> Awaitable[T]: ...

    def run_alone(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run work after all that was given to ``run_alone`` before."""
        ...
