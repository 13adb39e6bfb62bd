"""Metadata, versions 0 to 12: brokers, topics, partitions and their leaders.

An empty list means all topics in v0, null in later versions. v1 adds racks and the controller, v2 the cluster
id, v4 allow_auto_topic_creation, v5 offline replicas, v7 leader epochs, v8 authorized operations, v10 topic
ids, v12 requests by id.

Duplicates are returned once. Missing topics are created if the request and ``auto.create.topics.enable``
allow it; the response waits for their leaders, so that the client need not retry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from odradek.broker.quotas.controller_mutation_quota import UNBOUNDED
from odradek.broker.requests.dispatcher import EncodedResponse, RequestContext
from odradek.broker.topics import metadata_responses
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.acl_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID
from odradek.ports.files import Part
from odradek.wire.message_codecs import parts_encoder
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

AUTO_CREATE_SWITCH_SINCE = 4
NULL_MEANS_ALL_SINCE = 1
IDS_SINCE = 12

Result = MetadataResponse | EncodedResponse | Coroutine[Any, Any, MetadataResponse | EncodedResponse]


def metadata(request: MetadataRequest, context: RequestContext) -> Result:
    requested = request.topics
    if requested is None or (not requested and context.version < NULL_MEANS_ALL_SINCE):
        return _all_topics(request, context)
    requested = list({(topic.name, topic.topic_id): topic for topic in requested}.values())
    if context.version < IDS_SINCE:
        _require_names_only(requested, context.version)
    missing = [
        t.name
        for t in requested
        if t.name is not None and context.broker.metadata_cache.topic(t.name) is None
    ]
    may_create = request.allow_auto_topic_creation or context.version < AUTO_CREATE_SWITCH_SINCE
    if missing and may_create:
        return _after_creating(request, requested, missing, context)
    return _response(
        request, context, context.broker.metadata_cache, [_entry(topic, context) for topic in requested]
    )


def _all_topics(
    request: MetadataRequest, context: RequestContext
) -> EncodedResponse | Coroutine[Any, Any, EncodedResponse]:
    variant = metadata_responses.ResponseVariant(
        context.version,
        context.session.listener_name,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )

    def encode(metadata_cache: MetadataCache) -> list[Part]:
        response = _response(
            request, context, metadata_cache, metadata_responses.all_topics(metadata_cache, variant.listener)
        )
        return parts_encoder(MetadataResponse, variant.version)(response)

    parts = context.broker.all_topics_cache.get(variant, encode)
    return EncodedResponse(parts) if isinstance(parts, list) else _await_encoded(parts)


async def _await_encoded(parts: Awaitable[list[Part]]) -> EncodedResponse:
    return EncodedResponse(await parts)


def _require_names_only(requested: list[MetadataRequestTopic], version: int) -> None:
    """Reject ids and null names, which versions 10 and 11 can encode but do not support."""
    for topic in requested:
        if topic.name is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"topic name must not be null in version {version}")
        if topic.topic_id != ZERO_TOPIC_ID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"topic id must be zero in version {version}")


async def _after_creating(
    request: MetadataRequest,
    requested: list[MetadataRequestTopic],
    missing: list[str],
    context: RequestContext,
) -> MetadataResponse:
    quota = UNBOUNDED if context.meter is None else context.meter.auto_creation_quota()
    errors = await context.broker.admin_manager.auto_create_topics(missing, quota)
    entries = []
    for topic in requested:
        entry = _entry(topic, context)
        if entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and entry.name in errors:
            entry.error_code = errors[entry.name]
        entries.append(entry)
    return _response(request, context, context.broker.metadata_cache, entries)


def _entry(topic: MetadataRequestTopic, context: RequestContext) -> MetadataResponseTopic:
    metadata_cache, listener = context.broker.metadata_cache, context.session.listener_name
    if topic.name is not None and topic.topic_id == ZERO_TOPIC_ID:
        return metadata_responses.topic_by_name(metadata_cache, topic.name, listener)
    return metadata_responses.topic_by_id(metadata_cache, topic.topic_id, listener)


def _response(
    request: MetadataRequest,
    context: RequestContext,
    metadata_cache: MetadataCache,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=metadata_responses.brokers(metadata_cache, context.session.listener_name),
        cluster_id=context.broker.cluster_id,
        controller_id=metadata_cache.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def error_response(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    # Before version 12 a name in the response must not be null, even if the request's was.
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )
