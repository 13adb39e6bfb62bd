"""Options of a query's sink."""

from __future__ import annotations

import pytest
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, PlannedBatch
from odradek.pipelines.query.sinks import streaming_options

BATCH = PlannedBatch(4, 0, (), {})
FINISHED = CheckpointState("q", BATCH, BATCH, 4)
UNFINISHED = CheckpointState("q", BATCH, None, 3)
TOPIC = 'type = "topic"\ntopic = "out"'


def test_markers_are_required_only_for_an_unfinished_batch() -> None:
    assert streaming_options(spec_of(sink=TOPIC), FINISHED)["missingMarkers"] == "write"
    assert streaming_options(spec_of(sink=TOPIC), CheckpointState())["missingMarkers"] == "write"
    assert "missingMarkers" not in streaming_options(spec_of(sink=TOPIC), UNFINISHED)


@pytest.mark.parametrize("more", ['guarantee = "at_least_once"', 'options = { MISSINGMARKERS = "fail" }'])
def test_file_options_override_missing_markers(more: str) -> None:
    assert "missingMarkers" not in streaming_options(spec_of(sink=f"{TOPIC}\n{more}"), FINISHED)


def test_other_sinks_have_no_markers() -> None:
    assert streaming_options(spec_of(), FINISHED) == {}
