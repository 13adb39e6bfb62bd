"""Clients for the brokers of a pipeline, and the partitions that its source reads.

``kafka.*`` options of a section apply here as in Spark, so that both reach the same clusters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from odradek.cli.errors import CommandFailed
from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.config.client.definition import ClientConfigDef
    from odradek.pipelines.spec.reader import Source, Spec

FIRST_RESPONSE_S: Final = 4.0
"""Time that a command waits for the first response."""
PREFIX: Final = "kafka."


def settings_for(table: ClientConfigDef, brokers: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the ``kafka.*`` options of a section that a client supports."""
    settings = {
        name[len(PREFIX) :]: value for name, value in options.items() if name.lower().startswith(PREFIX)
    }
    known = {name: value for name, value in settings.items() if name in table.by_name}
    return {**known, "bootstrap.servers": brokers}


@contextmanager
def admin_for(brokers: str, options: Mapping[str, str]) -> Iterator[Admin]:
    """Open an admin client; raise CommandFailed if no broker is reachable."""
    from odradek import Admin
    from odradek.config.client import ADMIN
    from odradek.model.client_errors import ConnectionFailed, TimedOut

    with _create(Admin, settings_for(ADMIN, brokers, options)) as admin:
        try:
            admin.describe_cluster(timeout_s=FIRST_RESPONSE_S)
        except (ConnectionFailed, TimedOut) as failed:
            raise CommandFailed(
                f"no broker reachable at {brokers}. Start it, or correct `brokers` in the pipeline file"
            ) from failed
        yield admin


def _create(client_class: type[Admin], settings: Mapping[str, str]) -> Admin:
    try:
        return client_class(settings)
    except ConfigError as error:
        # Only options of the pipeline file can be invalid here.
        raise ConfigError([f"options {PREFIX}*: {problem}" for problem in error.problems]) from None


@contextmanager
def source_admin(spec: Spec) -> Iterator[Admin]:
    """Open an admin client for the source; raise CommandFailed for a table source."""
    if spec.source.type != "topic":
        raise CommandFailed(f"{spec.name} reads a table, which has no offsets")
    with admin_for(spec.source.brokers, spec.source.options) as admin:
        yield admin


def source_topics(source: Source, existing: Collection[str]) -> list[str]:
    """Return the topics of a source; a pattern selects among existing ones."""
    if source.pattern is not None:
        pattern = re.compile(source.pattern)
        return sorted(topic for topic in existing if pattern.fullmatch(topic))
    return sorted(source.assign) if source.assign else sorted(source.topics)


def source_partitions(admin: Admin, source: Source) -> list[TopicPartition]:
    """Return the current partitions of a source."""
    topics = source_topics(source, admin.list_topics() if source.pattern is not None else ())
    if not topics:
        raise CommandFailed(f"no topic matches the pattern {source.pattern}; see `odradek topics list`")
    described = admin.describe_topics(topics)
    return sorted(
        TopicPartition(topic, partition.partition)
        for topic in topics
        for partition in described[topic].partitions
        if not source.assign or partition.partition in source.assign[topic]
    )
