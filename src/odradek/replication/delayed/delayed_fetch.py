"""A fetch request in the purgatory: it waits for min.bytes, up to its max wait time."""

from __future__ import annotations

from collections.abc import Callable

from odradek.timers.purgatory import DelayedOperation


class DelayedFetch(DelayedOperation):
    """``has_enough`` checks the watched partitions again; ``send_response`` responds with what is there."""

    __slots__ = ("_has_enough", "_send_response")

    def __init__(self, has_enough: Callable[[], bool], send_response: Callable[[], None]) -> None:
        super().__init__()
        self._has_enough = has_enough
        self._send_response = send_response

    def try_complete(self) -> bool:
        return self._has_enough() and self.force_complete()

    def on_complete(self) -> None:
        self._send_response()
