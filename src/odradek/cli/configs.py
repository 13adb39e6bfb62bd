"""``odradek configs``: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target, pairs

if TYPE_CHECKING:
    from odradek.client.admin.configs import ConfigResource

app = typer.Typer(help="Describe, set and unset settings of topics and brokers.", no_args_is_help=True)

OfTopic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Settings of this topic.")
]
OfBroker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Settings of this broker.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check whether the change could be made.")]
OfAll = Annotated[bool, typer.Option("--all-brokers", help="Cluster-wide defaults of all brokers.")]


def _resource(topic: str | None, broker: int | None, all_brokers: bool) -> ConfigResource:
    from odradek import ConfigResource

    if (topic is not None) + (broker is not None) + all_brokers != 1:
        usage_error("one of --topic, --broker and --all-brokers must be given")
    return ConfigResource.broker(broker) if topic is None else ConfigResource.topic(topic)


@app.command()
@command
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Settings to show (default: those that are set)."),
    ] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    all_: Annotated[bool, typer.Option("--all", help="Also show settings at their default.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show the settings of a topic or broker: those not at their default, those named, or all.

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
    show(rows, ["name", "value", "source", "read_only"], as_json=json, empty=_nothing(topic, broker, names))


def _nothing(topic: str | None, broker: int | None, names: list[str] | None) -> str:
    """Return what to say instead of a table without rows."""
    if names:
        return f"no setting is called {', '.join(names)}; --all shows all"
    of_broker = "the cluster" if broker is None else f"broker {broker}"
    where = of_broker if topic is None else f"topic {topic}"
    return f"{where} has no settings of its own; --all shows the defaults"


@app.command("set")
@command
def set_(
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="Settings and their new values.")
    ],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Set settings of a topic or broker; others stay as they are.

    Example: odradek configs set --topic letters retention.ms=86400000
    """
    resource = _resource(topic, broker, all_brokers)
    changes = pairs(settings, "setting")
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: changes}, validate_only=dry_run)
    _show_changes(changes, dry_run, json)


@app.command()
@command
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Settings to remove.")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAll = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Set settings of a topic or broker back to their defaults."""
    resource = _resource(topic, broker, all_brokers)
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: dict.fromkeys(names)}, validate_only=dry_run)
    _show_changes(dict.fromkeys(names), dry_run, json)


def _show_changes(changes: Mapping[str, str | None], dry_run: bool, as_json: bool) -> None:
    rows = [{"name": name, "value": value, "dry_run": dry_run} for name, value in changes.items()]
    show(rows, ["name", "value", "dry_run"], as_json=as_json)
