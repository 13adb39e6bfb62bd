"""Whether the topics that a pipeline writes to are there, looked at before its query starts.

A producer waits two minutes for a topic that somebody may be making, and each task of a batch does so again.
Whoever starts a pipeline is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.model.client_errors import ClientError
from odradek.pipelines.clusters import admin_for
from odradek.pipelines.sinks import SinkRefused, shared_secrets
from odradek.pipelines.spec_parts import Spec

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin

_AUTO_CREATION: Final = "auto.create.topics.enable"


def written_topics(spec: Spec) -> dict[str, str]:
    """The topics that the pipeline writes to, by the key of the file that names them. Pure."""
    named = {"[sink] topic": spec.sink.topic if spec.sink.type == "topic" else None}
    if spec.dead_letter is not None:
        named["[dead_letter] topic"] = spec.dead_letter.topic
    return {key: topic for key, topic in named.items() if topic is not None}


def refusal(spec: Spec, existing: Iterable[str]) -> str | None:
    """What to say if one is missing. Pure."""
    there = set(existing)
    missing = {key: topic for key, topic in written_topics(spec).items() if topic not in there}
    if not missing:
        return None
    named = " and ".join(f"topic {topic} ({key})" for key, topic in missing.items())
    return (
        f"{named} {'does' if len(missing) == 1 else 'do'} not exist on {spec.sink.brokers}, where topics are "
        f"not made by themselves: odradek topics create {next(iter(missing.values()))}, or correct the name"
    )


def check_sink_topics(spec: Spec) -> None:
    """Raises SinkRefused if a topic is missing and nobody would make it."""
    if not written_topics(spec):
        return
    with admin_for(spec.sink.brokers, {**shared_secrets(spec), **spec.sink.options}) as admin:
        words = refusal(spec, admin.list_topics())
        if words is not None and not _makes_topics(admin):
            raise SinkRefused(words)


def _makes_topics(admin: Admin) -> bool:
    """Whether brokers make a topic that a producer asks for; who may not read that finds out by trying."""
    from odradek import ConfigResource

    try:
        brokers = [ConfigResource.broker(node.id) for node in admin.describe_cluster().nodes]
        found = admin.describe_configs(brokers, names=[_AUTO_CREATION])
    except ClientError:
        return True
    values = [entries[_AUTO_CREATION].value for entries in found.values() if _AUTO_CREATION in entries]
    return not values or any(value != "false" for value in values)
