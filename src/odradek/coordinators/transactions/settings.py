"""Settings of the transaction coordinator, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from odradek.config import broker
from odradek.config.definition import Settings

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings with Kafka's defaults."""

    timeout_max_ms: int = 900_000
    id_retention_ms: int = 7 * _DAY_MS
    timeouts_check_interval_ms: int = 10_000
    ids_check_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, settings: Settings) -> TransactionSettings:
        """Take the values from a broker's settings."""
        return cls(
            timeout_max_ms=settings[broker.TRANSACTION_MAX_TIMEOUT_MS],
            id_retention_ms=settings[broker.TRANSACTIONAL_ID_EXPIRATION_MS],
            timeouts_check_interval_ms=settings[
                broker.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS
            ],
            ids_check_interval_ms=settings[broker.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS],
        )
