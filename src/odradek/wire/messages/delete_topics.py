"""DeleteTopics, key 20. Versions 0 to 6."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure, uuid


@structure
class DeleteTopicState:
    name: str | None = string(nullable_since=6, default=None)
    topic_id: bytes = uuid()


@message(versions=range(0, 7), flexible=4)
class DeleteTopicsRequest:
    """Topics by name (up to v5), or by name or id (v6). v4 is flexible."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5, ignorable=True)
    timeout_ms: int = int32()


@structure
class DeletableTopicResult:
    name: str | None = string(nullable_since=6)
    topic_id: bytes = uuid(since=6, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)


@message(versions=range(0, 7), flexible=4)
class DeleteTopicsResponse:
    """v1 adds the throttle time; v3 may return TOPIC_DELETION_DISABLED; v4 is flexible; v5 adds a message; v6
    adds the topic id and makes the name nullable.
    """

    throttle_time_ms: int = int32(since=1, ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
