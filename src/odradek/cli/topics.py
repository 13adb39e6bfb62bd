"""``odradek topics``: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import as_size, show, show_done
from odradek.cli.partition_details import PartitionDetails, partition_details
from odradek.cli.target import Bootstrap, Extra, Json, Target, parse_pairs

if TYPE_CHECKING:
    from odradek.client.admin.topics import TopicDescription
    from odradek.model.ids import TopicPartition

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

_INTERNAL_PREFIX: Final = "__"
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topics.")]
DESCRIBED = [
    "topic",
    "partition",
    "leader",
    "replicas",
    "in_sync",
    "offline",
    "start_offset",
    "end_offset",
    "size",
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="Set a topic setting. May be repeated."),
]


@app.command()
@command
def create(
    names: Names,
    partitions: Annotated[
        int,
        typer.Option("--partitions", "-p", help="Number of partitions (-1: broker default)."),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option("--replication-factor", "-r", help="Number of replicas (-1: broker default)."),
    ] = -1,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate the change.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Create topics.

    Example: odradek topics create letters --partitions 3 --config retention.ms=86400000
    """
    from odradek import ErrorCode, NewTopic, PartialFailure

    settings = parse_pairs(config or (), "--config")
    new_topics = [NewTopic(name, partitions, replication_factor, settings) for name in names]
    with Target(bootstrap, extra).only_admin() as admin:
        try:
            created = admin.create_topics(new_topics, validate_only=dry_run)
        except PartialFailure as failure:
            errors = failure.errors.values()
            if not if_not_exists or any(error.code is not ErrorCode.TOPIC_ALREADY_EXISTS for error in errors):
                raise
            created = dict(failure.results)
    rows = [
        {
            "topic": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_id": topic.topic_id,
        }
        for topic in created.values()
    ]
    show(rows, ["topic", "partitions", "replication_factor", "topic_id"], as_json=json)


@app.command("list")
@command
def list_(
    internal: Annotated[
        bool, typer.Option("--internal", help="Include internal topics (names that start with __).")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List the names of all topics, one per line."""
    with Target(bootstrap, extra).only_admin() as admin:
        listed = admin.list_topics(include_internal=internal)
    rows = [
        {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "internal": topic.is_internal or _is_internal(topic.name),
        }
        for topic in sorted(listed.values())
        if internal or not _is_internal(topic.name)
    ]
    if json:
        show(rows, [], as_json=True)
        return
    for row in rows:
        print(row["topic"])


@app.command()
@command
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics (default: all).")] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Without names: include internal topics.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show the partitions of topics: leader, replicas, ISR, offsets, size at the leader."""
    with Target(bootstrap, extra).only_admin() as admin:
        listed = [] if names else sorted(admin.list_topics(include_internal=internal))
        selected = names or [name for name in listed if internal or not _is_internal(name)]
        topics = admin.describe_topics(selected)
        partitions = (partition for topic in topics.values() for partition in topic.partitions)
        details = partition_details(admin, partitions)
    described = [_describe(topics[name], details) for name in selected]
    if json:
        show(described, [], as_json=True)
        return
    rows = [{**row, "size": as_size(row["size_bytes"])} for topic in described for row in topic["partitions"]]
    show(rows, DESCRIBED, as_json=False, empty="no topics")


def _is_internal(name: str) -> bool:
    """Return whether a topic is internal to brokers or to Spark pipelines."""
    return name.startswith(_INTERNAL_PREFIX)


def _describe(topic: TopicDescription, details: Mapping[TopicPartition, PartitionDetails]) -> dict[str, Any]:
    from odradek import TopicPartition

    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.in_sync),
            "offline": list(partition.offline),
            **details[TopicPartition(partition.topic, partition.partition)]._asdict(),
        }
        for partition in topic.partitions
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
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="New number of partitions (more than now)."),
    ] = None,
    config: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Reset a setting to its default. May be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate the change.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Add partitions to a topic, or change its settings."""
    from odradek import ConfigResource

    changes: dict[str, object] = {**parse_pairs(config or (), "--config"), **dict.fromkeys(unset or ())}
    if partitions is None and not changes:
        usage_error("at least one of --partitions, --config and --unset is required")
    with Target(bootstrap, extra).only_admin() as admin:
        if partitions is not None:
            admin.create_partitions({name: partitions}, validate_only=dry_run)
        if changes:
            admin.alter_configs({ConfigResource.topic(name): changes}, validate_only=dry_run)
    altered = {"topic": name, "partitions": partitions, "settings": changes, "dry_run": dry_run}
    show_done("would alter" if dry_run else "altered", [altered if json else {"topic": name}], as_json=json)


@app.command()
@command
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Delete topics and all their records."""
    from odradek import PartialFailure, UnknownTopic

    with Target(bootstrap, extra).only_admin() as admin:
        deleted = list(names)
        try:
            admin.delete_topics(names)
        except PartialFailure as failure:
            errors = failure.errors
            if not if_exists or not all(isinstance(error, UnknownTopic) for error in errors.values()):
                raise
            deleted = [name for name in names if name not in errors]
    show_done("deleted", [{"topic": name} for name in deleted], as_json=json)
