"""Start offsets of a checkpoint after a reset, and recovery of an interrupted reset.

A reset renames the old directory and writes the start offsets into a new one. Without these a pipeline starts
at the file's ``start``, which may be the log end: an interruption between the two steps would lose rows. So
the reset first writes its start offsets beside the directory, and the next run checks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.pipelines.checkpoint.checkpoint import CheckpointState, CheckpointUnreadable

if TYPE_CHECKING:
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint

START_FILE: Final = "start.json"
"""Offsets that replace the pipeline file's ``start`` until the first batch is planned."""
_RESET_FILE: Final = "reset.json"


def replace_checkpoint(checkpoint: Checkpoint, start: str, suffix: str) -> str | None:
    """Move the checkpoint aside and write the start of a new one; return the old one's new location."""
    checkpoint.write_beside(_RESET_FILE, start)
    aside = checkpoint.move_aside(suffix) if is_used(checkpoint) else None
    _write_start(checkpoint, start)
    return aside


def recover_reset(checkpoint: Checkpoint) -> None:
    """Complete a reset that was interrupted after the move; discard one that was interrupted before."""
    start = checkpoint.read_beside(_RESET_FILE)
    if start is None:
        return
    if is_used(checkpoint):
        checkpoint.remove_beside(_RESET_FILE)
    else:
        _write_start(checkpoint, start)


def is_used(checkpoint: Checkpoint) -> bool:
    """Return True if the checkpoint has content, readable or not."""
    try:
        return checkpoint.state() != CheckpointState()
    except CheckpointUnreadable:
        return True


def _write_start(checkpoint: Checkpoint, start: str) -> None:
    checkpoint.write_sidecar(START_FILE, start)
    checkpoint.remove_beside(_RESET_FILE)
