"""The topic ids of a pipeline's source topics, stored beside the checkpoint, whose offsets have only names.

A recreated topic has the same name and other records. The checkpoint's offsets of the deleted topic must not
be applied to it, even if it was recreated while the pipeline did not run. The ids are passed to the source as
``expectedTopicIds``; the source detects data loss, and this file is updated when a loss is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.model.client_errors import PartialFailure, UnknownTopic
from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
from odradek.pipelines.clusters import source_admin, source_topics
from odradek.spark.source.group_commits import topic_ids_of

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.spec.model import Spec

TOPICS_FILE: Final = "topics.json"


def resolve_topic_ids(
    checkpointed: Collection[str],
    stored: Mapping[str, str],
    committed: Mapping[str, str],
    current: Mapping[str, str],
) -> dict[str, str]:
    """Return the ids of the topics that the checkpoint's offsets belong to. Pure.

    ``checkpointed`` are topics with offsets in the checkpoint. Ids committed by the group are newer than
    stored ones: the source commits the topic id with each offset. Without any stored id the current topic
    counts as the one that was read.
    """
    known = {**current, **stored, **committed}
    return {
        topic: known[topic] if topic in checkpointed else current[topic]
        for topic in sorted({*checkpointed, *current})
        if topic in (known if topic in checkpointed else current)
    }


def checkpointed_topics(state: CheckpointState) -> frozenset[str]:
    """Return the topics with offsets in the checkpoint. Pure."""
    ends = state.last_planned.ends if state.last_planned is not None else ()
    return frozenset(ends[0] or ()) if ends else frozenset()


def has_moved_backwards(progress: Mapping[str, Any]) -> bool:
    """Return True if a batch moved a partition backwards: only an accepted data loss does. Pure."""
    for source in progress.get("sources", ()):
        start, end = source.get("startOffset"), source.get("endOffset")
        if isinstance(start, dict) and isinstance(end, dict) and _is_below(end, start):
            return True
    return False


def _is_below(end: Mapping[str, Any], start: Mapping[str, Any]) -> bool:
    return any(
        isinstance(end.get(topic), dict) and end[topic].get(number, offset) < offset
        for topic, offsets in start.items()
        if isinstance(offsets, dict)
        for number, offset in offsets.items()
    )


def record_topic_ids(spec: Spec, checkpoint: Checkpoint) -> None:
    """Store the topic ids of the checkpoint's offsets, before a query starts."""
    if spec.source.type != "topic":
        return
    state = checkpoint.state()
    with source_admin(spec) as admin:
        current = _current_ids(admin, spec)
        group = admin.list_group_offsets(spec.observe.group) if state.has_begun else {}
    committed = topic_ids_of({partition: offset for partition, offset in group.items() if offset is not None})
    stored = checkpoint.read_sidecar_json(TOPICS_FILE) or {}
    _write(checkpoint, resolve_topic_ids(checkpointed_topics(state), stored, committed, current))


def update_topic_ids(spec: Spec, checkpoint: Checkpoint) -> None:
    """Store the current topic ids, after a batch that accepted a data loss."""
    stored = checkpoint.read_sidecar_json(TOPICS_FILE) or {}
    with source_admin(spec) as admin:
        _write(checkpoint, {**stored, **_current_ids(admin, spec)})


def _write(checkpoint: Checkpoint, ids: Mapping[str, str]) -> None:
    text = json.dumps(ids, indent=1, sort_keys=True)
    if checkpoint.read_sidecar(TOPICS_FILE) != text:
        checkpoint.write_sidecar(TOPICS_FILE, text)


def _current_ids(admin: Admin, spec: Spec) -> dict[str, str]:
    """Return the ids of the existing source topics; old brokers have no topic ids."""
    topics = source_topics(spec.source, admin.list_topics() if spec.source.pattern is not None else ())
    if not topics:
        return {}
    try:
        described = admin.describe_topics(topics)
    except PartialFailure as failed:
        if not all(isinstance(error, UnknownTopic) for error in failed.errors.values()):
            raise
        described = {topic.name: topic for topic in failed.results.values()}
    return {name: topic.topic_id for name, topic in described.items() if topic.topic_id is not None}
