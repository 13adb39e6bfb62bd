"""Plans of a flush, and their undo after a failure."""

from __future__ import annotations

from typing import Any

from odradek.log.leader_epoch_cache import EpochEntry
from odradek.log.log_flusher import LogFlusher


def test_undone_plan_restores_changed_names_and_epochs(harness: Any) -> None:
    for is_new, epochs in ((True, ()), (False, (EpochEntry(1, 0),))):
        flusher = LogFlusher(harness.context(), (), is_new=is_new)
        assert flusher.has_changes(epochs)
        flusher.plan([], None, epochs)
        assert not flusher.has_changes(epochs)
        flusher.undo_plan()
        assert flusher.has_changes(epochs)


def test_new_log_directory_is_synced_after_an_undone_plan(harness: Any) -> None:
    synced: list[str] = []
    harness.files.sync_dir = synced.append
    flusher = LogFlusher(harness.context(), (), is_new=True)
    flusher.plan([], None, ())
    flusher.undo_plan()
    flusher.plan([], None, ())()
    assert synced == ["/data/orders-0", "/data"]
