"""Checks for missing topics of a pipeline, before Spark starts.

Without them a producer waits two minutes for a missing topic, in each task of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.model.client_errors import ClientError
from odradek.pipelines.clusters import admin_for
from odradek.pipelines.query.sinks import InvalidSink, shared_security_options
from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.checkpoint.checkpoint import CheckpointState

_AUTO_CREATION: Final = "auto.create.topics.enable"


class SourceTopicMissing(Exception):
    """Raised when a source topic does not exist."""


def written_topics(spec: Spec) -> dict[str, str]:
    """Return the topics that the pipeline writes, by their key in the pipeline file. Pure."""
    topics = {"[sink] topic": spec.sink.topic if spec.sink.type == "topic" else None}
    if spec.dead_letter is not None:
        topics["[dead_letter] topic"] = spec.dead_letter.topic
    return {key: topic for key, topic in topics.items() if topic is not None}


def missing_source_topics(spec: Spec, existing: Iterable[str]) -> str | None:
    """Return the error for missing source topics; None if all exist. Pure."""
    key, names = (
        ("assign", sorted(spec.source.assign)) if spec.source.assign else ("topics", spec.source.topics)
    )
    if spec.source.type != "topic" or spec.source.pattern is not None:
        return None
    existing_topics = set(existing)
    missing = [name for name in names if name not in existing_topics]
    if not missing:
        return None
    single = len(missing) == 1
    return (
        f"topic{'' if single else 's'} {' and '.join(missing)} ([source] {key}) "
        f"{'does' if single else 'do'} not exist on {spec.source.brokers}: create "
        f"{'it' if single else 'them'} with odradek topics create {' '.join(missing)} "
        f"-b {spec.source.brokers}, or correct the name{'' if single else 's'}"
    )


def missing_sink_topics(spec: Spec, existing: Iterable[str]) -> str | None:
    """Return the error for missing sink topics; None if all exist. Pure."""
    existing_topics = set(existing)
    missing = {key: topic for key, topic in written_topics(spec).items() if topic not in existing_topics}
    if not missing:
        return None
    topics = " and ".join(f"topic {topic} ({key})" for key, topic in missing.items())
    return (
        f"{topics} {'does' if len(missing) == 1 else 'do'} not exist on {spec.sink.brokers}, which does not "
        f"create topics automatically: odradek topics create {' '.join(missing.values())} "
        f"-b {spec.sink.brokers}, or correct the name"
    )


def check_topics(spec: Spec, state: CheckpointState) -> None:
    """Raise InvalidSink or SourceTopicMissing if a topic is missing and not created automatically."""
    # A deleted topic that was read before is a data loss, which the source reports in detail.
    if spec.source.type == "topic" and not state.has_begun:
        with admin_for(spec.source.brokers, spec.source.options) as admin:
            error = missing_source_topics(spec, admin.list_topics())
        if error is not None:
            raise SourceTopicMissing(error)
    check_sink_topics(spec)


def check_sink_topics(spec: Spec) -> None:
    """Raise InvalidSink if a topic is missing and not created automatically."""
    if not written_topics(spec):
        return
    with admin_for(spec.sink.brokers, {**shared_security_options(spec), **spec.sink.options}) as admin:
        error = missing_sink_topics(spec, admin.list_topics())
        if error is not None and not auto_creates_topics(admin):
            raise InvalidSink(error)


def auto_creates_topics(admin: Admin) -> bool:
    """Return True if brokers create topics automatically; also if their configs cannot be read."""
    from odradek import ConfigResource

    try:
        brokers = [ConfigResource.broker(node.id) for node in admin.describe_cluster().nodes]
        configs = admin.describe_configs(brokers, names=[_AUTO_CREATION])
    except ClientError:
        return True
    values = [entries[_AUTO_CREATION].value for entries in configs.values() if _AUTO_CREATION in entries]
    return not values or any(value != "false" for value in values)
