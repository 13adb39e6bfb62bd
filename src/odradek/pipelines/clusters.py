"""The clusters at both ends of a pipeline: clients for its brokers, and the partitions its source reads.

Settings under ``kafka.`` in a section's options count here as they do for Spark, so what Spark can read
can be looked at from here.
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

FIRST_ANSWER_S: Final = 4.0
"""How long a command waits for the first answer before it says that there is no broker."""
PREFIX: Final = "kafka."


def settings_for(table: ClientConfigDef, brokers: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a section as settings of a client, as far as it knows them."""
    named = {name[len(PREFIX) :]: value for name, value in options.items() if name.lower().startswith(PREFIX)}
    known = {name: value for name, value in named.items() if name in table.by_name}
    return {**known, "bootstrap.servers": brokers}


@contextmanager
def admin_for(brokers: str, options: Mapping[str, str]) -> Iterator[Admin]:
    """An admin client of a cluster that has answered."""
    from odradek import Admin
    from odradek.config.client import ADMIN
    from odradek.model.client_errors import ConnectionFailed, TimedOut

    with _made(Admin, settings_for(ADMIN, brokers, options)) as admin:
        try:
            admin.describe_cluster(timeout_s=FIRST_ANSWER_S)
        except (ConnectionFailed, TimedOut) as failed:
            raise CommandFailed(
                f"no broker answers at {brokers}. Start it, or correct `brokers` in the pipeline's file"
            ) from failed
        yield admin


def _made(make: type[Admin], settings: Mapping[str, str]) -> Admin:
    try:
        return make(settings)
    except ConfigError as wrong:
        # Only what the file says under options comes here.
        raise ConfigError([f"options of the section, {PREFIX}*: {one}" for one in wrong.problems]) from None


@contextmanager
def source_admin(spec: Spec) -> Iterator[Admin]:
    """An admin client of the cluster a pipeline reads from; a pipeline from a table has none."""
    if spec.source.type != "topic":
        raise CommandFailed(f"{spec.name} reads a table: there are no offsets to look at")
    with admin_for(spec.source.brokers, spec.source.options) as admin:
        yield admin


def source_topics(source: Source, existing: Collection[str]) -> list[str]:
    """The topics a source reads, given those that exist; named ones count whether they exist or not."""
    if source.pattern is not None:
        pattern = re.compile(source.pattern)
        return sorted(topic for topic in existing if pattern.fullmatch(topic))
    return sorted(source.assign) if source.assign else sorted(source.topics)


def source_partitions(admin: Admin, source: Source) -> list[TopicPartition]:
    """The partitions a source reads, as they are now."""
    topics = source_topics(source, admin.list_topics() if source.pattern is not None else ())
    if not topics:
        raise CommandFailed(f"no topic matches the pattern {source.pattern}; `odradek topics list` shows all")
    described = admin.describe_topics(topics)
    return sorted(
        TopicPartition(topic, one.partition)
        for topic in topics
        for one in described[topic].partitions
        if not source.assign or one.partition in source.assign[topic]
    )
