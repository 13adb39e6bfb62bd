"""Configs of users, client ids and addresses: the quotas and SCRAM credentials that this broker applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.entity_paths import (
    CLIENTS,
    IPS,
    USERS,
    entity_name,
    parse_ip_entity,
    parse_quota_entity,
)
from odradek.broker.quotas.quota_configs import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    IP_QUOTAS,
    ValueType,
    parse_quotas,
)
from odradek.broker.quotas.quota_entities import EntityName, QuotaEntity
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.scram_credentials import ScramCredentialCache
from odradek.store.configs import read_configs, read_pair_configs
from odradek.store.port import Store
from odradek.telemetry import events

CLIENT_ENTITY_TYPES: Final = frozenset({USERS, CLIENTS, IPS})

Configs = Mapping[str, Mapping[str, str]]
"""Configs by node name."""

log = events.logger("config")


class ClientConfigs:
    """Applies the configs of users, client ids and addresses to the components that enforce them."""

    def __init__(
        self, quotas: QuotaManagers, connection_rates: ConnectionRates, credentials: ScramCredentialCache
    ) -> None:
        self.quotas = quotas
        self.connection_rates = connection_rates
        self.credentials = credentials

    async def load(self, store: Store) -> None:
        """Read all of them, and apply them instead of those before."""
        users = await read_configs(store, USERS)
        pairs = await read_pair_configs(store)
        self._replace_quotas({**users, **pairs}, await read_configs(store, CLIENTS))
        self._replace_ips(await read_configs(store, IPS))
        names = {node: entity_name(node) for node in users}
        self.credentials.replace({name: users[node] for node, name in names.items() if name is not None})

    def update(self, config_type: str, name: str, config: Mapping[str, str]) -> None:
        """Apply the configs of one entity after a change."""
        if config_type == IPS:
            ip = parse_ip_entity(name)
            if ip is not None:
                rates = _parse(config_type, name, config, IP_QUOTAS)
                self.connection_rates.set_ip_rate(ip, rates.get(CONNECTION_CREATION_RATE))
                log.info("quotas_changed", entity=f"{config_type}/{name}", **rates)
            return
        entity = parse_quota_entity(config_type, name)
        if entity is None:
            log.warning("quota_entity_ignored", entity=f"{config_type}/{name}")
            return
        quotas = _parse(config_type, name, config, CLIENT_QUOTAS)
        self.quotas.update(entity, quotas)
        log.info("quotas_changed", entity=f"{config_type}/{name}", **quotas)
        if config_type == USERS and isinstance(entity.user, str) and entity.client_id is None:
            self.credentials.update(entity.user, config)

    def expire_sensors(self, now_ms: int) -> None:
        """Drop the measurements of idle clients and addresses."""
        self.quotas.expire_sensors()
        self.connection_rates.expire_sensors(now_ms)

    def _replace_quotas(self, users: Configs, clients: Configs) -> None:
        quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        for config_type, configs in ((USERS, users), (CLIENTS, clients)):
            for name, config in configs.items():
                entity = parse_quota_entity(config_type, name)
                if entity is not None:
                    quotas[entity] = _parse(config_type, name, config, CLIENT_QUOTAS)
        self.quotas.replace(quotas)

    def _replace_ips(self, ips: Configs) -> None:
        rates: dict[EntityName, float] = {}
        for name, config in ips.items():
            ip, quotas = parse_ip_entity(name), _parse(IPS, name, config, IP_QUOTAS)
            if ip is not None and CONNECTION_CREATION_RATE in quotas:
                rates[ip] = quotas[CONNECTION_CREATION_RATE]
        self.connection_rates.replace_ip_rates(rates)


def _parse(
    config_type: str, name: str, config: Mapping[str, str], types: Mapping[str, ValueType]
) -> dict[str, float]:
    parsed = parse_quotas(config, types)
    for problem in parsed.problems:
        log.warning("quota_ignored", entity=f"{config_type}/{name}", problem=problem)
    return parsed.values
