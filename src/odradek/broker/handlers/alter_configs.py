"""AlterConfigs (0 to 2) and IncrementalAlterConfigs (0 and 1): change settings of topics and brokers.

IncrementalAlterConfigs also sets the levels of this broker's loggers.

AlterConfigs replaces all overrides of a resource; IncrementalAlterConfigs sets, deletes, appends, subtracts.
Each resource succeeds or fails alone. The empty broker name changes settings for all brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.handlers.describe_configs import check_broker_name, check_logger_broker
from odradek.broker.log_levels import alter_levels
from odradek.broker.requests.dispatcher import Call
from odradek.config.dynamic import alter_configs as alter
from odradek.config.dynamic.alter_configs import AlterOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ResourceType
from odradek.wire.messages import alter_configs as whole
from odradek.wire.messages import incremental_alter_configs as incremental


async def alter_configs(request: whole.AlterConfigsRequest, call: Call) -> whole.AlterConfigsResponse:
    responses = []
    for resource, refused in _distinct(request.resources):
        code, message = refused or await _outcome(_replace, resource, request.validate_only, call)
        responses.append(
            whole.AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
        )
    return whole.AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, call: Call
) -> incremental.IncrementalAlterConfigsResponse:
    responses = []
    for resource, refused in _distinct(request.resources):
        code, message = refused or await _outcome(_change, resource, request.validate_only, call)
        responses.append(
            incremental.AlterConfigsResourceResponse(
                code, message, resource.resource_type, resource.resource_name
            )
        )
    return incremental.IncrementalAlterConfigsResponse(responses=responses)


async def _replace(resource: whole.AlterConfigsResource, validate_only: bool, call: Call) -> None:
    config = call.broker.config
    entries = [(one.name, one.value) for one in resource.configs]
    if _is_topic(resource, call):
        overrides = alter.replace_topic(config, entries)
    else:
        overrides = alter.replace_broker(config, entries, per_broker=bool(resource.resource_name))
    await _store(resource, overrides, validate_only, call)


async def _change(resource: incremental.AlterConfigsResource, validate_only: bool, call: Call) -> None:
    config = call.broker.config
    operations = [AlterOperation(one.name, one.config_operation, one.value) for one in resource.configs]
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_broker(resource.resource_name, call.broker.broker_id)
        alter_levels(operations, validate_only=validate_only)
        return
    if _is_topic(resource, call):
        current = call.broker.topics.overrides_of(resource.resource_name)
        overrides = alter.alter_topic(config, current, operations)
    else:
        overrides = alter.alter_broker(config, operations, per_broker=bool(resource.resource_name))
    await _store(resource, overrides, validate_only, call)


def _is_topic(resource: Any, call: Call) -> bool:
    """Whether the resource is a topic that exists; False for a broker that is this one, or all of them."""
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if call.broker.image.topic(name) is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name[:249]}' does not exist."
            )
        return True
    if resource.resource_type == ResourceType.BROKER:
        if name:
            check_broker_name(name, call.broker.broker_id)
        return False
    kind = ResourceType(resource.resource_type).name
    raise BrokerError(
        ErrorCode.INVALID_REQUEST, f"settings can be altered for topics and brokers, not for {kind}"
    )


async def _store(resource: Any, overrides: dict[str, str], validate_only: bool, call: Call) -> None:
    if validate_only:
        return
    if resource.resource_type == ResourceType.TOPIC:
        await call.broker.topics.set_overrides(resource.resource_name, overrides)
        return
    name = resource.resource_name
    values = alter.settings_after(call.broker.config, overrides, per_broker=bool(name))
    async with call.broker.listening.changing_to(values):
        await call.broker.topics.set_broker_overrides(name or None, overrides)


async def _outcome(
    change: Callable[[Any, bool, Call], Awaitable[None]], resource: Any, validate_only: bool, call: Call
) -> tuple[ErrorCode, str | None]:
    try:
        async with call.broker.topics.changing_settings:
            await change(resource, validate_only, call)
    except BrokerError as refused:
        return refused.code, refused.message
    return ErrorCode.NONE, None


def _distinct(resources: list[Any]) -> list[tuple[Any, tuple[ErrorCode, str | None] | None]]:
    """Each resource once, with the refusal of those that are named more often."""
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    first = {(one.resource_type, one.resource_name): one for one in resources}
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return [(one, twice if counts[key] > 1 else None) for key, one in first.items()]


def refuse_alter_configs(
    request: whole.AlterConfigsRequest, code: ErrorCode, message: str | None
) -> whole.AlterConfigsResponse:
    return whole.AlterConfigsResponse(
        responses=[
            whole.AlterConfigsResourceResponse(code, message, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def refuse_incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> incremental.IncrementalAlterConfigsResponse:
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            incremental.AlterConfigsResourceResponse(code, message, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )
