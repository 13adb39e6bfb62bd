"""Whether a batch that has to run again can still be told from one that was written.

The exactly-once sink notes each batch it has written in offsets of a group, and brokers forget these after
``offsets.retention.minutes``.
"""

from __future__ import annotations

import datetime

from odradek.pipelines.checkpoint.checkpoint import CheckpointState
from odradek.pipelines.clusters import admin_for
from odradek.pipelines.query.sinks import shared_secrets
from odradek.pipelines.spec.model import Spec
from odradek.spark.sink.markers import RETENTION_SETTING, is_replay_safe


class BatchTooOld(Exception):
    """Nobody can tell whether an unfinished batch was written."""


def check_retention(spec: Spec, state: CheckpointState, now_ms: int) -> None:
    """Raises BatchTooOld; asks the brokers only if a batch of a topic sink is unfinished."""
    batch = state.unfinished
    if batch is None or batch.planned_ms is None:
        return
    if spec.sink.type != "topic" or spec.sink.guarantee != "exactly_once":
        return
    from odradek.spark.sink.marker_store import offsets_retention_ms

    options = {**shared_secrets(spec), **spec.sink.options}
    with admin_for(spec.sink.brokers, options) as admin:
        retention_ms = offsets_retention_ms(admin)
    if not is_replay_safe(batch.planned_ms, now_ms, retention_ms):
        raise BatchTooOld(too_old_words(spec, batch.batch_id, batch.planned_ms))


def too_old_words(spec: Spec, batch_id: int, planned_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(planned_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
    return (
        f"batch {batch_id} of {spec.name} was begun at {at} and not finished, and the brokers may have "
        f"forgotten which of its rows were written ({RETENTION_SETTING}). Run it once with guarantee = "
        f'"at_least_once" in [sink], which may write rows of this batch twice, then set it back'
    )
