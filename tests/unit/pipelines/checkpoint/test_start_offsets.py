"""A reset that is cut short at any change of a file, and the run after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipelines.checkpoint.test_checkpoint import OFFSETS

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
from odradek.pipelines.checkpoint.start_offsets import START_FILE, begin_anew, settle

WANTED = '{"orders": {"0": 7}}'
CHANGES = frozenset({"create_dir", "open_output_stream", "move", "delete_file"})


class Killed(BaseException):
    """The process has ended here."""


class DyingFiles:
    """A file system that dies before its n-th change."""

    def __init__(self, files: Any, changes_left: int) -> None:
        self._files = files
        self.changes_left = changes_left

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            self.changes_left -= 1
            if self.changes_left < 0:
                raise Killed
        return getattr(self._files, name)


def make(place: Path, kind: str) -> Checkpoint:
    if kind != "new":
        (place / "offsets").mkdir(parents=True)
        (place / "offsets" / "0").write_text(OFFSETS if kind == "used" else "torn")
    return Checkpoint(str(place))


def ends_early(checkpoint: Checkpoint, changes: int) -> bool:
    """Reset with so many changes of files, and no more; says whether it would have made more."""
    checkpoint._files = DyingFiles(checkpoint._files, changes)
    try:
        begin_anew(checkpoint, WANTED, "before")
    except Killed:
        return True
    return False


@pytest.mark.parametrize("kind", ["used", "damaged", "new"])
def test_a_reset_is_done_or_was_never_asked_for_wherever_it_ends(kind: str, tmp_path: Path) -> None:
    outcomes = []
    for changes in range(20):
        place = tmp_path / str(changes) / "checkpoint"
        is_cut = ends_early(make(place, kind), changes)
        after = Checkpoint(str(place))
        settle(after)
        assert after.read_beside("reset.json") is None
        has_moved = place.with_name("checkpoint.before").exists()
        is_old = (place / "offsets").exists()
        assert has_moved == (kind != "new" and not is_old)
        start = after.read_sidecar(START_FILE)
        assert start in (None, WANTED)
        assert (start == WANTED) == has_moved or kind == "new", (
            "where it begins is known if the old one is gone"
        )
        assert is_old or after.state() == CheckpointState()
        outcomes.append(start == WANTED)
        if not is_cut:
            break
    assert outcomes == sorted(outcomes), "what has been done stays so"
    assert len(outcomes) > 4
    assert outcomes[-1]


def test_without_a_reset_there_is_nothing_to_settle(tmp_path: Path) -> None:
    checkpoint = make(tmp_path / "checkpoint", "used")
    before = sorted(tmp_path.rglob("*"))
    settle(checkpoint)
    assert sorted(tmp_path.rglob("*")) == before
