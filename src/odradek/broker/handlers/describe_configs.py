"""DescribeConfigs, versions 0 to 4: settings of topics and brokers, with where each value came from.

Levels of this broker's loggers are described as settings too.

v1 adds sources and synonyms, v3 types and documentation. A broker is asked by its id; the empty name stands
for what was set for all brokers.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.cluster.topic_names import check_topic_name
from odradek.config.dynamic import describe_configs as describe
from odradek.config.dynamic.describe_configs import DescribedSetting
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ResourceType
from odradek.telemetry import events
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

SOURCES_SINCE = 1


def describe_configs(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_one(request, resource, call) for resource in request.resources])


def _one(
    request: DescribeConfigsRequest, resource: DescribeConfigsResource, call: Call
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        facts = _facts(resource, call)
    except BrokerError as refused:
        result.error_code, result.error_message = refused.code, refused.message
        return result
    result.configs = [_entry(fact, request, call.version) for fact in facts]
    return result


def _facts(resource: DescribeConfigsResource, call: Call) -> list[DescribedSetting]:
    broker, name, keys = call.broker, resource.resource_name, resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if broker.image.topic(name) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe.describe_topic(broker.config, broker.topics.overrides_of(name), keys)
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return describe.describe_cluster(broker.config, keys)
        check_broker_name(name, broker.broker_id)
        return describe.describe_broker(broker.config, keys)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_broker(name, broker.broker_id)
        return describe.describe_loggers(events.levels(), keys)
    raise BrokerError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {ResourceType(resource.resource_type).name}"
    )


def check_broker_name(name: str, broker_id: int) -> None:
    """A broker's settings can be asked and changed only at that broker."""
    if name != str(broker_id):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name[:40]}",
        )


def check_logger_broker(name: str, broker_id: int) -> None:
    """Refuse the loggers of any broker but this one."""
    if name != str(broker_id):
        reason = (
            f"Unexpected broker id, expected {broker_id} but received {name[:40]}"
            if name
            else "Broker id must not be empty"
        )
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)


def _entry(
    fact: DescribedSetting, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=fact.name,
        value=fact.value,
        read_only=fact.read_only,
        is_default=fact.is_default and version < SOURCES_SINCE,
        config_source=fact.source,
        is_sensitive=fact.sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in fact.synonyms]
        if request.include_synonyms
        else [],
        config_type=fact.type,
        documentation=fact.documentation if request.include_documentation else None,
    )


def refuse(request: DescribeConfigsRequest, code: ErrorCode, message: str | None) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(code, message, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )
