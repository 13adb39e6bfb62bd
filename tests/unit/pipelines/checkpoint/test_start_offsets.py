"""Interruption of a reset at any file operation, and recovery by the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipelines.checkpoint.test_checkpoint import OFFSETS

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
from odradek.pipelines.checkpoint.start_offsets import START_FILE, recover_reset, replace_checkpoint

START = '{"orders": {"0": 7}}'
CHANGES = frozenset({"create_dir", "open_output_stream", "move", "delete_file"})


class Killed(BaseException):
    """Simulated death of the process."""


class FailingFiles:
    """File system that fails before its n-th change."""

    def __init__(self, files: Any, changes_left: int) -> None:
        self._files = files
        self.changes_left = changes_left

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            self.changes_left -= 1
            if self.changes_left < 0:
                raise Killed
        return getattr(self._files, name)


def make(location: Path, kind: str) -> Checkpoint:
    if kind != "new":
        (location / "offsets").mkdir(parents=True)
        (location / "offsets" / "0").write_text(OFFSETS if kind == "used" else "torn")
    return Checkpoint(str(location))


def is_interrupted(checkpoint: Checkpoint, changes: int) -> bool:
    """Reset with at most ``changes`` file operations; return True if it was interrupted."""
    checkpoint._files = FailingFiles(checkpoint._files, changes)
    try:
        replace_checkpoint(checkpoint, START, "before")
    except Killed:
        return True
    return False


@pytest.mark.parametrize("kind", ["used", "damaged", "new"])
def test_interrupted_reset_is_completed_or_discarded(kind: str, tmp_path: Path) -> None:
    outcomes = []
    for changes in range(20):
        location = tmp_path / str(changes) / "checkpoint"
        interrupted = is_interrupted(make(location, kind), changes)
        after = Checkpoint(str(location))
        recover_reset(after)
        assert after.read_beside("reset.json") is None
        has_moved = location.with_name("checkpoint.before").exists()
        is_old = (location / "offsets").exists()
        assert has_moved == (kind != "new" and not is_old)
        start = after.read_sidecar(START_FILE)
        assert start in (None, START)
        assert (start == START) == has_moved or kind == "new", (
            "the start is known if the old checkpoint was moved"
        )
        assert is_old or after.state() == CheckpointState()
        outcomes.append(start == START)
        if not interrupted:
            break
    assert outcomes == sorted(outcomes), "a completed step is not undone"
    assert len(outcomes) > 4
    assert outcomes[-1]


def test_recovery_without_a_reset_does_nothing(tmp_path: Path) -> None:
    checkpoint = make(tmp_path / "checkpoint", "used")
    before = sorted(tmp_path.rglob("*"))
    recover_reset(checkpoint)
    assert sorted(tmp_path.rglob("*")) == before
