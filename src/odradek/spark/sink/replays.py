"""Batches that come again after other attempts: recognised by tasks, checked and ended by the driver.

The first batch of a run may have been begun by an earlier run; those after it are new. So each process looks
at all markers of a query once a run, before the first row of that batch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.spark.options.sink_options import SinkOptions
from odradek.spark.sink.errors import explained
from odradek.spark.sink.marker_store import end_transaction, read_markers
from odradek.spark.sink.markers import (
    MarkerKey,
    Markers,
    ReplayMismatch,
    check_position,
    check_tasks,
    of_other_attempts,
)
from odradek.spark.sink.row_sender import Replay, TaskCommitMessage

_QUERIES_MAX: Final = 64


class Unit(NamedTuple):
    """A partition of a batch of a query: what is written once."""

    key: MarkerKey
    batch_id: int
    attempt: str = ""
    """The attempt at the batch: all its tasks have the same."""
    run: str | None = None
    """The run of the query; None if Spark does not tell."""


class _FirstBatch(NamedTuple):
    run: str | None
    batch_id: int
    attempt: str
    markers: Markers


@dataclass(slots=True)
class FirstBatchMarkers:
    """The markers that queries had when their first batch in this process began."""

    read: Callable[[SinkOptions, str], Markers] = read_markers
    _first: dict[tuple[str, str, str], _FirstBatch] = field(default_factory=dict)

    def of(self, options: SinkOptions, unit: Unit) -> Markers | None:
        """The markers of other attempts; None if this batch is no query's first one and must be new.

        Raises StaleCheckpoint if one of them is of a later batch.
        """
        place = (options.admin_settings["bootstrap.servers"], options.marker_topic, unit.key.query)
        first = self._first.get(place)
        if first is not None and unit.run is not None and first.run == unit.run:
            if first.batch_id < unit.batch_id:
                return None
            if first.attempt == unit.attempt:
                return first.markers
        markers = of_other_attempts(self.read(options, unit.key.query), unit.attempt)
        check_position(markers, unit.key.query, unit.batch_id)
        if len(self._first) >= _QUERIES_MAX:
            self._first.clear()
        self._first[place] = _FirstBatch(unit.run, unit.batch_id, unit.attempt, markers)
        return markers


earlier_markers: Final = FirstBatchMarkers()


def commit_replay(options: SinkOptions, messages: list[Any], batch_id: int) -> None:
    """Commit the transactions that tasks have left open, if the batch is cut as it was before.

    Each transaction holds the marker of its rows. If the driver dies between two of them, the batch comes
    again: what is committed is skipped, and what is open is aborted by the task that takes the id over.
    """
    replays = _replays(messages)
    if not replays:
        return
    try:
        if problem := next((one.problem for one in replays if one.problem), None):
            raise ReplayMismatch(problem)
        query, attempt = replays[0].query, replays[0].attempt
        markers = of_other_attempts(read_markers(options, query), attempt)
        check_tasks(markers, query, batch_id, len(messages))
        for replay in replays:
            if replay.transaction is not None:
                end_transaction(options, replay.transaction, committed=True)
    except ReplayMismatch:
        abort_replay(options, messages)
        raise
    except ClientError as failed:
        raise explained(failed, options) from failed


def abort_replay(options: SinkOptions, messages: list[Any]) -> None:
    """Abort the transactions that tasks have left open, as far as they are known and brokers are there."""
    for replay in _replays(messages):
        if replay.transaction is not None:
            # What cannot be aborted now, the next owner of the id or the timeout ends.
            with suppress(ClientError):
                end_transaction(options, replay.transaction, committed=False)


def _replays(messages: Iterable[Any]) -> list[Replay]:
    sent = [message for message in messages if isinstance(message, TaskCommitMessage)]
    return [message.replay for message in sent if message.replay is not None]
