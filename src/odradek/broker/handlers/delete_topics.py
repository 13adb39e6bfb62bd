"""DeleteTopics, versions 0 to 6: by name, and from v6 by name or id.

The answer waits until the topic is gone, or the time is up; ``delete.topic.enable`` may forbid it.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

IDS_SINCE = 6


async def delete_topics(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    if call.version < IDS_SINCE:
        asked = [DeleteTopicState(name) for name in request.topic_names]
    else:
        asked = request.topics
    results = []
    names = []
    for state in asked:
        try:
            names.append(_name_of(state, call))
        except BrokerError as refused:
            results.append(DeletableTopicResult(state.name, state.topic_id, refused.code, refused.message))
    for outcome in await call.broker.topics.delete(list(dict.fromkeys(names)), request.timeout_ms):
        results.append(DeletableTopicResult(outcome.name, outcome.topic_id, outcome.code, outcome.message))
    return DeleteTopicsResponse(responses=results)


def _name_of(state: DeleteTopicState, call: Call) -> str:
    if state.name is not None:
        if state.topic_id != ZERO_TOPIC_ID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "give a topic's name or its id, not both")
        return str(state.name)
    name = call.broker.image.name_of(state.topic_id)
    if name is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    return name


def refuse(request: DeleteTopicsRequest, code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    asked = [DeleteTopicState(name) for name in request.topic_names] or request.topics
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(state.name, state.topic_id, code, message) for state in asked]
    )
