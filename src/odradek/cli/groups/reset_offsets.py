"""``odradek groups reset-offsets``: have a group go on reading somewhere else."""

from __future__ import annotations

import datetime
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
    plan_offset_changes,
    read_file,
    read_topics,
    shifted,
)
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.model.ids import TopicPartition

Offsets = dict["TopicPartition", int]


class Goal(NamedTuple):
    """What was asked for: one of these is given."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: Path | None


OfTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC[:0,2]", help="Topic, or some of its partitions. May be repeated."
    ),
]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="MOMENT",
        help="First record at or after a time: 2026-01-31T12:00:00 (UTC).",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option("--by-duration", metavar="DURATION", help="First record of the last period: P1DT2H30M."),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="Offsets of a file: lines topic,partition,offset, or the output of --json.",
    ),
]


@command
def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.")],
    topic: OfTopics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics that the group has offsets for.")
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
    """Move the committed offsets of a group without members. Shows the change; --execute applies it.

    Example: odradek groups reset-offsets readers --topic letters --to-earliest --execute
    """
    goal = Goal(to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, from_file)
    try:
        _check(goal, topic, all_topics, execute and dry_run)
        with Target(bootstrap, extra).only_admin() as admin:
            moves = _moves(admin, group, goal, topic)
            show_offset_changes(moves, json)
            if execute:
                admin.alter_group_offsets(group, {one.partition: one.after for one in moves})
    except InvalidResetTarget as wrong:
        usage_error(str(wrong))
    if not execute:
        print_error("nothing was changed; --execute applies it")


def _check(goal: Goal, topic: list[str] | None, all_topics: bool, contradicts: bool) -> None:
    if sum(one is not None and one is not False for one in goal) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in Goal._fields)
        usage_error(f"one of {names} must be given")
    if contradicts:
        usage_error("--execute and --dry-run contradict each other")
    if goal.from_file is None and bool(topic) == all_topics:
        usage_error("one of --topic and --all-topics must be given")
    # What cannot be read is told before any broker is asked.
    read_topics(topic or ())
    if goal.to_datetime is not None:
        parse_datetime_ms(goal.to_datetime)
    if goal.by_duration is not None:
        parse_duration_ms(goal.by_duration)
    if goal.from_file is not None:
        read_file(_content(goal.from_file))


def _moves(admin: Admin, group: str, goal: Goal, topics: list[str] | None) -> list[OffsetChange]:
    kept = admin.list_group_offsets(group)
    committed = {one: offset.offset for one, offset in kept.items() if offset is not None}
    if goal.from_file is not None:
        wanted = read_file(_content(goal.from_file))
        return plan_offset_changes(wanted, fetch_offset_bounds(admin, wanted), committed)
    partitions = list(committed) if topics is None else partitions_of(admin, read_topics(topics))
    if not partitions:
        raise CommandFailed(f"group {group} has no offsets: name topics with --topic")
    bounds = fetch_offset_bounds(admin, partitions)
    return plan_offset_changes(_wanted(admin, goal, partitions, bounds, committed), bounds, committed)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as failed:
        usage_error(f"--from-file {path}: {failed.strerror}")


def _wanted(
    admin: Admin,
    goal: Goal,
    partitions: Collection[TopicPartition],
    bounds: Mapping[TopicPartition, OffsetBounds],
    committed: Offsets,
) -> Offsets:
    if goal.to_earliest:
        return {one: bounds[one].first for one in partitions}
    if goal.to_latest:
        return {one: bounds[one].end for one in partitions}
    if goal.to_offset is not None:
        return dict.fromkeys(partitions, goal.to_offset)
    if goal.shift_by is not None:
        return shifted(committed, partitions, goal.shift_by)
    if goal.to_datetime is not None:
        return fetch_offsets_at_time(admin, partitions, bounds, parse_datetime_ms(goal.to_datetime))
    if goal.by_duration is not None:
        now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
        return fetch_offsets_at_time(admin, partitions, bounds, now_ms - parse_duration_ms(goal.by_duration))
    return {one: committed.get(one, bounds[one].end) for one in partitions}


def fetch_offsets_at_time(
    admin: Admin,
    partitions: Collection[TopicPartition],
    bounds: Mapping[TopicPartition, OffsetBounds],
    moment: int,
) -> Offsets:
    """The first record at or after a time; where there is none, the end."""
    found = admin.list_offsets(dict.fromkeys(partitions, max(moment, 0)))
    return {one: found[one].offset if found[one].offset >= 0 else bounds[one].end for one in partitions}


def fetch_offset_bounds(
    admin: Admin, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetBounds]:
    from odradek import OffsetSpec

    firsts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {one: OffsetBounds(firsts[one].offset, ends[one].offset) for one in partitions}


def fetch_end_offsets(admin: Admin, partitions: Collection[TopicPartition]) -> Offsets:
    """Where partitions end, as far as they still exist."""
    from odradek import OffsetSpec, PartialFailure

    if not partitions:
        return {}
    try:
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    except PartialFailure as failed:
        found = dict(failed.results)
    return {one: end.offset for one, end in found.items()}


def partitions_of(admin: Admin, topics: Mapping[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions meant; all of a topic where none are named."""
    from odradek import TopicPartition

    described = admin.describe_topics([topic for topic, numbers in topics.items() if numbers is None])
    return [
        TopicPartition(topic, number)
        for topic, numbers in topics.items()
        for number in ([one.partition for one in described[topic].partitions] if numbers is None else numbers)
    ]


def show_offset_changes(moves: list[OffsetChange], json: bool) -> None:
    """The table of what changes, or would."""
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "current_offset": None if one.before < 0 else one.before,
            "new_offset": one.after,
        }
        for one in moves
    ]
    show(rows, ["topic", "partition", "current_offset", "new_offset"], as_json=json)
