"""Long work in turns: other work of the event loop runs between portions of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

TURN_ITEMS: Final = 500
"""Partitions, or the like, before other work gets a turn on the event loop: some 15 ms."""


async def in_turns(items: Iterable[T]) -> AsyncIterator[Sequence[T]]:
    """Yield the items in portions, and give other work a turn between them."""
    remaining = list(items)
    for first in range(0, len(remaining), TURN_ITEMS):
        if first:
            await asyncio.sleep(0)
        yield remaining[first : first + TURN_ITEMS]
