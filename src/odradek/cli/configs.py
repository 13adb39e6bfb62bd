"""``odradek configs``: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target, parse_pairs

if TYPE_CHECKING:
    from odradek.client.admin.configs import ConfigResource

HIDDEN: Final = "(hidden)"
"""Shown for the value of a sensitive setting."""

app = typer.Typer(help="Describe, set and unset settings of topics and brokers.", no_args_is_help=True)

TopicOption = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Settings of this topic.")
]
BrokerOption = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Settings of this broker.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only validate the change.")]
AllBrokersOption = Annotated[
    bool, typer.Option("--all-brokers", help="Cluster-wide defaults of all brokers.")
]


def _resource(topic: str | None, broker: int | None, all_brokers: bool) -> ConfigResource:
    from odradek import ConfigResource

    if (topic is not None) + (broker is not None) + all_brokers != 1:
        usage_error("exactly one of --topic, --broker and --all-brokers is required")
    return ConfigResource.broker(broker) if topic is None else ConfigResource.topic(topic)


@app.command()
@command
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Settings to show (default: those that are set)."),
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
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
            "name": entry.name,
            "value": HIDDEN if entry.is_sensitive else entry.value,
            "source": entry.source.name.lower(),
            "read_only": entry.is_read_only,
        }
        for entry in sorted(entries.values())
        if all_ or names or not entry.is_default
    ]
    empty = _empty_message(topic, broker, names)
    show(rows, ["name", "value", "source", "read_only"], as_json=json, empty=empty)


def _empty_message(topic: str | None, broker: int | None, names: list[str] | None) -> str:
    """Return the message to print instead of an empty table."""
    if names:
        return f"unknown setting {', '.join(names)}; list all with --all"
    of_broker = "the cluster" if broker is None else f"broker {broker}"
    resource = of_broker if topic is None else f"topic {topic}"
    return f"{resource} has only default settings; show them with --all"


@app.command("set")
@command
def set_(
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="Settings and their new values.")
    ],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Set settings of a topic or broker; other settings are not changed.

    Example: odradek configs set --topic letters retention.ms=86400000
    """
    resource = _resource(topic, broker, all_brokers)
    changes = parse_pairs(settings, "setting")
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: changes}, validate_only=dry_run)
    _show_changes(changes, dry_run, json)


@app.command()
@command
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Settings to remove.")],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokersOption = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Reset settings of a topic or broker to their defaults."""
    resource = _resource(topic, broker, all_brokers)
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_configs({resource: dict.fromkeys(names)}, validate_only=dry_run)
    _show_changes(dict.fromkeys(names), dry_run, json)


def _show_changes(changes: Mapping[str, str | None], dry_run: bool, as_json: bool) -> None:
    rows = [
        {"name": name, "value": _shown_value(name, value), "dry_run": dry_run}
        for name, value in changes.items()
    ]
    show(rows, ["name", "value", "dry_run"], as_json=as_json)


def _shown_value(name: str, value: str | None) -> str | None:
    """Return a value for the terminal. A setting that is unknown here may be a password, too."""
    from odradek.config import topic
    from odradek.config.lookup import find_broker_setting

    setting = topic.BY_NAME.get(name) or find_broker_setting(name)
    is_hidden = setting is None or setting.sensitive
    return HIDDEN if is_hidden and value is not None else value
