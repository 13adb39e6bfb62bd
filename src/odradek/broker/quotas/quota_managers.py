"""The quota managers of a broker, and the throttle time of a request by all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.broker.quotas.client_quota_manager import ClientQuotaManager
from odradek.broker.quotas.controller_mutation_quota import ControllerMutationQuotaManager
from odradek.broker.quotas.quota_configs import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from odradek.broker.quotas.quota_entities import QuotaEntity
from odradek.config import broker as settings
from odradek.config.definition import Settings


class QuotaManagers:
    def __init__(self, values: Settings, now_ms: Callable[[], int]) -> None:
        count = values[settings.QUOTA_WINDOW_NUM]
        sample_ms = 1000 * values[settings.QUOTA_WINDOW_SIZE_SECONDS]
        self.now_ms = now_ms
        self.produce = ClientQuotaManager(count, sample_ms)
        self.fetch = ClientQuotaManager(count, sample_ms)
        # One sample at most: a client must be able to send a heartbeat in time.
        self.request = ClientQuotaManager(count, sample_ms, throttle_ms_max=sample_ms)
        self.controller_mutation = ControllerMutationQuotaManager(
            values[settings.CONTROLLER_QUOTA_WINDOW_NUM],
            1000 * values[settings.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS],
            now_ms,
        )
        self._entities: set[QuotaEntity] = set()
        self.on_enabled_changed: Callable[[bool], None] = lambda is_enabled: None
        """Called when the first quota is set, and when the last is removed."""

    @property
    def is_enabled(self) -> bool:
        """True while any quota is set; otherwise requests need not be measured."""
        return bool(self._entities)

    def update(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Set the quotas of an entity by key, and no others of it."""
        self.produce.update_quota(entity, quotas.get(PRODUCER_BYTE_RATE))
        self.fetch.update_quota(entity, quotas.get(CONSUMER_BYTE_RATE))
        self.request.update_quota(entity, quotas.get(REQUEST_PERCENTAGE))
        self.controller_mutation.update_quota(entity, quotas.get(CONTROLLER_MUTATION_RATE))
        was_enabled = self.is_enabled
        if quotas:
            self._entities.add(entity)
        else:
            self._entities.discard(entity)
        if self.is_enabled != was_enabled:
            self.on_enabled_changed(self.is_enabled)

    def replace(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Set the quotas of these entities, and of no others."""
        for entity in self._entities - quotas.keys():
            self.update(entity, {})
        for entity, values in quotas.items():
            self.update(entity, values)

    def expire_sensors(self) -> None:
        """Drop the measurements of idle clients."""
        now_ms = self.now_ms()
        for manager in (self.produce, self.fetch, self.request, self.controller_mutation):
            manager.expire_sensors(now_ms)
