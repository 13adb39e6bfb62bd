"""DeleteTopics, versions 0 to 6: by name, and from v6 by name or id.

The response waits until the topic is deleted, or for the timeout; ``delete.topic.enable`` may disable it.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.request_meter import mutation_quota
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

IDS_SINCE = 6
STRICT_QUOTA_SINCE = 5


async def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    context.broker.membership.require_controller()
    if context.version < IDS_SINCE:
        requested = [DeleteTopicState(name) for name in request.topic_names]
    else:
        requested = request.topics
    results = []
    names = []
    for state in requested:
        try:
            name = _topic_name(state, context)
        except BrokerError as error:
            results.append(DeletableTopicResult(state.name, state.topic_id, error.code, error.message))
            continue
        if context.is_allowed(AclOperation.DELETE, AclResourceType.TOPIC, name):
            names.append(name)
        else:
            results.append(_denied_result(state, name, context))
    quota = mutation_quota(context.meter, is_strict=context.version >= STRICT_QUOTA_SINCE)
    for outcome in await context.broker.admin_manager.delete_topics(
        list(dict.fromkeys(names)), request.timeout_ms, quota
    ):
        results.append(DeletableTopicResult(outcome.name, outcome.topic_id, outcome.code, outcome.message))
    return DeleteTopicsResponse(responses=results)


def _denied_result(state: DeleteTopicState, name: str, context: RequestContext) -> DeletableTopicResult:
    """Return the result of a topic that the sender may not delete; who may not describe it gets no name."""
    is_named = state.name is not None or context.is_allowed(
        AclOperation.DESCRIBE, AclResourceType.TOPIC, name
    )
    return DeletableTopicResult(
        name if is_named else None, state.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def _topic_name(state: DeleteTopicState, context: RequestContext) -> str:
    if state.name is not None:
        if state.topic_id != ZERO_TOPIC_ID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "topic must have a name or an id, got both")
        return str(state.name)
    name = context.broker.metadata_cache.name_of(state.topic_id)
    if name is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "topic id is unknown to this broker")
    return name


def error_response(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    requested = [DeleteTopicState(name) for name in request.topic_names] or request.topics
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(state.name, state.topic_id, code, message) for state in requested]
    )
