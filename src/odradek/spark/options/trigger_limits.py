"""Limits of micro-batches. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TriggerLimits:
    """Limits of a micro-batch: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, ``maxTriggerDelay``."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = 0

    def should_wait(self, lag: int, since_last_ms: int | None) -> bool:
        """Return True if a batch of ``lag`` offsets should wait for more records."""
        if self.offsets_min is None or since_last_ms is None or since_last_ms >= self.delay_max_ms:
            return False
        return lag < self.offsets_min
