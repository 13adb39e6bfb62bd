"""Quota of one type per client: produced bytes, fetched bytes, or request time."""

from __future__ import annotations

from typing import Final

from odradek.broker.quotas.client_sensors import SENSORS_MAX, ClientSensors
from odradek.broker.quotas.quota_entities import QuotaEntity, QuotaTable
from odradek.broker.quotas.sampled_rate import SampledRate

NANOS_TO_PERCENTAGE_PER_SECOND: Final = 100 / 1_000_000_000
"""Request time is recorded as a percentage of a second."""


class ClientQuotaManager:
    """Clients without a quota are not measured."""

    def __init__(
        self,
        sample_count: int,
        sample_ms: int,
        throttle_ms_max: int | None = None,
        sensors_max: int = SENSORS_MAX,
    ) -> None:
        self._sample_count = sample_count
        self._sample_ms = sample_ms
        self._throttle_ms_max = throttle_ms_max
        self._table = QuotaTable()
        self._sensors = ClientSensors(lambda: SampledRate(sample_count, sample_ms), sensors_max)
        self.is_enabled = False
        """True while any quota of this type is set."""

    @property
    def sensor_count(self) -> int:
        return len(self._sensors)

    def update_quota(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set a quota, per second; None removes it. What is recorded stays."""
        self._table.update(entity, bound)
        self.is_enabled = len(self._table) > 0

    def quota(self, user: str, client_id: str) -> float | None:
        """Return the quota of a client, or None."""
        applied = self._table.find(user, client_id)
        return None if applied is None else applied.bound

    def max_value_in_window(self, user: str, client_id: str) -> float | None:
        """Return the largest value that is not throttled for certain, or None without a quota."""
        bound = self.quota(user, client_id)
        return None if bound is None else bound * (self._sample_count - 1) * self._sample_ms / 1000

    def record_and_get_throttle_time_ms(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Record a value; return the time for which the client must be throttled."""
        applied = self._table.find(user, client_id)
        if applied is None:
            return 0
        rate = self._sensors.get(applied.counted_by, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_time_ms(applied.bound, now_ms)
        return throttle_ms if self._throttle_ms_max is None else min(throttle_ms, self._throttle_ms_max)

    def record_no_throttle(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Record a value that counts from the next request on; a negative one takes an earlier one back."""
        applied = self._table.find(user, client_id)
        if applied is not None:
            self._sensors.get(applied.counted_by, now_ms).record(value, now_ms)

    def expire_sensors(self, now_ms: int) -> None:
        self._sensors.expire(now_ms)
