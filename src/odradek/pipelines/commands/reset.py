"""``odradek pipeline reset``: start a pipeline at other offsets.

The offsets of Spark's checkpoint cannot be changed, so it is moved aside, never deleted, and a new one gets a
file with its start offsets (``start_offsets.py``). The group's offsets are changed too, so that the lag is
right before the next run. A new checkpoint is a new query: it writes rows again that the sink already has.
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
from odradek.pipelines.checkpoint.start_offsets import replace_checkpoint
from odradek.pipelines.clusters import source_admin, source_partitions
from odradek.pipelines.monitoring.progress import Offsets, read_offsets

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.spec.reader import Spec

EARLIEST: Final = -2
LATEST: Final = -1


class ResetTarget(NamedTuple):
    """``earliest`` or ``latest``, a timestamp, or offsets; partitions without offsets do not change."""

    bound: str | None = None
    timestamp_ms: int | None = None
    offsets: Offsets | None = None


def parse_target(text: str) -> ResetTarget:
    """Parse ``earliest``, ``latest``, a time, or {"topic": {"0": 12}}; raise InvalidResetTarget."""
    if text in ("earliest", "latest"):
        return ResetTarget(bound=text)
    if text.lstrip().startswith("{"):
        try:
            offsets = read_offsets(json.loads(text))
        except ValueError as error:
            raise InvalidResetTarget(f"offsets must be JSON: {error}") from None
        if offsets is None or any(
            offset < EARLIEST for partitions in offsets.values() for offset in partitions.values()
        ):
            raise InvalidResetTarget(
                'offsets must be like {"topic": {"0": 12}}, with -2 for earliest and -1 for latest'
            )
        return ResetTarget(offsets=offsets)
    try:
        return ResetTarget(timestamp_ms=parse_datetime_ms(text))
    except InvalidResetTarget:
        raise InvalidResetTarget(
            "--to must be earliest, latest, a time (2026-01-31T12:00:00, UTC), or offsets "
            f'({{"topic": {{"0": 12}}}}), got {text!r}'
        ) from None


def target_offsets(
    target: ResetTarget,
    bounds: Mapping[TopicPartition, OffsetBounds],
    current: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition. ``at_time`` has the offsets of a timestamp target."""
    if target.bound is not None:
        is_earliest = target.bound == "earliest"
        return {partition: log.first if is_earliest else log.end for partition, log in bounds.items()}
    if target.offsets is None:
        return {partition: at_time[partition] for partition in bounds}
    requested = _flat(target.offsets)
    unknown = sorted(requested.keys() - bounds.keys())
    if unknown:
        raise InvalidResetTarget(f"the pipeline does not read {', '.join(map(str, unknown))}")
    offsets = {}
    for partition, log in bounds.items():
        offset = requested.get(partition, current.get(partition, log.first))
        is_requested = partition in requested
        offsets[partition] = (
            {EARLIEST: log.first, LATEST: log.end}.get(offset, offset) if is_requested else offset
        )
    return offsets


def _flat(offsets: Offsets) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): offset
        for topic, partitions in offsets.items()
        for number, offset in partitions.items()
    }


def processed_offsets(
    state: CheckpointState, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the processed offsets: of the checkpoint, or of the group if the checkpoint has none."""
    last = state.last_committed
    known = read_offsets(last.ends[0]) if last is not None and last.ends else None
    if known is None:
        return dict(committed)
    return _flat(known)


def start_offsets_json(changes: Collection[OffsetChange]) -> str:
    """Return the content of ``start.json``: the start offsets, sorted."""
    offsets: dict[str, dict[str, int]] = {}
    for change in sorted(changes):
        offsets.setdefault(change.partition.topic, {})[str(change.partition.partition)] = change.after
    return json.dumps(offsets)


def rows_again(changes: Collection[OffsetChange]) -> int:
    """Return the number of offsets that will be read again."""
    return sum(change.before - change.after for change in changes if change.before > change.after)


def rows_skipped(changes: Collection[OffsetChange]) -> int:
    """Return the number of offsets that will not be read."""
    return sum(change.after - change.before for change in changes if 0 <= change.before < change.after)


def reset_warning(spec: Spec, changes: Collection[OffsetChange]) -> str | None:
    """Return a warning about rows that are written again or skipped."""
    warnings = []
    again, skipped = rows_again(changes), rows_skipped(changes)
    if again and spec.sink.type in ("delta", "parquet", "topic"):
        target = spec.sink.topic if spec.sink.type == "topic" else spec.sink.path
        effect = "rows with the same keys are replaced" if spec.sink.keys else "they will be duplicates"
        warnings.append(f"up to {again:,} rows will be written to {target} again: {effect}")
    if skipped:
        warnings.append(f"up to {skipped:,} rows will not be read")
    return "; ".join(warnings) or None


def plan(spec: Spec, target: ResetTarget, checkpoint: Checkpoint) -> list[OffsetChange]:
    """Return the offset changes of a reset."""
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        bounds = fetch_offset_bounds(admin, partitions)
        current = processed_offsets(_read_state(checkpoint), committed_offsets(admin, spec.observe.group))
        at_time = (
            {}
            if target.timestamp_ms is None
            else fetch_offsets_at_time(admin, partitions, bounds, target.timestamp_ms)
        )
    return plan_offset_changes(target_offsets(target, bounds, current, at_time), bounds, current)


def _read_state(checkpoint: Checkpoint) -> CheckpointState:
    """Return the progress of the query; none for a damaged checkpoint, which is a reason for a reset."""
    try:
        return checkpoint.state()
    except CheckpointUnreadable:
        return CheckpointState()


def committed_offsets(admin: Admin, group: str) -> dict[TopicPartition, int]:
    offsets = admin.list_group_offsets(group)
    return {partition: offset.offset for partition, offset in offsets.items() if offset is not None}


def execute(spec: Spec, changes: Collection[OffsetChange], checkpoint: Checkpoint, now_ms: int) -> str | None:
    """Apply a reset, with the lease held; return the new location of the old checkpoint.

    The group's offsets are changed first: after an interruption the pipeline continues unchanged.
    """
    with source_admin(spec) as admin:
        admin.alter_group_offsets(spec.observe.group, {change.partition: change.after for change in changes})
    stamp = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return replace_checkpoint(checkpoint, start_offsets_json(changes), f"before-{stamp}")
