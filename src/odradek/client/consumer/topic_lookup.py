"""Questions of the application about topics, beside what the consumer itself follows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from odradek.client.cluster import ANY_NODE, Cluster
from odradek.client.metadata import EMPTY_IMAGE, ClusterImage, updated
from odradek.client.retries import backoff, refusal
from odradek.config.client.connection import ALLOW_AUTO_CREATE_TOPICS
from odradek.config.table import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnresolvedBootstrap
from odradek.model.errors import ErrorCode
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


async def describe_topics(
    cluster: Cluster,
    clock: Clock,
    entropy: Entropy,
    settings: Settings,
    names: Iterable[str] | None,
    timeout_ms: int,
) -> ClusterImage:
    """Some topics as brokers know them now, or all; those that do not exist are left out."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    may_create = settings[ALLOW_AUTO_CREATE_TOPICS] and names is not None
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
    trouble: ClientError | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            attempt = 0
            while True:
                try:
                    image = _read(await cluster.ask(ANY_NODE, request))
                except UnresolvedBootstrap:
                    raise
                except (ConnectionFailed, TimedOut) as failed:
                    image, trouble = None, failed
                if image is not None:
                    return image
                await clock.sleep_ms(backoff(attempt, settings, entropy))
                attempt += 1
    except TimeoutError:
        what = f"no metadata of topics within {timeout_ms} ms"
        raise TimedOut(what if trouble is None else f"{what}: {trouble}") from trouble


def _read(response: object) -> ClusterImage | None:
    """The image in an answer; None if it is to be asked for again."""
    image = updated(EMPTY_IMAGE, response, has_reliable_epochs=True, keeps=lambda _: False).image
    there = {}
    for name, topic in image.topics.items():
        if topic.error is ErrorCode.NONE:
            there[name] = topic
        elif topic.error not in _MISSING:
            if topic.error.retriable:
                return None
            raise refusal(topic.error, f"topic {name}")
    return image._replace(topics=there)
