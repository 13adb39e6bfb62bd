"""Metadata, versions 0 to 12: brokers, topics, partitions and their leaders.

An empty list means all topics in v0, null in later versions. v1 adds racks and the controller, v2 the cluster
id, v4 allow_auto_topic_creation, v5 offline replicas, v7 leader epochs, v8 authorized operations, v10 topic
ids, v12 requests by id.

Duplicates are returned once. Missing topics are created if the request and ``auto.create.topics.enable``
allow it; the response waits for their leaders, so that the client need not retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, Final

from odradek.broker.handlers.describe_cluster import cluster_operations
from odradek.broker.quotas.controller_mutation_quota import UNBOUNDED
from odradek.broker.requests.dispatcher import EncodedResponse, RequestContext
from odradek.broker.topics import metadata_responses
from odradek.cluster.metadata_cache import MetadataCache
from odradek.config import broker as settings
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
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

TOPICS_PER_BATCH: Final = 100
"""Topics described before yielding to the event loop."""

Result = MetadataResponse | EncodedResponse | Coroutine[Any, Any, MetadataResponse | EncodedResponse]


def metadata(request: MetadataRequest, context: RequestContext) -> Result:
    requested = request.topics
    if requested is None or (not requested and context.version < NULL_MEANS_ALL_SINCE):
        return _all_topics(request, context)
    requested = list({(topic.name, topic.topic_id): topic for topic in requested}.values())
    if context.version < IDS_SINCE:
        _require_names_only(requested, context.version)
    if context.authorizer is not None:
        return _authorized(request, requested, context)
    missing = _missing(requested, context)
    may_create = request.allow_auto_topic_creation or context.version < AUTO_CREATE_SWITCH_SINCE
    if missing and may_create:
        return _after_creating(request, requested, missing, context)
    return _response(
        request, context, context.broker.metadata_cache, [_entry(topic, context) for topic in requested]
    )


def _missing(requested: Iterable[MetadataRequestTopic], context: RequestContext) -> list[str]:
    known = context.broker.metadata_cache.topic
    return [topic.name for topic in requested if topic.name is not None and known(topic.name) is None]


def _authorized(
    request: MetadataRequest, requested: list[MetadataRequestTopic], context: RequestContext
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Describe the topics that the sender may describe, and create the missing ones that it may create."""
    allowed: list[MetadataRequestTopic] = []
    entries: list[MetadataResponseTopic] = []
    for topic in requested:
        if _is_denied(topic, context):
            entries.append(_denied_entry(topic))
        else:
            allowed.append(topic)
    may_create = request.allow_auto_topic_creation or context.version < AUTO_CREATE_SWITCH_SINCE
    missing: list[str] = []
    if may_create and context.broker.config.broker[settings.AUTO_CREATE_TOPICS_ENABLE]:
        # A name beside an id was not checked.
        missing = _missing([topic for topic in allowed if topic.topic_id == ZERO_TOPIC_ID], context)
    if missing and not context.is_allowed_on_cluster(AclOperation.CREATE, log_if_denied=False):
        not_created = context.denied(AclOperation.CREATE, AclResourceType.TOPIC, missing)
        entries += [_denied_entry(topic) for topic in allowed if topic.name in not_created]
        allowed = [topic for topic in allowed if topic.name not in not_created]
        missing = [name for name in missing if name not in not_created]
    if missing:
        return _after_creating(request, allowed, missing, context, entries)
    entries = [_entry(topic, context) for topic in allowed] + entries
    return _response(request, context, context.broker.metadata_cache, entries)


def _is_denied(topic: MetadataRequestTopic, context: RequestContext) -> bool:
    """Return whether the sender may not describe a topic. Whether there is one with this id is no secret."""
    name = topic.name
    if name is None or topic.topic_id != ZERO_TOPIC_ID:
        name = context.broker.metadata_cache.name_of(topic.topic_id)
    return name is not None and not context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _denied_entry(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return the entry of a topic that may exist or not: with what the request has, and nothing else."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic.topic_id != ZERO_TOPIC_ID:
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic.topic_id)
    return MetadataResponseTopic(error_code=code, name=topic.name)


def _all_topics(
    request: MetadataRequest, context: RequestContext
) -> MetadataResponse | EncodedResponse | Coroutine[Any, Any, MetadataResponse | EncodedResponse]:
    if context.authorizer is not None:
        return _allowed_topics(request, context)
    return _shared_response(request, context)


async def _allowed_topics(
    request: MetadataRequest, context: RequestContext
) -> MetadataResponse | EncodedResponse:
    """Return the topics that the sender may describe. Yields to the event loop if there are very many."""
    metadata_cache, listener = context.broker.metadata_cache, context.session.listener_name
    change_count, names = metadata_cache.change_count, list(metadata_cache.topics)
    allowed: list[str] = []
    for start in range(0, len(names), TOPICS_PER_BATCH):
        if start:
            await asyncio.sleep(0)
        batch = names[start : start + TOPICS_PER_BATCH]
        denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, batch, log_if_denied=False)
        allowed += [name for name in batch if name not in denied]
    is_for_sender = (
        request.include_topic_authorized_operations or request.include_cluster_authorized_operations
    )
    if len(allowed) == len(names) and change_count == metadata_cache.change_count and not is_for_sender:
        shared = _shared_response(request, context)
        return await shared if isinstance(shared, Coroutine) else shared
    entries: list[MetadataResponseTopic] = []
    for count, name in enumerate(allowed, 1):
        if metadata_cache.topic(name) is not None:  # else deleted meanwhile
            entries.append(metadata_responses.topic_by_name(metadata_cache, name, listener))
        if count % TOPICS_PER_BATCH == 0:
            await asyncio.sleep(0)
    return _response(request, context, metadata_cache, entries)


def _shared_response(
    request: MetadataRequest, context: RequestContext
) -> EncodedResponse | Coroutine[Any, Any, EncodedResponse]:
    """Return the response of everyone who may describe all topics."""
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
    denied_entries: Sequence[MetadataResponseTopic] = (),
) -> MetadataResponse:
    quota = UNBOUNDED if context.meter is None else context.meter.auto_creation_quota()
    errors = await context.broker.admin_manager.auto_create_topics(missing, quota)
    entries = []
    for topic in requested:
        entry = _entry(topic, context)
        if entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and entry.name in errors:
            entry.error_code = errors[entry.name]
        entries.append(entry)
    entries += denied_entries
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
                topic.topic_authorized_operations = context.authorized_operations(
                    AclResourceType.TOPIC, topic.name or ""
                )
    response = MetadataResponse(
        brokers=metadata_responses.brokers(metadata_cache, context.session.listener_name),
        cluster_id=context.broker.cluster_id,
        controller_id=metadata_cache.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def error_response(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    # Before version 12 a name in the response must not be null, even if the request's was.
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )
