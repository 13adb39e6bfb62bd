"""Replayed batches: detected by tasks, checked and committed by the driver.

Only the first batch of a run may have been started by an earlier run; later ones are new. So each process
reads all markers of a query once per run, before it sends the first row of that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.spark.options.sink_options import SinkOptions
from odradek.spark.sink.errors import explain
from odradek.spark.sink.marker_store import end_transaction, read_markers
from odradek.spark.sink.markers import (
    MarkerKey,
    Markers,
    ReplayMismatch,
    check_batch_order,
    check_task_count,
    markers_of_other_attempts,
)
from odradek.spark.sink.row_sender import Replay, TaskCommitMessage

_QUERIES_MAX: Final = 64


class WriteUnit(NamedTuple):
    """One partition of one batch of a query: the unit that is written exactly once."""

    key: MarkerKey
    batch_id: int
    attempt: str = ""
    """Attempt at the batch, common to all its tasks."""
    run: str | None = None
    """Run of the query; None if Spark does not pass it."""


class _FirstBatch(NamedTuple):
    run: str | None
    batch_id: int
    attempt: str
    markers: Markers


@dataclass(slots=True)
class FirstBatchMarkers:
    """Markers of queries at the start of their first batch in this process."""

    read: Callable[[SinkOptions, str], Markers] = read_markers
    _first: dict[tuple[str, str, str], _FirstBatch] = field(default_factory=dict)

    def of(self, options: SinkOptions, unit: WriteUnit) -> Markers | None:
        """Return the markers of other attempts; None if this is not a run's first batch and so is new.

        Raise StaleCheckpoint if one of them belongs to a later batch.
        """
        cache_key = (options.admin_settings["bootstrap.servers"], options.marker_topic, unit.key.query)
        first = self._first.get(cache_key)
        if first is not None and unit.run is not None and first.run == unit.run:
            if first.batch_id < unit.batch_id:
                return None
            if first.attempt == unit.attempt:
                return first.markers
        markers = markers_of_other_attempts(self.read(options, unit.key.query), unit.attempt)
        check_batch_order(markers, unit.key.query, unit.batch_id)
        if len(self._first) >= _QUERIES_MAX:
            self._first.clear()
        self._first[cache_key] = _FirstBatch(unit.run, unit.batch_id, unit.attempt, markers)
        return markers


first_batch_markers: Final = FirstBatchMarkers()


def commit_replay(options: SinkOptions, messages: Sequence[object], batch_id: int) -> None:
    """Commit the transactions that tasks left open, if the batch is partitioned as before.

    Each transaction contains the marker of its rows. If the driver dies between two of them, the batch is
    replayed: committed partitions are skipped, and open transactions are aborted by the next owner of the id.
    """
    replays = _replays(messages)
    if not replays:
        return
    try:
        if problem := next((replay.problem for replay in replays if replay.problem), None):
            raise ReplayMismatch(problem)
        query, attempt = replays[0].query, replays[0].attempt
        markers = markers_of_other_attempts(read_markers(options, query), attempt)
        check_task_count(markers, query, batch_id, len(messages))
        for replay in replays:
            if replay.transaction is not None:
                end_transaction(options, replay.transaction, committed=True)
    except ReplayMismatch:
        abort_replay(options, messages)
        raise
    except ClientError as failed:
        raise explain(failed, options) from failed


def abort_replay(options: SinkOptions, messages: Sequence[object]) -> None:
    """Abort the known transactions that tasks left open; best effort."""
    for replay in _replays(messages):
        if replay.transaction is not None:
            # Otherwise the next owner of the transactional id or the timeout aborts it.
            with suppress(ClientError):
                end_transaction(options, replay.transaction, committed=False)


def _replays(messages: Iterable[object]) -> list[Replay]:
    task_messages = [message for message in messages if isinstance(message, TaskCommitMessage)]
    return [message.replay for message in task_messages if message.replay is not None]
