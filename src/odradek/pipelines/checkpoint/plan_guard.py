"""What must not change while a batch is unfinished: an exactly-once batch that runs again is cut as before.

The values are pinned beside the checkpoint (``plan.json``) whenever a run starts. Pure.
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
    """The file was changed in a way that would spoil the batch that has to run again."""


def planning_of(spec: Spec) -> dict[str, str]:
    """All that decides how the rows of a batch are cut, and where it is noted that they were written."""
    source, sink = spec.source, spec.sink
    given = {name.lower(): value for name, value in source.options.items()}
    sent = {name.lower(): value for name, value in sink.options.items()}
    found = {
        "[source] topics": ", ".join(source.topics),
        "[source] pattern": source.pattern or "",
        "[source] assign": json.dumps({topic: list(of) for topic, of in sorted(source.assign.items())}),
        "[source] path": source.path or "",
        "[sink] type": sink.type,
        "[sink] topic": sink.topic or "",
        "[sink] path": sink.path or "",
        "[sink] guarantee": sink.guarantee,
    }
    found |= {f"[source] options {name}": given.get(name.lower(), "") for name in _SOURCE_OPTIONS}
    found |= {f"[sink] options {name}": sent.get(name.lower(), "") for name in _SINK_OPTIONS}
    return found


def check_plan(spec: Spec, pinned: Mapping[str, str] | None, state: CheckpointState) -> None:
    """Raises PlanChanged if an unfinished batch was planned by other words than the file has now."""
    batch = state.unfinished
    if batch is None or pinned is None or spec.sink.guarantee != "exactly_once":
        return
    changes = changed_words(pinned, planning_of(spec))
    if changes:
        raise PlanChanged(
            f"batch {batch.batch_id} of {spec.name} is not finished and must run again exactly as it was "
            f"planned, but {'; '.join(changes)}. Put that back, run once until the batch is done "
            f"(odradek pipeline run {spec.file.name} --once), then change it"
        )


def changed_words(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Each value that is another one now."""
    return [
        f"{name} was {before[name] or 'not set'} and is {value or 'not set'} now"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
