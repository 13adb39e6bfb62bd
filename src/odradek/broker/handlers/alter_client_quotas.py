"""AlterClientQuotas, versions 0 and 1: set or remove quotas of users, client ids and addresses.

Entries succeed or fail independently, each as a whole. Any broker writes them to the store; all brokers apply
them by notification.
"""

from __future__ import annotations

from odradek.broker.quotas.entity_paths import entity_path
from odradek.broker.quotas.quota_configs import alter_quotas
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.store.configs import read_config, update_config
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)


async def alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    context.require_on_cluster(AclOperation.ALTER_CONFIGS)
    entries = []
    for entry in request.entries:
        code, message = await _outcome(entry, request.validate_only, context)
        entries.append(_result(entry, code, message))
    return AlterClientQuotasResponse(entries=entries)


async def _outcome(
    entry: AlterClientQuotasRequestEntryData, validate_only: bool, context: RequestContext
) -> tuple[ErrorCode, str | None]:
    try:
        await _alter(entry, validate_only, context)
    except BrokerError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


async def _alter(
    entry: AlterClientQuotasRequestEntryData, validate_only: bool, context: RequestContext
) -> None:
    path = entity_path(entry.entity)
    store = context.broker.membership.store

    def change(config: dict[str, str]) -> dict[str, str]:
        return alter_quotas(config, entry.ops, path.quota_types)

    if validate_only:
        change(await read_config(store, path.config_type, path.name))
    else:
        await update_config(store, path.config_type, path.name, change)


def _result(
    entry: AlterClientQuotasRequestEntryData, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponseEntryData:
    entity = [
        AlterClientQuotasResponseEntityData(part.entity_type, part.entity_name) for part in entry.entity
    ]
    return AlterClientQuotasResponseEntryData(code, message, entity)


def error_response(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_result(entry, code, message) for entry in request.entries])
