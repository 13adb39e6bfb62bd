"""Topics of a pipeline that do not exist: found before Spark starts, which takes a while.

A producer waits two minutes for a topic that somebody may be making, and each task of a batch does so again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.model.client_errors import ClientError
from odradek.pipelines.clusters import admin_for
from odradek.pipelines.query.sinks import InvalidSink, shared_secrets
from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.checkpoint.checkpoint import CheckpointState

_AUTO_CREATION: Final = "auto.create.topics.enable"


class SourceTopicMissing(Exception):
    """A topic that the pipeline reads does not exist."""


def written_topics(spec: Spec) -> dict[str, str]:
    """The topics that the pipeline writes to, by the key of the file that names them. Pure."""
    named = {"[sink] topic": spec.sink.topic if spec.sink.type == "topic" else None}
    if spec.dead_letter is not None:
        named["[dead_letter] topic"] = spec.dead_letter.topic
    return {key: topic for key, topic in named.items() if topic is not None}


def source_refusal(spec: Spec, existing: Iterable[str]) -> str | None:
    """Return the message for a missing topic that the pipeline reads. Pure."""
    key, names = (
        ("assign", sorted(spec.source.assign)) if spec.source.assign else ("topics", spec.source.topics)
    )
    if spec.source.type != "topic" or spec.source.pattern is not None:
        return None
    there = set(existing)
    missing = [name for name in names if name not in there]
    if not missing:
        return None
    one = len(missing) == 1
    return (
        f"topic{'' if one else 's'} {' and '.join(missing)} ([source] {key}) {'does' if one else 'do'} not "
        f"exist on {spec.source.brokers}: create {'it' if one else 'them'} with odradek topics create "
        f"{' '.join(missing)} -b {spec.source.brokers}, or correct the name{'' if one else 's'}"
    )


def refusal(spec: Spec, existing: Iterable[str]) -> str | None:
    """What to say if one is missing. Pure."""
    there = set(existing)
    missing = {key: topic for key, topic in written_topics(spec).items() if topic not in there}
    if not missing:
        return None
    named = " and ".join(f"topic {topic} ({key})" for key, topic in missing.items())
    return (
        f"{named} {'does' if len(missing) == 1 else 'do'} not exist on {spec.sink.brokers}, where topics are "
        f"not made by themselves: odradek topics create {' '.join(missing.values())} "
        f"-b {spec.sink.brokers}, or correct the name"
    )


def check_topics(spec: Spec, state: CheckpointState) -> None:
    """Raise InvalidSink or SourceTopicMissing if a topic is missing and nobody would make it."""
    # A topic that was read before and is gone is a data loss, of which the source tells more.
    if spec.source.type == "topic" and not state.has_begun:
        with admin_for(spec.source.brokers, spec.source.options) as admin:
            words = source_refusal(spec, admin.list_topics())
        if words is not None:
            raise SourceTopicMissing(words)
    check_sink_topics(spec)


def check_sink_topics(spec: Spec) -> None:
    """Raises InvalidSink if a topic is missing and nobody would make it."""
    if not written_topics(spec):
        return
    with admin_for(spec.sink.brokers, {**shared_secrets(spec), **spec.sink.options}) as admin:
        words = refusal(spec, admin.list_topics())
        if words is not None and not makes_topics(admin):
            raise InvalidSink(words)


def makes_topics(admin: Admin) -> bool:
    """Whether brokers make a topic that a producer asks for; who may not read that finds out by trying."""
    from odradek import ConfigResource

    try:
        brokers = [ConfigResource.broker(node.id) for node in admin.describe_cluster().nodes]
        found = admin.describe_configs(brokers, names=[_AUTO_CREATION])
    except ClientError:
        return True
    values = [entries[_AUTO_CREATION].value for entries in found.values() if _AUTO_CREATION in entries]
    return not values or any(value != "false" for value in values)
