"""Metadata requests on behalf of the application, apart from the consumer's own metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from odradek.client.errors import backoff, broker_error
from odradek.client.network.metadata import EMPTY_METADATA, ClusterMetadata, apply_metadata_response
from odradek.client.network.network_client import ANY_NODE, NetworkClient
from odradek.config.client.connection import ALLOW_AUTO_CREATE_TOPICS
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnresolvedBootstrap
from odradek.model.errors import ErrorCode
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


async def fetch_topic_metadata(
    network: NetworkClient,
    clock: Clock,
    entropy: Entropy,
    settings: Settings,
    names: Iterable[str] | None,
    timeout_ms: int,
) -> ClusterMetadata:
    """Fetch current metadata of these topics, or of all; topics that do not exist are omitted."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    may_create = settings[ALLOW_AUTO_CREATE_TOPICS] and names is not None
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
    last_error: ClientError | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            attempt = 0
            while True:
                try:
                    metadata = _read(await network.send(ANY_NODE, request))
                except UnresolvedBootstrap:
                    raise
                except (ConnectionFailed, TimedOut) as error:
                    metadata, last_error = None, error
                if metadata is not None:
                    return metadata
                await clock.sleep_ms(backoff(attempt, settings, entropy))
                attempt += 1
    except TimeoutError:
        message = f"topic metadata not received within {timeout_ms} ms"
        raise TimedOut(message if last_error is None else f"{message}: {last_error}") from last_error


def _read(response: MetadataResponse) -> ClusterMetadata | None:
    """Return the metadata in a response; None if the request must be retried."""
    metadata = apply_metadata_response(
        EMPTY_METADATA, response, has_reliable_epochs=True, keeps=lambda _: False
    ).metadata
    existing = {}
    for name, topic in metadata.topics.items():
        if topic.error is ErrorCode.NONE:
            existing[name] = topic
        elif topic.error not in _MISSING:
            if topic.error.retriable:
                return None
            raise broker_error(topic.error, f"topic {name}")
    return metadata._replace(topics=existing)
