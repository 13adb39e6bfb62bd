"""Metadata answers from the cluster image.

An answer about all topics can be a thousand times larger than its request. It is encoded once per change of
the image and form of the answer, and then sent to everyone who asks.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from odradek.cluster.metadata_cache import MetadataCache, PartitionMetadata, TopicMetadata
from odradek.cluster.topic_names import is_legal_topic_name
from odradek.model.errors import ErrorCode
from odradek.model.ids import INTERNAL_TOPICS, NO_LEADER, TopicId
from odradek.ports.files import Part
from odradek.ports.workers import Workers
from odradek.wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FORMS_KEPT_MAX: Final = 16
"""Clients of a cluster are of few kinds; each form is as large as the answer."""


ON_THE_LOOP_PARTITIONS_MAX: Final = 500
"""An answer about more partitions takes more than some milliseconds to make."""


class AnswerForm(NamedTuple):
    """All that an answer about all topics depends on, besides the image."""

    version: int
    listener: str
    with_topic_operations: bool
    with_cluster_operations: bool


Encode = Callable[[MetadataCache], list[Part]]


class AllTopicsAnswers:
    """Encoded answers about all topics, each made once per change of the image.

    Those of a large cluster take long to make, which a thread does from a snapshot of the image. Whoever asks
    meanwhile waits for the same answer, unless the image has changed by then.
    """

    def __init__(self, image: MetadataCache, workers: Workers) -> None:
        self._image = image
        self._workers = workers
        self._change_count = -1
        self._kept: dict[AnswerForm, list[Part]] = {}
        self._making: dict[AnswerForm, asyncio.Future[list[Part]]] = {}

    def get(self, form: AnswerForm, encode: Encode) -> list[Part] | Awaitable[list[Part]]:
        """The answer of this form: at once, or what will be it."""
        if self._change_count != self._image.change_count or len(self._kept) > FORMS_KEPT_MAX:
            self._kept.clear()
            self._making.clear()
            self._change_count = self._image.change_count
        parts = self._kept.get(form)
        if parts is not None:
            return parts
        if sum(len(topic.partitions) for topic in self._image.topics.values()) > ON_THE_LOOP_PARTITIONS_MAX:
            return self._made_by_thread(form, encode)
        parts = self._kept[form] = encode(self._image)
        return parts

    async def _made_by_thread(self, form: AnswerForm, encode: Encode) -> list[Part]:
        making = self._making.get(form)
        if making is None:
            snapshot = self._image.snapshot()
            making = asyncio.ensure_future(self._workers.run(lambda: _uncollected(encode, snapshot)))
            self._making[form] = making
        change_count = self._change_count
        parts = await asyncio.shield(making)
        if change_count == self._change_count:
            self._making.pop(form, None)
            self._kept[form] = parts
        return parts


def _uncollected(encode: Encode, image: MetadataCache) -> list[Part]:
    """Encode without a full garbage collection in its midst.

    So many objects bring one about, though all of them are dropped at the end. It would hold the
    interpreter's lock, and so the event loop, while it goes over all partitions of the broker.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return encode(image)
    finally:
        if was_enabled:
            gc.enable()


def brokers(image: MetadataCache, listener: str) -> list[MetadataResponseBroker]:
    """The brokers that can be reached through this listener."""
    return [
        MetadataResponseBroker(node.id, endpoint.host, endpoint.port, node.rack)
        for node, endpoint in image.nodes(listener)
    ]


def all_topics(image: MetadataCache, listener: str) -> list[MetadataResponseTopic]:
    return [_known(topic, image, listener) for topic in image.topics.values()]


def topic_by_name(image: MetadataCache, name: str, listener: str) -> MetadataResponseTopic:
    topic = image.topic(name)
    if topic is not None:
        return _known(topic, image, listener)
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_legal_topic_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def topic_by_id(image: MetadataCache, topic_id: TopicId, listener: str) -> MetadataResponseTopic:
    topic = image.topic_by_id(topic_id)
    if topic is not None:
        return _known(topic, image, listener)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _known(topic: TopicMetadata, image: MetadataCache, listener: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.name in INTERNAL_TOPICS,
        [_partition(one, image, listener) for one in topic.partitions.values()],
    )


def _partition(one: PartitionMetadata, image: MetadataCache, listener: str) -> MetadataResponsePartition:
    """A leader that is gone, or that this listener does not reach, is no leader for this client."""
    leader = image.brokers.get(one.leader)
    code, leader_id = ErrorCode.NONE, one.leader
    if leader is None:
        code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif listener not in leader.endpoints:
        code, leader_id = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return MetadataResponsePartition(
        code,
        one.partition,
        leader_id,
        one.leader_epoch,
        list(one.replicas),
        list(one.isr),
        list(one.offline_replicas),
    )
