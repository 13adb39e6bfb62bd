"""DescribeConfigs, versions 0 to 4: configs of topics and brokers, and log levels of this broker.

v1 adds sources and synonyms, v3 types and documentation. A broker is named by its id; the empty name stands
for the cluster-wide default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.broker.requests.dispatcher import RequestContext
from odradek.cluster.topic_names import check_topic_name
from odradek.config.dynamic import describe_configs as describe
from odradek.config.dynamic.describe_configs import DescribedSetting
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
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


async def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    resources = [(resource, _is_denied(resource, context)) for resource in request.resources]
    allowed = [resource for resource, is_denied in resources if not is_denied]
    # From the store, as in Kafka: another broker may have created a topic, or changed it just now.
    overrides = await context.broker.admin_manager.read_topic_overrides(_known_topics(allowed, context))
    return DescribeConfigsResponse(
        results=[
            _denied_result(resource) if is_denied else _describe(request, resource, context, overrides)
            for resource, is_denied in resources
        ]
    )


def _is_denied(resource: DescribeConfigsResource, context: RequestContext) -> bool:
    operation = AclOperation.DESCRIBE_CONFIGS
    return is_config_denied(operation, resource.resource_type, resource.resource_name, context)


def _denied_result(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    return DescribeConfigsResult(config_denial_code(kind), None, kind, name)


def is_config_denied(operation: AclOperation, resource_type: int, name: str, context: RequestContext) -> bool:
    """Return whether the sender may not do this to the configs: those of brokers belong to the cluster."""
    if resource_type == ResourceType.TOPIC:
        return not context.is_allowed(operation, AclResourceType.TOPIC, name)
    return not context.is_allowed_on_cluster(operation)


def config_denial_code(resource_type: int) -> ErrorCode:
    is_topic = resource_type == ResourceType.TOPIC
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _known_topics(resources: Sequence[DescribeConfigsResource], context: RequestContext) -> list[str]:
    names = [each.resource_name for each in resources if each.resource_type == ResourceType.TOPIC]
    known = context.broker.metadata_cache.topic
    return [name for name in dict.fromkeys(names) if known(name) is not None]


def _describe(
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    context: RequestContext,
    overrides: Mapping[str, Mapping[str, str]],
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        facts = _facts(resource, context, overrides)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.configs = [_entry(fact, request, context.version) for fact in facts]
    return result


def _facts(
    resource: DescribeConfigsResource, context: RequestContext, overrides: Mapping[str, Mapping[str, str]]
) -> list[DescribedSetting]:
    broker, name, keys = context.broker, resource.resource_name, resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if broker.metadata_cache.topic(name) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe.describe_topic(broker.config, overrides.get(name, {}), keys)
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return describe.describe_cluster(broker.config, keys)
        check_broker_name(name, broker.broker_id)
        return describe.describe_broker(broker.config, keys)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_broker(name, broker.broker_id)
        return describe.describe_loggers(events.levels(), keys)
    raise BrokerError(
        ErrorCode.INVALID_REQUEST, f"unsupported resource type {ResourceType(resource.resource_type).name}"
    )


def check_broker_name(name: str, broker_id: int) -> None:
    """Reject the configs of any broker but this one."""
    if name != str(broker_id):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"broker id must be {broker_id} or empty, got {name[:40]!r}",
        )


def check_logger_broker(name: str, broker_id: int) -> None:
    """Reject the loggers of any broker but this one."""
    if name != str(broker_id):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"broker id must be {broker_id}, got {name[:40]!r}")


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


def error_response(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(code, message, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )
