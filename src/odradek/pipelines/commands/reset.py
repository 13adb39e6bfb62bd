"""Have a pipeline begin again somewhere else.

Spark's checkpoint cannot be told other offsets, so it is moved aside, never deleted, and a new one begins
with a file that says where to start (``new_start.py``). The group's offsets move too, so that lag tells the
truth before the next run. A new checkpoint is a new query: rows that the sink has already, it gets again.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.cli.groups.reset_offsets import fetch_offset_bounds, fetch_offsets_at_time
from odradek.cli.groups.reset_plan import (
    InvalidResetTarget,
    OffsetBounds,
    OffsetChange,
    parse_datetime_ms,
    plan_offset_changes,
)
from odradek.model.ids import TopicPartition
from odradek.pipelines.checkpoint.checkpoint import CheckpointState, CheckpointUnreadable
from odradek.pipelines.checkpoint.start_offsets import begin_anew
from odradek.pipelines.clusters import source_admin, source_partitions
from odradek.pipelines.monitoring.progress import Offsets, read_offsets

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.spec.reader import Spec

EARLIEST: Final = -2
LATEST: Final = -1


class Goal(NamedTuple):
    """Where to: ``earliest``, ``latest``, a time, or offsets; those it does not name stay where they are."""

    word: str | None = None
    at_ms: int | None = None
    offsets: Offsets | None = None


def read_goal(text: str) -> Goal:
    """``earliest``, ``latest``, 2026-01-31T12:00:00, or {"topic": {"0": 12}}; raises InvalidResetTarget."""
    if text in ("earliest", "latest"):
        return Goal(word=text)
    if text.lstrip().startswith("{"):
        try:
            offsets = read_offsets(json.loads(text))
        except ValueError as wrong:
            raise InvalidResetTarget(f"the offsets are no JSON: {wrong}") from None
        if offsets is None or any(one < EARLIEST for of in offsets.values() for one in of.values()):
            raise InvalidResetTarget(
                'write offsets as {"topic": {"0": 12}}; -2 is the earliest, -1 the latest'
            )
        return Goal(offsets=offsets)
    try:
        return Goal(at_ms=parse_datetime_ms(text))
    except InvalidResetTarget:
        raise InvalidResetTarget(
            f"{text!r} is no place to begin: give earliest, latest, a time (2026-01-31T12:00:00, UTC), or "
            'offsets ({"topic": {"0": 12}})'
        ) from None


def wanted_offsets(
    goal: Goal,
    bounds: Mapping[TopicPartition, OffsetBounds],
    current: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where each partition shall begin. ``at_time`` has the offsets of the goal's time, if it is one."""
    if goal.word is not None:
        return {one: ends.first if goal.word == "earliest" else ends.end for one, ends in bounds.items()}
    if goal.offsets is None:
        return {one: at_time[one] for one in bounds}
    named = {
        TopicPartition(topic, number): at for topic, of in goal.offsets.items() for number, at in of.items()
    }
    strangers = sorted(named.keys() - bounds.keys())
    if strangers:
        raise InvalidResetTarget(f"the pipeline does not read {', '.join(map(str, strangers))}")
    special = {one: {EARLIEST: ends.first, LATEST: ends.end} for one, ends in bounds.items()}
    return {
        one: special[one].get(named[one], named[one]) if one in named else current.get(one, bounds[one].first)
        for one in bounds
    }


def done_offsets(
    state: CheckpointState, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """What is done: by the checkpoint, which knows first; by the group where the checkpoint tells nothing."""
    last = state.last_committed
    known = read_offsets(last.ends[0]) if last is not None and last.ends else None
    if known is None:
        return dict(committed)
    return {TopicPartition(topic, number): at for topic, of in known.items() for number, at in of.items()}


def start_text(moves: Collection[OffsetChange]) -> str:
    """``start.json``: the offsets to begin at, sorted."""
    offsets: dict[str, dict[str, int]] = {}
    for move in sorted(moves):
        offsets.setdefault(move.partition.topic, {})[str(move.partition.partition)] = move.after
    return json.dumps(offsets)


def rows_again(moves: Collection[OffsetChange]) -> int:
    """Offsets that will be read a second time."""
    return sum(move.before - move.after for move in moves if move.before > move.after)


def rows_skipped(moves: Collection[OffsetChange]) -> int:
    """Offsets that will not be read at all."""
    return sum(move.after - move.before for move in moves if 0 <= move.before < move.after)


def consequence(spec: Spec, moves: Collection[OffsetChange]) -> str | None:
    """What the user should know before doing it."""
    words = []
    again, skipped = rows_again(moves), rows_skipped(moves)
    if again and spec.sink.type in ("delta", "parquet", "topic"):
        target = spec.sink.topic if spec.sink.type == "topic" else spec.sink.path
        keys = "rows with the same keys are replaced" if spec.sink.keys else "they will be there twice"
        words.append(f"{target} will get up to {again:,} rows again: {keys}, exactly once or not")
    if skipped:
        words.append(f"up to {skipped:,} rows will never be read")
    return "; ".join(words) or None


def plan(spec: Spec, goal: Goal, checkpoint: Checkpoint) -> list[OffsetChange]:
    """What would change, asked of brokers and checkpoint."""
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        bounds = fetch_offset_bounds(admin, partitions)
        current = done_offsets(_readable(checkpoint), committed_offsets(admin, spec.observe.group))
        at_time = {} if goal.at_ms is None else fetch_offsets_at_time(admin, partitions, bounds, goal.at_ms)
    return plan_offset_changes(wanted_offsets(goal, bounds, current, at_time), bounds, current)


def _readable(checkpoint: Checkpoint) -> CheckpointState:
    """How far the query has come; nowhere if that is damaged, which is a reason to begin anew."""
    try:
        return checkpoint.state()
    except CheckpointUnreadable:
        return CheckpointState()


def committed_offsets(admin: Admin, group: str) -> dict[TopicPartition, int]:
    kept = admin.list_group_offsets(group)
    return {one: offset.offset for one, offset in kept.items() if offset is not None}


def execute(spec: Spec, moves: Collection[OffsetChange], checkpoint: Checkpoint, now_ms: int) -> str | None:
    """Do it, while nobody runs the pipeline; gives the place where the old checkpoint is now.

    The group moves first: if this is cut short after that, the pipeline goes on as if nothing had been asked.
    """
    with source_admin(spec) as admin:
        admin.alter_group_offsets(spec.observe.group, {move.partition: move.after for move in moves})
    stamp = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return begin_anew(checkpoint, start_text(moves), f"before-{stamp}")
