"""The commands of the program. Each imports what it needs only when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from odradek.broker.serve_options import ServeOptions
from odradek.cli import configs, topics
from odradek.cli.cluster_status import brokers, status
from odradek.cli.errors import command
from odradek.cli.groups import commands
from odradek.cli.output import show_json, show_line
from odradek.cli.records import perf
from odradek.cli.records.consume import consume
from odradek.cli.records.produce import produce
from odradek.cli.serve_options import (
    CheckConfig,
    Config,
    DataDir,
    Ephemeral,
    Host,
    LogFormat,
    LogLevel,
    Port,
    Set,
)
from odradek.cli.target import Bootstrap, Extra, Json, remember
from odradek.pipelines.commands import pipeline as pipelines
from odradek.version import VERSION

app = typer.Typer(
    name="odradek",
    help="Kafka you can pip install: a broker that real Kafka clients take for Apache Kafka.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


DUMPABLE = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
EPOCHS = "leader-epoch-checkpoint"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"odradek {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Options before a command."""
    remember(bootstrap, extra)


@app.command()
def serve(
    config: Config = None,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    ephemeral: Ephemeral = False,
    check_config: CheckConfig = False,
    set_: Set = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a broker until it is interrupted (Ctrl-C or SIGTERM).

    Point any Kafka client at 127.0.0.1:9092. Settings have Kafka's names: --set log.retention.hours=24, or
    ODRADEK_LOG_RETENTION_HOURS=24. docs/configuration.md lists them all.

    Examples:

      odradek serve

      odradek serve --ephemeral

      odradek serve --port 19092 --data-dir /var/lib/odradek

      odradek serve --config server.properties --check-config
    """
    from odradek.broker.main import run

    options = ServeOptions(
        config, tuple(set_ or ()), host, port, data_dir, ephemeral, check_config, log_level, log_format
    )
    raise typer.Exit(run(options, dict(os.environ)))


app.command()(status)
app.command()(brokers)
app.add_typer(topics.app, name="topics")
app.command()(produce)
app.command()(consume)
app.add_typer(commands.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(pipelines.app, name="pipeline")
app.add_typer(perf.app, name="perf")


@app.command("dump-log")
@command
def dump_log(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Segments (.log), indexes (.index, .timeindex, .txnindex), states of producers (.snapshot), "
            "leader-epoch-checkpoint, or a partition's directory, which stands for all of these in it.",
        ),
    ],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Show records with their keys and values.")
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
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="With --print-data-log: keys and values only.")
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", min=0, help="Read at most this much of a segment.")
    ] = None,
    offsets_decoder: Annotated[
        bool,
        typer.Option("--offsets-decoder", help="Show records of __consumer_offsets: offsets and groups."),
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Show records of __transaction_state.")
    ] = False,
) -> None:
    """Print segment and index files, like kafka-dump-log.

    Exits with 1 if a file is damaged or indexes do not fit their segment.
    """
    from odradek.coordinators.groups.record_formatter import format_record as offsets_text
    from odradek.coordinators.transactions.record_formatter import format_record as transactions_text
    from odradek.log.dump import DumpOptions, dump
    from odradek.system.files import RealFileSystem

    transactions_or_none = transactions_text if transaction_log_decoder else None
    options = DumpOptions(
        print_data_log,
        deep_iteration,
        verify_index_only,
        index_sanity_check,
        skip_record_metadata,
        max_bytes,
        offsets_text if offsets_decoder else transactions_or_none,
    )
    problems = dump(
        RealFileSystem(), _dumpable(files), options, typer.echo, lambda line: typer.echo(line, err=True)
    )
    raise typer.Exit(1 if problems else 0)


@app.command()
@command
def version(json: Json = False) -> None:
    """Print the version.

    With --json also that of Python, and which record codec is in use.
    """
    if not json:
        show_line(f"odradek {VERSION}")
        return
    import platform

    from odradek.records.codec import COMPILED

    codec = "compiled" if COMPILED else "python"
    show_json({"version": VERSION, "python": platform.python_version(), "codec": codec})


@app.command("command-reference", hidden=True)
def command_reference() -> None:
    """Print the page of all commands."""
    from odradek.cli.reference import page

    typer.echo(page(typer.main.get_command(app)), nl=False)


def _dumpable(given: list[Path]) -> list[str]:
    """The files meant; a directory means all in it that can be dumped."""
    found: list[str] = []
    for path in given:
        if path.is_dir():
            inside = (one for one in sorted(path.iterdir()) if one.suffix in DUMPABLE or one.stem == EPOCHS)
            found += map(str, inside)
        else:
            found.append(str(path))
    return found
