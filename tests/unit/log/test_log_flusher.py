"""Work that a flush takes over, and gives back if it could not be done."""

from __future__ import annotations

from typing import Any

from odradek.log.leader_epoch_cache import EpochEntry
from odradek.log.log_flusher import LogFlusher


def test_names_and_epochs_that_were_given_back_are_due_again(bench: Any) -> None:
    for is_new, epochs in ((True, ()), (False, (EpochEntry(1, 0),))):
        flushing = LogFlusher(bench.place(), (), is_new=is_new)
        assert flushing.is_due(epochs)
        flushing.plan([], None, epochs)
        assert not flushing.is_due(epochs)
        flushing.give_back()
        assert flushing.is_due(epochs)


def test_the_name_of_a_new_log_that_was_given_back_is_synced_by_the_next_plan(bench: Any) -> None:
    synced: list[str] = []
    bench.files.sync_dir = synced.append
    flushing = LogFlusher(bench.place(), (), is_new=True)
    flushing.plan([], None, ())
    flushing.give_back()
    flushing.plan([], None, ())()
    assert synced == ["/data/orders-0", "/data"]
