"""DescribeClientQuotas, versions 0 and 1: the quotas of the entities that match a filter.

They are read from the store, which may be newer than what this broker enforces.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.quotas.entity_paths import (
    CLIENT_ID,
    CLIENTS,
    IP,
    IPS,
    USER,
    USERS,
    entity_name,
    node_name,
    pair_name,
)
from odradek.broker.quotas.quota_configs import CLIENT_QUOTAS, IP_QUOTAS, ValueType, parse_quotas
from odradek.broker.quotas.quota_filters import NameFilter, QuotaFilter, parse_filter
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.store.configs import (
    read_configs,
    read_configs_of,
    read_pair_configs,
    read_user_pair_configs,
)
from odradek.store.port import Store
from odradek.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    context.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    quota_filter = parse_filter(request.components, request.strict)
    store = context.broker.membership.store
    entries: list[EntryData] = []
    if quota_filter.includes_users:
        configs = await _read(store, USERS, quota_filter.user)
        entries += _entries(configs, USER, quota_filter.user, CLIENT_QUOTAS)
    if quota_filter.includes_clients:
        configs = await _read(store, CLIENTS, quota_filter.client_id)
        entries += _entries(configs, CLIENT_ID, quota_filter.client_id, CLIENT_QUOTAS)
    if quota_filter.includes_pairs:
        entries += _pair_entries(await _read_pairs(store, quota_filter), quota_filter)
    if quota_filter.includes_ips:
        configs = await _read(store, IPS, quota_filter.ip)
        entries += _entries(configs, IP, quota_filter.ip, IP_QUOTAS)
    return DescribeClientQuotasResponse(entries=entries)


async def _read(
    store: Store, config_type: str, name_filter: NameFilter | None
) -> Mapping[str, Mapping[str, str]]:
    """Return configs by node name: of one node, or of all."""
    if name_filter is None or name_filter.is_any:
        return await read_configs(store, config_type)
    return await read_configs_of(store, config_type, [node_name(name_filter.name)])


async def _read_pairs(store: Store, quota_filter: QuotaFilter) -> Mapping[str, Mapping[str, str]]:
    user, client_id = quota_filter.user, quota_filter.client_id
    if user is None or user.is_any:
        return await read_pair_configs(store)
    if client_id is None or client_id.is_any:
        return await read_user_pair_configs(store, node_name(user.name))
    return await read_configs_of(store, USERS, [pair_name(user.name, client_id.name)])


def _entries(
    configs: Mapping[str, Mapping[str, str]],
    entity_type: str,
    name_filter: NameFilter | None,
    types: Mapping[str, ValueType],
) -> list[EntryData]:
    entries = []
    for node, config in configs.items():
        name, values = entity_name(node), _values(config, types)
        if values and (name_filter is None or name_filter.matches(name)):
            entries.append(EntryData([EntityData(entity_type, name)], values))
    return entries


def _pair_entries(configs: Mapping[str, Mapping[str, str]], quota_filter: QuotaFilter) -> list[EntryData]:
    entries = []
    for node, config in configs.items():
        user_node, _, client_node = node.split("/")
        user, client_id = entity_name(user_node), entity_name(client_node)
        values = _values(config, CLIENT_QUOTAS)
        if not values or not (quota_filter.user is None or quota_filter.user.matches(user)):
            continue
        if quota_filter.client_id is None or quota_filter.client_id.matches(client_id):
            entries.append(EntryData([EntityData(USER, user), EntityData(CLIENT_ID, client_id)], values))
    return entries


def _values(config: Mapping[str, str], types: Mapping[str, ValueType]) -> list[ValueData]:
    return [ValueData(key, value) for key, value in parse_quotas(config, types).values.items()]


def error_response(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
