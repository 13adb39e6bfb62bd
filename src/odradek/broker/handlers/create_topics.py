"""CreateTopics, versions 0 to 7.

v1 adds validate-only and error messages, v4 allows -1 for partitions and replicas (the broker's defaults), v5
answers with the topic's settings, v7 with its id. The answer waits until every partition has a leader, or the
time is up.
"""

from __future__ import annotations

from collections import Counter

from odradek.broker.requests.dispatcher import Call
from odradek.broker.topics.admin import TopicOutcome
from odradek.broker.topics.topic_planning import NewTopic
from odradek.config.dynamic.describe_configs import describe_topic
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

SETTINGS_SINCE = 5


async def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in request.topics)
    wanted = [_wanted(topic) for topic in request.topics if names[topic.name] == 1]
    outcomes = await call.broker.topics.create(
        wanted, request.timeout_ms, validate_only=request.validate_only
    )
    results = {outcome.name: _result(outcome, call) for outcome in outcomes}
    return CreateTopicsResponse(topics=[results.get(one.name) or _twice(one) for one in request.topics])


def _twice(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        topic.name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="Found multiple entries for this topic.",
    )


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={a.partition_index: tuple(a.broker_ids) for a in topic.assignments},
        settings={setting.name: setting.value for setting in topic.configs},
    )


def _result(outcome: TopicOutcome, call: Call) -> CreatableTopicResult:
    result = CreatableTopicResult(
        outcome.name,
        error_code=outcome.code,
        error_message=outcome.message,
    )
    if outcome.code == ErrorCode.NONE:
        result.topic_id = outcome.topic_id
        if call.version >= SETTINGS_SINCE:
            result.num_partitions = outcome.partitions
            result.replication_factor = outcome.replication_factor
            result.configs = [
                CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.sensitive)
                for row in describe_topic(call.broker.config, outcome.settings)
            ]
    return result


def refuse(request: CreateTopicsRequest, code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )
