"""The port for time. Times are integers of milliseconds, but for ``monotonic_ns``."""

from collections.abc import Awaitable
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for stretches of work; asked often, so it must be cheap."""
        ...

    def sleep_ms(self, duration_ms: int) -> Awaitable[None]: ...
