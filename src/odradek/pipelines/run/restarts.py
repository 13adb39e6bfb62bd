"""Restart policy of a failed driver. Pure."""

from __future__ import annotations

from typing import Final

from odradek.pipelines.spec.model import Restart

BACKOFF_MAX_MS: Final = 60_000


class Restarts:
    """Exponential backoff over consecutive failures without progress, up to a minute."""

    def __init__(self, restart: Restart) -> None:
        self._restart = restart
        self._failure_count = 0

    def wait_ms(self, *, made_progress: bool) -> int | None:
        """Return the time to wait before the next start; None if the attempts are exhausted."""
        if made_progress:
            self._failure_count = 0
        self._failure_count += 1
        if self._failure_count > self._restart.attempts:
            return None
        doublings = min(self._failure_count - 1, 16)
        return min(BACKOFF_MAX_MS, self._restart.backoff_ms << doublings)
