"""A new checkpoint that begins where a reset says, put in the place of the old one.

The old folder is renamed, and the new one gets a file with its start. Without that file a pipeline begins
where its own file says, which may be the end of the topic: rows would be lost to a reset that was cut short
between the two. So what is about to be done is noted beside the folder, and the next run looks there first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, CheckpointUnreadable

if TYPE_CHECKING:
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint

START_FILE: Final = "start.json"
"""Offsets that stand for the file's ``start`` while the checkpoint has not begun."""
_NOTE: Final = "reset.json"


def begin_anew(checkpoint: Checkpoint, start: str, suffix: str) -> str | None:
    """Move aside what there is, and begin there; gives the place of the old checkpoint, if there was one."""
    checkpoint.write_beside(_NOTE, start)
    aside = checkpoint.move_aside(suffix) if is_used(checkpoint) else None
    _write_start(checkpoint, start)
    return aside


def settle(checkpoint: Checkpoint) -> None:
    """Finish a reset that was cut short after the old checkpoint was gone; forget one that was before."""
    noted = checkpoint.read_beside(_NOTE)
    if noted is None:
        return
    if is_used(checkpoint):
        checkpoint.remove_beside(_NOTE)
    else:
        _write_start(checkpoint, noted)


def is_used(checkpoint: Checkpoint) -> bool:
    """Whether there is something to keep: also what cannot be read."""
    try:
        return checkpoint.state() != CheckpointState()
    except CheckpointUnreadable:
        return True


def _write_start(checkpoint: Checkpoint, start: str) -> None:
    checkpoint.write_sidecar(START_FILE, start)
    checkpoint.remove_beside(_NOTE)
