"""A fetch request in the purgatory: it waits for min.bytes, up to its max wait time."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from odradek.timers.purgatory import DelayedOperation


class DelayedFetch(DelayedOperation):
    """``has_enough`` checks the watched partitions again; ``send_response`` responds with what is there.

    ``has_enough_after`` checks only one of them, so that a change costs the same however many are watched.
    """

    __slots__ = ("_has_enough", "_has_enough_after", "_send_response")

    def __init__(
        self,
        has_enough: Callable[[], bool],
        send_response: Callable[[], None],
        has_enough_after: Callable[[Hashable], bool] | None = None,
    ) -> None:
        super().__init__()
        self._has_enough = has_enough
        self._send_response = send_response
        self._has_enough_after = has_enough_after

    def try_complete(self) -> bool:
        return self._has_enough() and self.force_complete()

    def try_complete_after(self, key: Hashable) -> bool:
        if self._has_enough_after is None:
            return self.try_complete()
        return self._has_enough_after(key) and self.force_complete()

    def on_complete(self) -> None:
        self._send_response()
