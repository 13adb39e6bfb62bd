"""The ids of a pipeline's source topics, pinned beside the checkpoint: offsets do not say of which topic.

A topic that was deleted and made again has the same name and other records. What the checkpoint says of the
former one must not be taken for a place in the new one, also if it was made while nobody ran the pipeline.
The ids go to the source as ``expectedTopicIds``; it judges, and this file follows what it has accepted.
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


def settled_ids(
    begun: Collection[str],
    pinned: Mapping[str, str],
    committed: Mapping[str, str],
    present: Mapping[str, str],
) -> dict[str, str]:
    """The topics that the checkpoint's offsets are said of. Pure.

    ``begun`` are topics that the checkpoint has offsets of. What the group has committed since is newer than
    what was pinned: the source puts the id of a topic to each offset. Where nobody has kept an id, the topic
    that is there is taken for the one that was read.
    """
    kept = {**present, **pinned, **committed}
    return {
        topic: kept[topic] if topic in begun else present[topic]
        for topic in sorted({*begun, *present})
        if topic in (kept if topic in begun else present)
    }


def begun_topics(state: CheckpointState) -> frozenset[str]:
    """The topics that the checkpoint has offsets of. Pure."""
    ends = state.last_planned.ends if state.last_planned is not None else ()
    return frozenset(ends[0] or ()) if ends else frozenset()


def has_gone_back(progress: Mapping[str, Any]) -> bool:
    """Whether a batch set a partition back: only a loss that is accepted does. Pure."""
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
    """Before a query starts: write down which topics its offsets are said of."""
    if spec.source.type != "topic":
        return
    state = checkpoint.state()
    with source_admin(spec) as admin:
        present = _present(admin, spec)
        group = admin.list_group_offsets(spec.observe.group) if state.has_begun else {}
    committed = topic_ids_of({one: value for one, value in group.items() if value is not None})
    pinned = checkpoint.read_sidecar_json(TOPICS_FILE) or {}
    _write(checkpoint, settled_ids(begun_topics(state), pinned, committed, present))


def update_topic_ids(spec: Spec, checkpoint: Checkpoint) -> None:
    """After a batch that accepted a loss: from now on offsets are said of the topics that are there."""
    pinned = checkpoint.read_sidecar_json(TOPICS_FILE) or {}
    with source_admin(spec) as admin:
        _write(checkpoint, {**pinned, **_present(admin, spec)})


def _write(checkpoint: Checkpoint, ids: Mapping[str, str]) -> None:
    text = json.dumps(ids, indent=1, sort_keys=True)
    if checkpoint.read_sidecar(TOPICS_FILE) != text:
        checkpoint.write_sidecar(TOPICS_FILE, text)


def _present(admin: Admin, spec: Spec) -> dict[str, str]:
    """The ids of the source's topics that exist; brokers older than such ids tell none."""
    topics = source_topics(spec.source, admin.list_topics() if spec.source.pattern is not None else ())
    if not topics:
        return {}
    try:
        described = admin.describe_topics(topics)
    except PartialFailure as failed:
        if not all(isinstance(error, UnknownTopic) for error in failed.errors.values()):
            raise
        described = {one.name: one for one in failed.results.values()}
    return {name: one.topic_id for name, one in described.items() if one.topic_id is not None}
