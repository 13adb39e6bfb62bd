"""Settings of the group coordinator, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from odradek.config import broker
from odradek.config.definition import Settings

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings with Kafka's defaults."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    members_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 10_080 * _MINUTE_MS
    offsets_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, settings: Settings) -> GroupSettings:
        """Take the values from a broker's settings."""
        return cls(
            session_timeout_min_ms=settings[broker.GROUP_MIN_SESSION_TIMEOUT_MS],
            session_timeout_max_ms=settings[broker.GROUP_MAX_SESSION_TIMEOUT_MS],
            members_max=settings[broker.GROUP_MAX_SIZE],
            initial_rebalance_delay_ms=settings[broker.GROUP_INITIAL_REBALANCE_DELAY_MS],
            offset_metadata_bytes_max=settings[broker.OFFSET_METADATA_MAX_BYTES],
            offsets_retention_ms=settings[broker.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
            offsets_check_interval_ms=settings[broker.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        )
