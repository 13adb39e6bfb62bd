"""Times at which something was completed, and the longest time between two of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import NamedTuple


class Gap(NamedTuple):
    """A time without a completion, in seconds, and when it began, counted from the start of a period."""

    seconds: float
    begin: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s (from {self.begin:.1f} s on)"


class CompletionTimes:
    def __init__(self, times: Iterable[float] = ()) -> None:
        self._times = list(times)

    def note(self) -> None:
        self._times.append(time.monotonic())

    def longest_gap(self, since: float, until: float) -> Gap:
        """Return the longest time without a completion within a period."""
        times = [since, *(each for each in list(self._times) if since < each < until), until]
        return max(Gap(after - before, before - since) for before, after in itertools.pairwise(times))
