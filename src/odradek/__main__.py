"""The command line. Each command imports what it needs only when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from odradek.version import VERSION

app = typer.Typer(
    name="odradek",
    help="Kafka you can pip install: a broker that real Kafka clients take for Apache Kafka.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"odradek {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options before a command."""


@app.command()
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="A server.properties file with Kafka's settings. Without it: one broker for this machine, "
            "on 127.0.0.1:9092, with its data in ./odradek-data.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A setting that wins over the file and over ODRADEK_… variables. May be repeated.",
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
    ] = "warning",
) -> None:
    """Run a broker until it is interrupted (Ctrl-C or SIGTERM).

    Point any Kafka client at 127.0.0.1:9092. Settings have Kafka's names: --set log.retention.hours=24, or
    ODRADEK_LOG_RETENTION_HOURS=24. docs/configuration.md lists them all.

    Examples:

      odradek serve

      odradek serve --set listeners=PLAINTEXT://127.0.0.1:19092 --set log.dirs=/var/lib/odradek

      odradek serve --config server.properties
    """
    from odradek.broker.main import run

    raise typer.Exit(run(config, set_ or [], dict(os.environ), log_level))


@app.command("dump-log")
def dump_log(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Segments (.log), indexes, or a partition's folder."),
    ],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Show the records with their keys and values.")
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Show the records of each batch.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only check that indexes are well formed.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Only check indexes against their segments.")
    ] = False,
) -> None:
    """Print what is in segment and index files, batch by batch, like kafka-dump-log."""


def main() -> None:
    app()


if __name__ == "__main__":
    main()
