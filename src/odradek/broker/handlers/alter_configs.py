"""AlterConfigs (0 to 2) and IncrementalAlterConfigs (0 and 1): change configs of topics and brokers.

AlterConfigs replaces all overrides of a resource; IncrementalAlterConfigs sets, deletes, appends, subtracts,
and also sets the log levels of this broker. Resources succeed or fail independently. The empty broker name
changes the default for all brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

from odradek.broker.handlers.describe_configs import (
    check_broker_name,
    check_logger_broker,
    config_denial_code,
    is_config_denied,
)
from odradek.broker.requests.dispatcher import RequestContext
from odradek.config.dynamic import alter_configs as alter
from odradek.config.dynamic.alter_configs import AlterOperation, check_operations
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import AlterOp, ResourceType
from odradek.telemetry import events
from odradek.wire.messages import alter_configs as full
from odradek.wire.messages import incremental_alter_configs as incremental

Resource: TypeAlias = full.AlterConfigsResource | incremental.AlterConfigsResource
R = TypeVar("R", full.AlterConfigsResource, incremental.AlterConfigsResource)


async def alter_configs(
    request: full.AlterConfigsRequest, context: RequestContext
) -> full.AlterConfigsResponse:
    responses = []
    for resource, error in _distinct(request.resources):
        code, message = error or await _outcome(_replace, resource, request.validate_only, context)
        responses.append(
            full.AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
        )
    return full.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, context: RequestContext
) -> incremental.IncrementalAlterConfigsResponse:
    responses = []
    for resource, error in _distinct(request.resources):
        code, message = error or await _outcome(_change, resource, request.validate_only, context)
        responses.append(
            incremental.AlterConfigsResourceResponse(
                code, message, resource.resource_type, resource.resource_name
            )
        )
    return incremental.IncrementalAlterConfigsResponse(responses=responses)


async def _replace(resource: full.AlterConfigsResource, validate_only: bool, context: RequestContext) -> None:
    config = context.broker.config
    entries = [(entry.name, entry.value) for entry in resource.configs]
    if _is_topic(resource, context):
        overrides = alter.replace_topic(config, entries)
    else:
        overrides = alter.replace_broker(config, entries, per_broker=bool(resource.resource_name))
    await _store(resource, overrides, validate_only, context)


async def _change(
    resource: incremental.AlterConfigsResource, validate_only: bool, context: RequestContext
) -> None:
    config = context.broker.config
    operations = [
        AlterOperation(entry.name, entry.config_operation, entry.value) for entry in resource.configs
    ]
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_broker(resource.resource_name, context.broker.broker_id)
        alter_levels(operations, validate_only=validate_only)
        return
    if _is_topic(resource, context):
        name = resource.resource_name
        current = await context.broker.admin_manager.read_topic_overrides([name])
        overrides = alter.alter_topic(config, current.get(name, {}), operations)
    else:
        name = resource.resource_name
        stored = await context.broker.admin_manager.read_broker_overrides(name or None)
        overrides = alter.alter_broker(config, stored, operations, per_broker=bool(name))
    await _store(resource, overrides, validate_only, context)


def _is_topic(resource: Resource, context: RequestContext) -> bool:
    """Return True for an existing topic, False for this broker or the cluster default; raise otherwise."""
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if context.broker.metadata_cache.topic(name) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{name[:249]}' does not exist")
        return True
    if resource.resource_type == ResourceType.BROKER:
        if name:
            check_broker_name(name, context.broker.broker_id)
        return False
    kind = ResourceType(resource.resource_type).name
    raise BrokerError(ErrorCode.INVALID_REQUEST, f"resource type must be TOPIC or BROKER, got {kind}")


# Log levels have Kafka's names. They apply at once and are reset when the broker stops.


def plan_levels(operations: Sequence[AlterOperation], known: Collection[str]) -> dict[str, str | None]:
    """Return the new level of each logger; None resets it to the level of the root logger."""
    check_operations(operations)
    levels: dict[str, str | None] = {}
    for name, op, level in operations:
        if op not in {AlterOp.SET, AlterOp.DELETE}:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"operation on a logger must be SET or DELETE, got {_name_of(op)}",
            )
        if name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"logger {name} does not exist")
        if op == AlterOp.SET and level not in events.KAFKA_LEVELS:
            raise BrokerError(
                ErrorCode.INVALID_CONFIG,
                f"log level of {name} must be one of {', '.join(events.KAFKA_LEVELS)}, got {level}",
            )
        if op == AlterOp.DELETE and name == events.ROOT_NAME:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"log level of logger {events.ROOT_NAME} cannot be removed",
            )
        levels[name] = level if op == AlterOp.SET else None
    return levels


def _name_of(op: int) -> str:
    return AlterOp(op).name if op in set(AlterOp) else str(op)


def alter_levels(operations: Sequence[AlterOperation], *, validate_only: bool) -> None:
    levels = plan_levels(operations, events.levels())
    if not validate_only:
        for name, level in levels.items():
            events.set_level(name, level)


async def _store(
    resource: Resource, overrides: dict[str, str], validate_only: bool, context: RequestContext
) -> None:
    if validate_only:
        return
    if resource.resource_type == ResourceType.TOPIC:
        await context.broker.admin_manager.set_topic_overrides(resource.resource_name, overrides)
        return
    name = resource.resource_name
    values = alter.settings_after(context.broker.config, overrides, per_broker=bool(name))
    async with context.broker.socket_server.reconfigure(values):
        await context.broker.admin_manager.set_broker_overrides(name or None, overrides)


async def _outcome(
    change: Callable[[R, bool, RequestContext], Awaitable[None]],
    resource: R,
    validate_only: bool,
    context: RequestContext,
) -> tuple[ErrorCode, str | None]:
    if is_config_denied(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name, context):
        return config_denial_code(resource.resource_type), None
    try:
        async with context.broker.admin_manager.config_lock:
            await change(resource, validate_only, context)
    except BrokerError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


def _distinct(resources: list[R]) -> list[tuple[R, tuple[ErrorCode, str | None] | None]]:
    """Return each resource once, with an error for duplicates."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    first = {(resource.resource_type, resource.resource_name): resource for resource in resources}
    duplicate = (ErrorCode.INVALID_REQUEST, "each resource must appear at most once")
    return [(resource, duplicate if counts[key] > 1 else None) for key, resource in first.items()]


def alter_configs_error_response(
    request: full.AlterConfigsRequest, code: ErrorCode, message: str | None
) -> full.AlterConfigsResponse:
    return full.AlterConfigsResponse(
        responses=[
            full.AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def incremental_alter_configs_error_response(
    request: incremental.IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> incremental.IncrementalAlterConfigsResponse:
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            incremental.AlterConfigsResourceResponse(
                code, message, resource.resource_type, resource.resource_name
            )
            for resource in request.resources
        ]
    )
