"""``odradek groups``: list, describe and delete groups, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.errors import CommandFailed, command, print_error, usage_error
from odradek.cli.groups import reset_offsets
from odradek.cli.groups.reset_plan import InvalidResetTarget, read_topics
from odradek.cli.output import Row, show, show_done
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.admin.groups import GroupDescription
    from odradek.client.blocking.admin import Admin

app = typer.Typer(
    help="List, describe and delete groups; move and delete their offsets.", no_args_is_help=True
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
        found = admin.list_groups(states=state or ())
    rows = [
        {"group": one.group_id, "state": one.state, "type": one.type, "protocol_type": one.protocol_type}
        for one in sorted(found.values())
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
    """Show offsets and lag of groups, their members, or their states."""
    if members + offsets + state > 1:
        usage_error("give one of --members, --offsets and --state")
    with Target(bootstrap, extra).only_admin() as admin:
        wanted = groups or sorted(admin.list_groups())
        described = _described(admin, wanted)
        if members:
            show(_member_rows(described.values()), MEMBERS, as_json=json, empty="no active members")
        elif state:
            show(_state_rows(described.values()), STATES, as_json=json)
        else:
            show(_offset_rows(admin, described), OFFSETS, as_json=json, empty="no committed offsets")
            for group, one in described.items():
                if not one.members and not json:
                    print_error(f"group {group} has no active members")


def _described(admin: Admin, wanted: list[str]) -> dict[str, GroupDescription]:
    """Groups that exist. One that does not is described as Dead: nobody wants an empty table of it.

    So is one of the newer consumer protocol, which is listed all the same: its offsets can be shown.
    """
    described = admin.describe_groups(wanted)
    dead = [group for group, one in described.items() if one.state == "Dead"]
    listed = admin.list_groups() if dead else {}
    for group in dead:
        if group not in listed:
            raise CommandFailed(f"group {group} does not exist; `odradek groups list` shows what there is")
        described[group] = described[group]._replace(state=listed[group].state)
    return described


def _member_rows(described: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "member": one.member_id,
            "instance": one.group_instance_id,
            "client_id": one.client_id,
            "host": one.client_host,
            "partitions": [str(partition) for partition in one.partitions],
        }
        for group in described
        for one in group.members
    ]


def _state_rows(described: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": one.group_id,
            "state": one.state,
            "assignor": one.assignor or None,
            "coordinator": one.coordinator,
            "members": len(one.members),
        }
        for one in described
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
        admin, {one for of_group in committed.values() for one in of_group} | {one for _, one in owners}
    )
    rows: list[Row] = []
    for group in described:
        owned = {one for owner, one in owners if owner == group}
        for one in sorted(committed[group].keys() | owned):
            kept = committed[group].get(one)
            end, member = ends.get(one), owners.get((group, one))
            current = None if kept is None else kept.offset
            rows.append(
                {
                    "group": group,
                    "topic": one.topic,
                    "partition": one.partition,
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
    """Delete the offsets of a group in topics that it does not read now."""
    try:
        wanted = read_topics(topic)
    except InvalidResetTarget as wrong:
        usage_error(f"--topic {wrong}")
    with Target(bootstrap, extra).only_admin() as admin:
        partitions = reset_offsets.partitions_of(admin, wanted)
        admin.delete_group_offsets(group, partitions)
    rows = [{"group": group, "topic": one.topic, "partition": one.partition} for one in partitions]
    show_done("deleted", rows, as_json=json)
