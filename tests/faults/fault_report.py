"""The report of a fault run."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class FaultReport:
    """Counts of one run. ``violations`` must stay empty."""

    fault: str
    seed: int
    faults: int = 0
    acknowledged: int = 0
    """Acknowledged records."""
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def violate(self, what: str) -> None:
        """Record a violation."""
        self.violations.append(what)

    def check(self, holds: bool, what: str) -> None:
        """Record a violation unless the condition holds."""
        if not holds:
            self.violate(what)

    def text(self) -> str:
        """Format counts, outcomes and violations."""
        seconds = time.monotonic() - self.began
        lines = [
            f"{self.fault}: {self.faults} faults, seed {self.seed}, {self.acknowledged} acknowledged, "
            f"{seconds:.1f} s, {len(self.violations)} violations"
        ]
        lines += [f"  {count:8}  {outcome}" for outcome, count in sorted(self.outcomes.items())]
        lines += [f"  VIOLATION {what}" for what in self.violations[:20]]
        return "\n".join(lines)
