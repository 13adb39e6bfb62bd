"""Quota of changes by the controller: partitions created or deleted by a client.

Requests since ``strict`` versions are rejected with THROTTLING_QUOTA_EXCEEDED while the bucket is overdrawn.
Clients of earlier versions do not know that error: their changes are made, and their connection is throttled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from odradek.broker.quotas.client_sensors import SENSORS_MAX, ClientSensors
from odradek.broker.quotas.quota_entities import QuotaEntity, QuotaTable
from odradek.broker.quotas.throttle_time import token_throttle_time_ms
from odradek.broker.quotas.token_bucket import TokenBucket
from odradek.model.errors import BrokerError, ErrorCode


class ControllerMutationQuota(Protocol):
    """Quota of the client of one request."""

    def record(self, permits: int) -> None:
        """Count changes before they are made. Raises THROTTLING_QUOTA_EXCEEDED if they are rejected."""
        ...

    def throttle_time_ms(self) -> int:
        """Return how much longer the client must be throttled."""
        ...


class UnboundedQuota:
    """In place of a quota, for clients that have none."""

    def record(self, permits: int) -> None:
        """Allow all changes."""

    def throttle_time_ms(self) -> int:
        return 0


UNBOUNDED: Final = UnboundedQuota()


class BucketQuota:
    """Quota with a token bucket, which the requests of a client share."""

    def __init__(
        self, bucket: TokenBucket, rate: float, now_ms: Callable[[], int], *, is_strict: bool
    ) -> None:
        self._bucket = bucket
        self._rate = rate
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def record(self, permits: int) -> None:
        now_ms = self._now_ms()
        if self._is_strict and (tokens := self._bucket.tokens(self._rate, now_ms)) < 0:
            self._violate(tokens, now_ms)
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        tokens = self._bucket.take(permits, self._rate, now_ms)
        if not self._is_strict and tokens < 0:
            self._violate(tokens, now_ms)

    def throttle_time_ms(self) -> int:
        # The request may have waited since then.
        return max(self._throttle_ms - (self._now_ms() - self._recorded_ms), 0)

    def _violate(self, tokens: float, now_ms: int) -> None:
        self._throttle_ms = token_throttle_time_ms(tokens, self._rate)
        self._recorded_ms = now_ms


class ControllerMutationQuotaManager:
    def __init__(
        self,
        sample_count: int,
        sample_ms: int,
        now_ms: Callable[[], int],
        sensors_max: int = SENSORS_MAX,
    ) -> None:
        self._now_ms = now_ms
        self._table = QuotaTable()
        self._buckets = ClientSensors(lambda: TokenBucket(sample_count, sample_ms), sensors_max)
        self.is_enabled = False
        """True while any quota of this type is set."""

    @property
    def sensor_count(self) -> int:
        return len(self._buckets)

    def update_quota(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set a quota, in changes per second; None removes it."""
        self._table.update(entity, bound)
        self.is_enabled = len(self._table) > 0

    def quota(self, user: str, client_id: str) -> float | None:
        """Return the quota of a client, or None."""
        applied = self._table.find(user, client_id)
        return None if applied is None else applied.bound

    def quota_for(self, user: str, client_id: str, *, is_strict: bool) -> ControllerMutationQuota:
        """Return the quota for one request of a client."""
        applied = self._table.find(user, client_id)
        if applied is None:
            return UNBOUNDED
        bucket = self._buckets.get(applied.counted_by, self._now_ms())
        return BucketQuota(bucket, applied.bound, self._now_ms, is_strict=is_strict)

    def expire_sensors(self, now_ms: int) -> None:
        self._buckets.expire(now_ms)
