"""CreateTopics, versions 0 to 7.

v1 adds validate-only and error messages, v4 allows -1 for partitions and replicas (the broker's defaults), v5
returns the topic's configs, v7 its id. The response waits until every partition has a leader, or for the
timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from odradek.broker.requests.authorization import NO_NAMES
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.request_meter import mutation_quota
from odradek.broker.topics.admin import TopicResult
from odradek.broker.topics.topic_planning import NewTopic
from odradek.config.dynamic.describe_configs import describe_topic
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

SETTINGS_SINCE = 5
STRICT_QUOTA_SINCE = 6


async def create_topics(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    context.broker.membership.require_controller()
    names = Counter(topic.name for topic in request.topics)
    denied = _denied(names, context)
    hidden = context.denied(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, names, log_if_denied=False)
    new_topics = [
        _new_topic(topic) for topic in request.topics if names[topic.name] == 1 and topic.name not in denied
    ]
    outcomes = await context.broker.admin_manager.create_topics(
        new_topics,
        request.timeout_ms,
        mutation_quota(context.meter, is_strict=context.version >= STRICT_QUOTA_SINCE),
        validate_only=request.validate_only,
    )
    results = {
        outcome.name: _hidden_result(outcome) if outcome.name in hidden else _result(outcome, context)
        for outcome in outcomes
    }
    return CreateTopicsResponse(
        topics=[results.get(topic.name) or _rejected(topic, names, hidden) for topic in request.topics]
    )


def _denied(names: Iterable[str], context: RequestContext) -> frozenset[str]:
    """Return the topics that the sender may not create."""
    if context.is_allowed_on_cluster(AclOperation.CREATE, log_if_denied=False):
        return NO_NAMES
    return context.denied(AclOperation.CREATE, AclResourceType.TOPIC, names)


def _hidden_result(outcome: TopicResult) -> CreatableTopicResult:
    """Return the result for a sender who may not describe the configs of the topic."""
    result = CreatableTopicResult(outcome.name, error_code=outcome.code, error_message=outcome.message)
    if outcome.code == ErrorCode.NONE:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result


def _rejected(
    topic: CreatableTopic, names: Mapping[str, int], hidden: frozenset[str]
) -> CreatableTopicResult:
    """Return the result of a topic that was not given to the controller: a duplicate, or denied."""
    if names[topic.name] > 1:
        return _duplicate(topic)
    result = CreatableTopicResult(topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic.name in hidden:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result


def _duplicate(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        topic.name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="each topic must appear at most once",
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={a.partition_index: tuple(a.broker_ids) for a in topic.assignments},
        settings={setting.name: setting.value for setting in topic.configs},
    )


def _result(outcome: TopicResult, context: RequestContext) -> CreatableTopicResult:
    result = CreatableTopicResult(
        outcome.name,
        error_code=outcome.code,
        error_message=outcome.message,
    )
    if outcome.code == ErrorCode.NONE:
        result.topic_id = outcome.topic_id
        if context.version >= SETTINGS_SINCE:
            result.num_partitions = outcome.partitions
            result.replication_factor = outcome.replication_factor
            result.configs = [
                CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.sensitive)
                for row in describe_topic(context.broker.config, outcome.settings)
            ]
    return result


def error_response(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )
