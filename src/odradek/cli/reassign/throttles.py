"""Throttles of reassignments in a cluster: set them, and remove those that are set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.cli.reassign.throttled_replicas import BROKER_THROTTLES, TOPIC_THROTTLES

if TYPE_CHECKING:
    from odradek.client.admin.configs import ConfigEntry, ConfigResource
    from odradek.client.blocking.admin import Admin


def set_throttles(
    admin: Admin,
    topics: Mapping[str, Mapping[str, str]],
    brokers: Mapping[int, Mapping[str, str]],
) -> None:
    """Set throttles of topics, then of brokers: a replica without a rate of its broker is not limited."""
    from odradek import ConfigResource

    if topics:
        admin.alter_configs({ConfigResource.topic(topic): settings for topic, settings in topics.items()})
    if brokers:
        admin.alter_configs({ConfigResource.broker(broker): settings for broker, settings in brokers.items()})


def remove_throttles(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> list[str]:
    """Remove the throttles of topics that exist and of live brokers; return the resources that had some."""
    from odradek import ConfigResource

    set_names: dict[ConfigResource, list[str]] = {}
    for resources, names in (
        ([ConfigResource.topic(topic) for topic in sorted(topics)], TOPIC_THROTTLES),
        ([ConfigResource.broker(broker) for broker in sorted(brokers)], BROKER_THROTTLES),
    ):
        set_names |= _set_names(_describe(admin, resources, names))
    if set_names:
        admin.alter_configs({resource: dict.fromkeys(names) for resource, names in set_names.items()})
    return [str(resource) for resource in set_names]


def _set_names(
    described: Mapping[ConfigResource, Mapping[str, ConfigEntry]],
) -> dict[ConfigResource, list[str]]:
    """Return the throttles of each resource that are set on it, not inherited."""
    from odradek import ConfigSource

    own = (ConfigSource.TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
    names = {
        resource: [entry.name for entry in entries.values() if entry.source in own]
        for resource, entries in described.items()
    }
    return {resource: listed for resource, listed in names.items() if listed}


def _describe(
    admin: Admin, resources: list[ConfigResource], names: Iterable[str]
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    from odradek import ErrorCode, PartialFailure

    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.BROKER_NOT_AVAILABLE)
    try:
        return admin.describe_configs(resources, names=names)
    except PartialFailure as failure:
        if any(error.code not in gone for error in failure.errors.values()):
            raise
        return dict(failure.results)
