"""``odradek groups reset-offsets``: change the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from odradek.cli.errors import CommandFailed, command, print_error, usage_error
from odradek.cli.groups.reset_plan import (
    InvalidResetTarget,
    OffsetBounds,
    OffsetChange,
    parse_datetime_ms,
    parse_duration_ms,
    parse_offsets_file,
    parse_topics,
    plan_offset_changes,
    shift_offsets,
)
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.model.ids import TopicPartition

Offsets = dict["TopicPartition", int]


class ResetTarget(NamedTuple):
    """Reset options, of which exactly one is set."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: Path | None


TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC[:0,2]", help="Topic, or some of its partitions. May be repeated."
    ),
]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="DATETIME",
        help="Offset of the first record at or after a time: 2026-01-31T12:00:00 (UTC).",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="DURATION",
        help="Offset of the first record since this long ago: P1DT2H30M.",
    ),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="Offsets in a file: lines topic,partition,offset, or the output of --json.",
    ),
]


@command
def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.")],
    topic: TopicsOption = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics for which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Earliest offset.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Latest offset (after the newest record).")
    ] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="Committed offset (no change).")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="This offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="Committed offset plus N; N may be negative.")
    ] = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    from_file: FromFile = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Apply the change (default: show it only).")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change (default).")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Reset the committed offsets of a group without members. Shows the change; --execute applies it.

    Example: odradek groups reset-offsets readers --topic letters --to-earliest --execute
    """
    target = ResetTarget(
        to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, from_file
    )
    try:
        _check(target, topic, all_topics, execute and dry_run)
        with Target(bootstrap, extra).only_admin() as admin:
            changes = _plan(admin, group, target, topic)
            show_offset_changes(changes, json)
            if execute:
                admin.alter_group_offsets(group, {change.partition: change.after for change in changes})
    except InvalidResetTarget as error:
        usage_error(str(error))
    if not execute:
        print_error("no changes made; apply them with --execute")


def _check(target: ResetTarget, topic: list[str] | None, all_topics: bool, contradicts: bool) -> None:
    if sum(value is not None and value is not False for value in target) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in ResetTarget._fields)
        usage_error(f"exactly one of {names} is required")
    if contradicts:
        usage_error("only one of --execute and --dry-run is allowed")
    if target.from_file is None and bool(topic) == all_topics:
        usage_error("exactly one of --topic and --all-topics is required")
    # Invalid values are reported before any request.
    parse_topics(topic or ())
    if target.to_datetime is not None:
        parse_datetime_ms(target.to_datetime)
    if target.by_duration is not None:
        parse_duration_ms(target.by_duration)
    if target.from_file is not None:
        parse_offsets_file(_read_file(target.from_file))


def _plan(admin: Admin, group: str, target: ResetTarget, topics: list[str] | None) -> list[OffsetChange]:
    offsets = admin.list_group_offsets(group)
    committed = {partition: offset.offset for partition, offset in offsets.items() if offset is not None}
    if target.from_file is not None:
        targets = parse_offsets_file(_read_file(target.from_file))
        return plan_offset_changes(targets, fetch_offset_bounds(admin, targets), committed)
    partitions = list(committed) if topics is None else partitions_of(admin, parse_topics(topics))
    if not partitions:
        raise CommandFailed(f"group {group} has no offsets: select topics with --topic")
    bounds = fetch_offset_bounds(admin, partitions)
    targets = _target_offsets(admin, target, partitions, bounds, committed)
    return plan_offset_changes(targets, bounds, committed)


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        usage_error(f"--from-file {path}: {error.strerror}")


def _target_offsets(
    admin: Admin,
    target: ResetTarget,
    partitions: Collection[TopicPartition],
    bounds: Mapping[TopicPartition, OffsetBounds],
    committed: Offsets,
) -> Offsets:
    if target.to_earliest:
        return {partition: bounds[partition].first for partition in partitions}
    if target.to_latest:
        return {partition: bounds[partition].end for partition in partitions}
    if target.to_offset is not None:
        return dict.fromkeys(partitions, target.to_offset)
    if target.shift_by is not None:
        return shift_offsets(committed, partitions, target.shift_by)
    if target.to_datetime is not None:
        return fetch_offsets_at_time(admin, partitions, bounds, parse_datetime_ms(target.to_datetime))
    if target.by_duration is not None:
        from odradek.client.environment import system_environment

        start_ms = system_environment().clock.wall_ms() - parse_duration_ms(target.by_duration)
        return fetch_offsets_at_time(admin, partitions, bounds, start_ms)
    return {partition: committed.get(partition, bounds[partition].end) for partition in partitions}


def fetch_offsets_at_time(
    admin: Admin,
    partitions: Collection[TopicPartition],
    bounds: Mapping[TopicPartition, OffsetBounds],
    timestamp_ms: int,
) -> Offsets:
    """Return the first offset at or after a time; the end offset where there is none."""
    offsets = admin.list_offsets(dict.fromkeys(partitions, max(timestamp_ms, 0)))
    return {
        partition: offsets[partition].offset if offsets[partition].offset >= 0 else bounds[partition].end
        for partition in partitions
    }


def fetch_offset_bounds(
    admin: Admin, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetBounds]:
    from odradek import OffsetSpec

    firsts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {
        partition: OffsetBounds(firsts[partition].offset, ends[partition].offset) for partition in partitions
    }


def fetch_end_offsets(admin: Admin, partitions: Collection[TopicPartition]) -> Offsets:
    """Return the end offsets of partitions that exist."""
    from odradek import OffsetSpec, PartialFailure

    if not partitions:
        return {}
    try:
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    except PartialFailure as error:
        ends = dict(error.results)
    return {partition: end.offset for partition, end in ends.items()}


def partitions_of(admin: Admin, topics: Mapping[str, list[int] | None]) -> list[TopicPartition]:
    """Return the selected partitions; all of a topic where none are given."""
    from odradek import TopicPartition

    described = admin.describe_topics([topic for topic, numbers in topics.items() if numbers is None])
    return [
        TopicPartition(topic, number)
        for topic, numbers in topics.items()
        for number in (
            [info.partition for info in described[topic].partitions] if numbers is None else numbers
        )
    ]


def show_offset_changes(changes: list[OffsetChange], json: bool) -> None:
    """Print the changes as a table or JSON."""
    rows = [
        {
            "topic": change.partition.topic,
            "partition": change.partition.partition,
            "current_offset": None if change.before < 0 else change.before,
            "new_offset": change.after,
        }
        for change in changes
    ]
    show(rows, ["topic", "partition", "current_offset", "new_offset"], as_json=json)
