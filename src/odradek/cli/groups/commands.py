"""``odradek groups``: list, describe and delete groups, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.errors import CommandFailed, command, print_error, usage_error
from odradek.cli.groups import reset_offsets
from odradek.cli.groups.reset_plan import InvalidResetTarget, parse_topics
from odradek.cli.output import Row, show, show_done
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.admin.groups import GroupDescription
    from odradek.client.blocking.admin import Admin

app = typer.Typer(
    help="List, describe and delete groups; reset and delete their offsets.", no_args_is_help=True
)
app.command("reset-offsets")(reset_offsets.reset_offsets)

Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="Consumer groups.")]
OFFSETS = [
    "group",
    "topic",
    "partition",
    "current_offset",
    "end_offset",
    "lag",
    "member",
    "host",
    "client_id",
]
MEMBERS = ["group", "member", "instance", "client_id", "host", "partitions"]
STATES = ["group", "state", "assignor", "coordinator", "members"]


@app.command("list")
@command
def list_(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state. May be repeated.")
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List consumer groups."""
    with Target(bootstrap, extra).only_admin() as admin:
        listed = admin.list_groups(states=state or ())
    rows = [
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.type,
            "protocol_type": group.protocol_type,
        }
        for group in sorted(listed.values())
    ]
    show(rows, ["group", "state", "type"], as_json=json, empty="no groups")


@app.command()
@command
def describe(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", help="Consumer groups (default: all).")
    ] = None,
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets and lag (default).")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show states and coordinators.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show the offsets and lag of groups, their members, or their states."""
    if members + offsets + state > 1:
        usage_error("only one of --members, --offsets and --state is allowed")
    with Target(bootstrap, extra).only_admin() as admin:
        described = _describe(admin, groups or sorted(admin.list_groups()))
        if members:
            show(_member_rows(described.values()), MEMBERS, as_json=json, empty="no active members")
        elif state:
            show(_state_rows(described.values()), STATES, as_json=json)
        else:
            show(_offset_rows(admin, described), OFFSETS, as_json=json, empty="no committed offsets")
            for group, description in described.items():
                if not description.members and not json:
                    print_error(f"group {group} has no active members")


def _describe(admin: Admin, groups: list[str]) -> dict[str, GroupDescription]:
    """Describe groups; fail if one does not exist, which brokers describe as Dead.

    A group of the new consumer protocol is described as Dead too, but is listed: its offsets can be shown.
    """
    described = admin.describe_groups(groups)
    dead = [group for group, description in described.items() if description.state == "Dead"]
    listed = admin.list_groups() if dead else {}
    for group in dead:
        if group not in listed:
            raise CommandFailed(f"group {group} does not exist; list groups with `odradek groups list`")
        described[group] = described[group]._replace(state=listed[group].state)
    return described


def _member_rows(described: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "partitions": [str(partition) for partition in member.partitions],
        }
        for group in described
        for member in group.members
    ]


def _state_rows(described: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "state": group.state,
            "assignor": group.assignor or None,
            "coordinator": group.coordinator,
            "members": len(group.members),
        }
        for group in described
    ]


def _offset_rows(admin: Admin, described: dict[str, GroupDescription]) -> list[Row]:
    committed = admin.list_offsets_of_groups(dict.fromkeys(described))
    owners = {
        (group.group_id, partition): member
        for group in described.values()
        for member in group.members
        for partition in member.partitions
    }
    ends = reset_offsets.fetch_end_offsets(
        admin,
        {partition for offsets in committed.values() for partition in offsets}
        | {partition for _, partition in owners},
    )
    rows: list[Row] = []
    for group in described:
        owned = {partition for owner, partition in owners if owner == group}
        for partition in sorted(committed[group].keys() | owned):
            offset = committed[group].get(partition)
            end, member = ends.get(partition), owners.get((group, partition))
            current = None if offset is None else offset.offset
            rows.append(
                {
                    "group": group,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "current_offset": current,
                    "end_offset": end,
                    "lag": None if current is None or end is None else max(0, end - current),
                    "member": None if member is None else member.member_id,
                    "host": None if member is None else member.client_host,
                    "client_id": None if member is None else member.client_id,
                }
            )
    return rows


@app.command()
@command
def delete(groups: Names, json: Json = False, bootstrap: Bootstrap = None, extra: Extra = None) -> None:
    """Delete groups without members, and their offsets."""
    with Target(bootstrap, extra).only_admin() as admin:
        admin.delete_groups(groups)
    show_done("deleted", [{"group": group} for group in groups], as_json=json)


@app.command("delete-offsets")
@command
def delete_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.")],
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:0,2]", help="Topic, or some of its partitions. May be repeated."
        ),
    ],
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Delete the offsets of a group in topics that it is not subscribed to."""
    try:
        selected = parse_topics(topic)
    except InvalidResetTarget as error:
        usage_error(f"--topic: {error}")
    with Target(bootstrap, extra).only_admin() as admin:
        partitions = reset_offsets.partitions_of(admin, selected)
        admin.delete_group_offsets(group, partitions)
    rows = [
        {"group": group, "topic": partition.topic, "partition": partition.partition}
        for partition in partitions
    ]
    show_done("deleted", rows, as_json=json)
