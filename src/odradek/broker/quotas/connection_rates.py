"""Rates of new connections: of the broker, of each listener and of each address.

The broker and a listener delay connections over their rate. A connection over the rate of its address is
closed after a delay, and counts for none of the rates. Times are bounded by the length of one sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.broker.quotas.client_sensors import ClientSensors
from odradek.broker.quotas.entity_paths import normalize_ip
from odradek.broker.quotas.quota_entities import DEFAULT, EntityName
from odradek.broker.quotas.sampled_rate import SampledRate
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.config.types import INT_MAX

UNLIMITED: Final = INT_MAX


class ConnectionDelay(NamedTuple):
    """Times for which a new connection is throttled; 0 if it is not."""

    accept_ms: int
    """Before it is served, and before its listener accepts another one."""
    ip_ms: int
    """Before it is closed, without being served."""


NO_DELAY: Final = ConnectionDelay(0, 0)


class ConnectionRates:
    def __init__(self, values: Settings) -> None:
        self._sample_count = values[settings.QUOTA_WINDOW_NUM]
        self._sample_ms = 1000 * values[settings.QUOTA_WINDOW_SIZE_SECONDS]
        self._broker_max = UNLIMITED
        self._broker_rate = self._new_rate()
        self._listener_max: Mapping[str, int] = {}
        self._listener_rates: dict[str, SampledRate] = {}
        self._ip_max: dict[EntityName, float] = {}
        self._ip_rates = ClientSensors(self._new_rate)
        self.update(values)

    def update(self, values: Settings) -> None:
        """Take the rates of broker and listeners from these settings."""
        rate = settings.MAX_CONNECTION_CREATION_RATE
        self._broker_max = values[rate]
        # By lower-case name. The rate of the broker is also the one of each other listener.
        self._listener_max = {
            listener: values.for_listener(listener, rate) for listener in values.listeners_overriding(rate)
        }

    def set_ip_rate(self, ip: EntityName, rate: float | None) -> None:
        """Set the rate of an address, or the default; None removes it."""
        if rate is None:
            self._ip_max.pop(ip, None)
        else:
            self._ip_max[ip] = rate

    def replace_ip_rates(self, rates: Mapping[EntityName, float]) -> None:
        self._ip_max = dict(rates)

    def ip_rate(self, ip: str) -> float:
        return self._ip_max.get(ip, self._ip_max.get(DEFAULT, UNLIMITED))

    def record(self, listener: str, host: str, now_ms: int, *, is_protected: bool) -> ConnectionDelay:
        """Record a new connection. A protected listener is exempt from the rate of the broker."""
        accept_ms = self._record_accept(listener.lower(), 1, now_ms, is_protected)
        if self._ip_max:
            address = normalize_ip(host) or host
            if (limit := self.ip_rate(address)) < UNLIMITED:
                rate = self._ip_rates.get(address, now_ms)
                ip_ms = self._record(rate, 1, limit, now_ms)
                if ip_ms:
                    rate.record(-1, now_ms)
                    self._record_accept(listener.lower(), -1, now_ms, is_protected)
                    return ConnectionDelay(accept_ms, ip_ms)
        return ConnectionDelay(accept_ms, 0)

    def expire_sensors(self, now_ms: int) -> None:
        """Drop the measurements of addresses without new connections."""
        self._ip_rates.expire(now_ms)

    def _record_accept(self, listener: str, count: int, now_ms: int, is_protected: bool) -> int:
        broker_ms = listener_ms = 0
        if not is_protected and self._broker_max < UNLIMITED:
            broker_ms = self._record(self._broker_rate, count, self._broker_max, now_ms)
        limit = self._listener_max.get(listener, self._broker_max)
        if limit < UNLIMITED:
            rate = self._listener_rates.get(listener)
            if rate is None:
                rate = self._listener_rates[listener] = self._new_rate()
            listener_ms = self._record(rate, count, limit, now_ms)
        return max(broker_ms, listener_ms)

    def _record(self, rate: SampledRate, count: int, limit: float, now_ms: int) -> int:
        rate.record(count, now_ms)
        return min(rate.throttle_time_ms(limit, now_ms), self._sample_ms)

    def _new_rate(self) -> SampledRate:
        return SampledRate(self._sample_count, self._sample_ms)
