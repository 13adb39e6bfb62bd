"""Check that the markers of an unfinished exactly-once batch have not expired.

The exactly-once sink stores its markers as group offsets, which brokers delete after
``offsets.retention.minutes``.
"""

from __future__ import annotations

import datetime

from odradek.pipelines.checkpoint.checkpoint import CheckpointState
from odradek.pipelines.clusters import admin_for
from odradek.pipelines.query.sinks import shared_security_options
from odradek.pipelines.spec.model import Spec
from odradek.spark.sink.markers import RETENTION_SETTING, is_replay_safe


class BatchTooOld(Exception):
    """Raised when it is unknown whether an unfinished batch was written."""


def check_retention(spec: Spec, state: CheckpointState, now_ms: int) -> None:
    """Raise BatchTooOld; requests brokers only for an unfinished batch of a topic sink."""
    batch = state.unfinished
    if batch is None or batch.planned_ms is None:
        return
    if spec.sink.type != "topic" or spec.sink.guarantee != "exactly_once":
        return
    from odradek.spark.sink.marker_store import offsets_retention_ms

    options = {**shared_security_options(spec), **spec.sink.options}
    with admin_for(spec.sink.brokers, options) as admin:
        retention_ms = offsets_retention_ms(admin)
    if not is_replay_safe(batch.planned_ms, now_ms, retention_ms):
        raise BatchTooOld(too_old_message(spec, batch.batch_id, batch.planned_ms))


def too_old_message(spec: Spec, batch_id: int, planned_ms: int) -> str:
    time = datetime.datetime.fromtimestamp(planned_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
    return (
        f"batch {batch_id} of {spec.name} was started at {time} and is unfinished, and its markers may have "
        f'expired ({RETENTION_SETTING}). Run it once with guarantee = "at_least_once" in [sink], which may '
        "write rows of this batch twice, then set it back"
    )
