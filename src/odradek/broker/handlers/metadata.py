"""Metadata, versions 0 to 12: brokers, topics, partitions and their leaders.

v0 takes an empty list for all topics, later versions null. v1 adds racks and the controller, v2 the cluster
id, v4 a switch for creating topics, v5 offline replicas, v7 leader epochs, v8 permitted operations, v10 topic
ids, v12 asking by id.

An entry that is asked for twice is answered once. Topics that do not exist are created on the way if the
request and ``auto.create.topics.enable`` allow it; the answer waits for their leaders, so that the client
need not ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from odradek.broker.requests.dispatcher import Call, Encoded
from odradek.broker.topics import metadata_responses as answers
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
ALL_IS_NULL_SINCE = 1
IDS_SINCE = 12

Result = MetadataResponse | Encoded | Coroutine[Any, Any, MetadataResponse | Encoded]


def metadata(request: MetadataRequest, call: Call) -> Result:
    asked = request.topics
    if asked is None or (not asked and call.version < ALL_IS_NULL_SINCE):
        return _all_topics(request, call)
    asked = list({(topic.name, topic.topic_id): topic for topic in asked}.values())
    if call.version < IDS_SINCE:
        _require_names_only(asked, call.version)
    missing = [t.name for t in asked if t.name is not None and call.broker.image.topic(t.name) is None]
    may_create = request.allow_auto_topic_creation or call.version < AUTO_CREATE_SWITCH_SINCE
    if missing and may_create:
        return _after_creating(request, asked, missing, call)
    return _response(request, call, call.broker.image, [_entry(topic, call) for topic in asked])


def _all_topics(request: MetadataRequest, call: Call) -> Encoded | Coroutine[Any, Any, Encoded]:
    form = answers.AnswerForm(
        call.version,
        call.session.listener_name,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )

    def encode(image: MetadataCache) -> list[Part]:
        response = _response(request, call, image, answers.all_topics(image, form.listener))
        return parts_encoder(MetadataResponse, form.version)(response)

    parts = call.broker.all_topics_answers.get(form, encode)
    return Encoded(parts) if isinstance(parts, list) else _later(parts)


async def _later(parts: Awaitable[list[Part]]) -> Encoded:
    return Encoded(await parts)


def _require_names_only(asked: list[MetadataRequestTopic], version: int) -> None:
    """Versions 10 and 11 have room for ids and null names, and no meaning for them."""
    for topic in asked:
        if topic.name is None:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"a topic's name can not be null in version {version}"
            )
        if topic.topic_id != ZERO_TOPIC_ID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"topics are not asked by id in version {version}")


async def _after_creating(
    request: MetadataRequest, asked: list[MetadataRequestTopic], missing: list[str], call: Call
) -> MetadataResponse:
    refused = await call.broker.topics.create_missing(missing)
    entries = []
    for topic in asked:
        entry = _entry(topic, call)
        if entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and entry.name in refused:
            entry.error_code = refused[entry.name]
        entries.append(entry)
    return _response(request, call, call.broker.image, entries)


def _entry(topic: MetadataRequestTopic, call: Call) -> MetadataResponseTopic:
    image, listener = call.broker.image, call.session.listener_name
    if topic.name is not None and topic.topic_id == ZERO_TOPIC_ID:
        return answers.topic_by_name(image, topic.name, listener)
    return answers.topic_by_id(image, topic.topic_id, listener)


def _response(
    request: MetadataRequest, call: Call, image: MetadataCache, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=answers.brokers(image, call.session.listener_name),
        cluster_id=call.broker.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def refuse(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    # Before version 12 a name in the answer cannot be null, even where the request's could.
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )
