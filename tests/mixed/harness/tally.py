"""Counts over a run of the tests, for its summary."""

from __future__ import annotations

from collections import Counter
from typing import Final


class Tally:
    """Records that were acknowledged and checked, and faults by kind."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.faults: Counter[str] = Counter()

    def describe(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        total = self.faults.total()
        return f"{self.acknowledged} acknowledged records checked, {total} faults ({kinds or 'none'})"


TALLY: Final = Tally()
