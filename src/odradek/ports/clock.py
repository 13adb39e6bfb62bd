"""The port for time. Times are integer milliseconds, except ``monotonic_ns``."""

from collections.abc import Awaitable
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed time; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for measuring work; called often, so it must be cheap."""
        ...

    def sleep_ms(self, duration_ms: int) -> Awaitable[None]: ...
