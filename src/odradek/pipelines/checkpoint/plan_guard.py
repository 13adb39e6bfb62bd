"""Guard against changes of a pipeline file while an exactly-once batch is unfinished. Pure.

A replayed batch must be partitioned as before. The values that decide this are stored beside the checkpoint
(``plan.json``) when a run starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from odradek.pipelines.checkpoint.checkpoint import CheckpointState
from odradek.pipelines.spec.model import Spec

PLAN_FILE: Final = "plan.json"
_SOURCE_OPTIONS: Final = ("minPartitions", "maxRecordsPerPartition")
_SINK_OPTIONS: Final = ("transactionalIdPrefix", "markerTopic", "sinkId")


class PlanChanged(Exception):
    """Raised when a change of the pipeline file affects a batch that must be replayed."""


def plan_settings(spec: Spec) -> dict[str, str]:
    """Return the values that decide how a batch is partitioned, and where its markers are."""
    source, sink = spec.source, spec.sink
    source_options = {name.lower(): value for name, value in source.options.items()}
    sink_options = {name.lower(): value for name, value in sink.options.items()}
    settings = {
        "[source] topics": ", ".join(source.topics),
        "[source] pattern": source.pattern or "",
        "[source] assign": json.dumps({topic: list(of) for topic, of in sorted(source.assign.items())}),
        "[source] path": source.path or "",
        "[sink] type": sink.type,
        "[sink] topic": sink.topic or "",
        "[sink] path": sink.path or "",
        "[sink] guarantee": sink.guarantee,
    }
    settings |= {f"[source] options {name}": source_options.get(name.lower(), "") for name in _SOURCE_OPTIONS}
    settings |= {f"[sink] options {name}": sink_options.get(name.lower(), "") for name in _SINK_OPTIONS}
    return settings


def check_plan(spec: Spec, stored: Mapping[str, str] | None, state: CheckpointState) -> None:
    """Raise PlanChanged if an unfinished batch was planned with other values."""
    batch = state.unfinished
    if batch is None or stored is None or spec.sink.guarantee != "exactly_once":
        return
    changes = changed_settings(stored, plan_settings(spec))
    if changes:
        raise PlanChanged(
            f"batch {batch.batch_id} of {spec.name} is unfinished and must be replayed as it was planned, "
            f"but {'; '.join(changes)}. Undo the change, run once until the batch is complete "
            f"(odradek pipeline run {spec.file.name} --once), then change it"
        )


def changed_settings(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a description of each changed value."""
    return [
        f"{name} was {before[name] or 'not set'} and is now {value or 'not set'}"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
