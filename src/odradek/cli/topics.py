"""``odradek topics``: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.cluster import Bootstrap, Extra, Json, Target, pairs
from odradek.cli.ending import command, wrong_use
from odradek.cli.tables import show

if TYPE_CHECKING:
    from odradek.client.admin.topics import TopicDescription

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic. May be repeated."),
]


@app.command()
@command
def create(
    names: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many; -1 leaves it to the brokers.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="Copies of each; -1 leaves it to the brokers.")
    ] = -1,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Topics that exist are no failure.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Create topics.

    Example: odradek topics create letters --partitions 3 --config retention.ms=86400000
    """
    from odradek import ErrorCode, NewTopic, SomeFailed

    settings = pairs(config or (), "--config")
    wanted = [NewTopic(name, partitions, replication_factor, settings) for name in names]
    with Target(bootstrap, extra).only_admin() as admin:
        try:
            made = admin.create_topics(wanted, validate_only=dry_run)
        except SomeFailed as failed:
            there = [one for one in failed.errors.values() if one.code is ErrorCode.TOPIC_ALREADY_EXISTS]
            if not if_not_exists or len(there) < len(failed.errors):
                raise
            made = dict(failed.results)
    rows = [
        {
            "topic": one.name,
            "partitions": one.partitions,
            "replication_factor": one.replication_factor,
            "topic_id": one.topic_id,
        }
        for one in made.values()
    ]
    show(rows, ["topic", "partitions", "replication_factor", "topic_id"], as_json=json)


@app.command("list")
@command
def list_(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also those of the brokers themselves.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List the names of all topics, one per line."""
    with Target(bootstrap, extra).only_admin() as admin:
        found = admin.list_topics(include_internal=internal)
    rows = [
        {"topic": one.name, "topic_id": one.topic_id, "internal": one.is_internal}
        for one in sorted(found.values())
    ]
    if json:
        show(rows, [], as_json=True)
        return
    for row in rows:
        print(row["topic"])


@app.command()
@command
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]")] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Without names: also those of the brokers themselves.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show partitions, leaders and replicas of topics, or of all there are."""
    with Target(bootstrap, extra).only_admin() as admin:
        wanted = names or sorted(admin.list_topics(include_internal=internal))
        found = admin.describe_topics(wanted)
    if json:
        show([_described(found[name]) for name in wanted], [], as_json=True)
        return
    rows = [row for name in wanted for row in _described(found[name])["partitions"]]
    show(rows, ["topic", "partition", "leader", "replicas", "in_sync", "offline"], as_json=False)


def _described(topic: TopicDescription) -> dict[str, Any]:
    partitions = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "leader": one.leader,
            "leader_epoch": one.leader_epoch,
            "replicas": list(one.replicas),
            "in_sync": list(one.in_sync),
            "offline": list(one.offline),
        }
        for one in topic.partitions
    ]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "partitions": partitions,
    }


@app.command()
@command
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="The new total; it can only grow.")
    ] = None,
    config: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Put a setting back to its default. May be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Give a topic more partitions, or change its settings."""
    from odradek import ConfigResource

    changes: dict[str, object] = {**pairs(config or (), "--config"), **dict.fromkeys(unset or ())}
    if partitions is None and not changes:
        wrong_use("nothing to alter: give --partitions, --config or --unset")
    with Target(bootstrap, extra).only_admin() as admin:
        if partitions is not None:
            admin.create_partitions({name: partitions}, validate_only=dry_run)
        if changes:
            admin.alter_configs({ConfigResource.topic(name): changes}, validate_only=dry_run)


@app.command()
@command
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Unknown topics are no failure.")] = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Delete topics with all their records."""
    from odradek import SomeFailed, UnknownTopic

    with Target(bootstrap, extra).only_admin() as admin:
        try:
            admin.delete_topics(names)
        except SomeFailed as failed:
            if not if_exists or not all(isinstance(one, UnknownTopic) for one in failed.errors.values()):
                raise
