"""``odradek configs``: settings of topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.cluster import Bootstrap, Extra, Json, Target, pairs
from odradek.cli.ending import command, wrong_use
from odradek.cli.tables import show

if TYPE_CHECKING:
    from odradek.client.admin.configs import ConfigResource

app = typer.Typer(help="Describe, set and unset settings of topics and brokers.", no_args_is_help=True)

OfTopic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Settings of this topic.")
]
OfBroker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Settings of this broker.")]
OfAll = Annotated[
    bool, typer.Option("--all-brokers", help="Settings for all brokers that have none of their own.")
]


def _resource(topic: str | None, broker: int | None, all_brokers: bool) -> ConfigResource:
    from odradek import ConfigResource

    if (topic is not None) + (broker is not None) + all_brokers != 1:
        wrong_use("whose settings? Give one of --topic, --broker and --all-brokers")
    return ConfigResource.broker(broker) if topic is None else ConfigResource.topic(topic)


@app.command()
@command
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    all_: Annotated[bool, typer.Option("--all", help="Also those that have their default.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show settings that are not at their default, those named, or all.

    Example: odradek configs describe --topic letters --all
    """
    resource = _resource(topic, broker, all_brokers)
    with Target(bootstrap, extra).only_admin() as admin:
        entries = admin.describe_configs([resource], names=names or None)[resource]
    rows = [
        {
            "name": one.name,
            "value": "(hidden)" if one.is_sensitive else one.value,
            "source": one.source.name.lower(),
            "read_only": one.is_read_only,
        }
        for one in sorted(entries.values())
        if all_ or names or not one.is_default
    ]
    show(rows, ["name", "value", "source", "read_only"], as_json=json)


@app.command("set")
@command
def set_(
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Set settings; the others stay as they are.

    Example: odradek configs set --topic letters retention.ms=86400000
    """
    resource = _resource(topic, broker, all_brokers)
    changes = pairs(settings, "setting")
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: changes}, validate_only=dry_run)


@app.command()
@command
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Put settings back to what they are by default."""
    resource = _resource(topic, broker, all_brokers)
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: dict.fromkeys(names)}, validate_only=dry_run)
