"""The ``odradek`` commands. Each imports its dependencies only when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from odradek import compiled_modules
from odradek.adoption.commands import adopt, release
from odradek.broker.serve_options import ServeOptions
from odradek.cli import acls, configs, quotas, tls, tokens, topics, users
from odradek.cli.cluster_status import brokers, controller, status
from odradek.cli.elect_leaders import elect_leaders
from odradek.cli.errors import command
from odradek.cli.groups import commands as groups
from odradek.cli.output import show_json, show_line
from odradek.cli.reassign import commands as reassign
from odradek.cli.records import perf
from odradek.cli.records.consume import consume
from odradek.cli.records.produce import produce
from odradek.cli.target import Bootstrap, Extra, Json, set_global_options
from odradek.local_cluster import commands as local_cluster
from odradek.pipelines.commands import pipeline as pipelines
from odradek.version import VERSION

app = typer.Typer(
    name="odradek",
    help="Kafka you can pip install: a broker compatible with Apache Kafka clients, and its tools.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


DUMPABLE = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"odradek {VERSION} ({compiled_modules.FORM})")
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
    """Store the options before a command."""
    set_global_options(bootstrap, extra)


# Options of ``serve``.

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Read settings from this server.properties file (default: a single broker on 127.0.0.1:9092 "
        "with its data in ./odradek-data).",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Listen on this address (default: 127.0.0.1). With --port, overrides the setting listeners.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Listen on this port (default: 9092, with --ephemeral a free port). 0 selects a free port.",
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="Store data in this directory (the setting log.dirs)."),
]
Ephemeral = Annotated[
    bool,
    typer.Option("--ephemeral", help="Store data in a temporary directory, removed when the broker stops."),
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="Encrypt and authenticate all connections, and check ACLs: makes an authority, a certificate "
        "and a first user, and prints where a client finds its options.",
    ),
]
CheckConfig = Annotated[
    bool,
    typer.Option(
        "--check-config",
        help="Only validate the configuration: exit with 0 if it is valid, else with 1. Writes nothing.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Override a setting of the file and of ODRADEK_… variables. May be repeated.",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Log format: text or json (default: $ODRADEK_LOG_FORMAT, or text).",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="Log events of this level and above to stderr: debug, info, warning or error (default: "
        "$ODRADEK_LOG_LEVEL, or warning).",
    ),
]


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
    secure: Secure = False,
) -> None:
    """Run a broker until interrupted (Ctrl-C or SIGTERM).

    Connect any Kafka client to 127.0.0.1:9092. Settings have Kafka's names: --set log.retention.hours=24, or
    ODRADEK_LOG_RETENTION_HOURS=24. docs/configuration.md lists them all.

    Examples:

      odradek serve

      odradek serve --ephemeral

      odradek serve --port 19092 --data-dir /var/lib/odradek

      odradek serve --secure --host 0.0.0.0

      odradek serve --config server.properties --check-config
    """
    from odradek.broker.main import run

    options = ServeOptions(
        config,
        tuple(set_ or ()),
        host,
        port,
        data_dir,
        ephemeral,
        check_config,
        log_level,
        log_format,
        secure,
    )
    raise typer.Exit(run(options, dict(os.environ)))


local_cluster.app.command()(adopt)
local_cluster.app.command()(release)
app.add_typer(local_cluster.app, name="cluster")
app.command()(status)
app.command()(brokers)
app.command()(controller)
app.add_typer(topics.app, name="topics")
app.command()(produce)
app.command()(consume)
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(acls.app, name="acls")
app.add_typer(quotas.app, name="quotas")
app.add_typer(users.app, name="users")
app.add_typer(tokens.app, name="tokens")
app.command("elect-leaders")(elect_leaders)
app.add_typer(reassign.app, name="reassign")
app.add_typer(pipelines.app, name="pipeline")
app.add_typer(perf.app, name="perf")
app.add_typer(tls.app, name="tls")


@app.command("dump-log")
@command
def dump_log(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Segment (.log), index (.index, .timeindex, .txnindex), producer snapshot (.snapshot), "
            "leader-epoch-checkpoint, or a partition directory with such files.",
        ),
    ],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print records with their keys and values.")
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Print the records of each batch.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only check that indexes are valid.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Only check indexes against their segments.")
    ] = False,
    skip_record_metadata: Annotated[
        bool,
        typer.Option("--skip-record-metadata", help="With --print-data-log: print keys and values only."),
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", min=0, help="Read at most this many bytes of a segment.")
    ] = None,
    offsets_decoder: Annotated[
        bool,
        typer.Option("--offsets-decoder", help="Decode records of __consumer_offsets."),
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Decode records of __transaction_state.")
    ] = False,
) -> None:
    """Print segment and index files, like kafka-dump-log.

    Exits with 1 if a file is corrupt or an index does not match its segment.
    """
    from odradek.coordinators.record_formatter import format_group_record, format_transaction_record
    from odradek.log.dump import DumpOptions, dump
    from odradek.system.files import RealFileSystem

    transactions_or_none = format_transaction_record if transaction_log_decoder else None
    options = DumpOptions(
        print_data_log,
        deep_iteration,
        verify_index_only,
        index_sanity_check,
        skip_record_metadata,
        max_bytes,
        format_group_record if offsets_decoder else transactions_or_none,
    )
    problems = dump(
        RealFileSystem(), _dumpable(files), options, typer.echo, lambda line: typer.echo(line, err=True)
    )
    raise typer.Exit(1 if problems else 0)


@app.command()
@command
def version(json: Json = False) -> None:
    """Print the version.

    With --json, also the version of Python, and whether record codec and request path are compiled.
    """
    from odradek.records.codec import COMPILED

    codec = "compiled" if COMPILED else "python"
    modules = "compiled" if compiled_modules.COMPILED else "python"
    if not json:
        show_line(f"odradek {VERSION} ({compiled_modules.FORM})")
        return
    import platform

    show_json({"version": VERSION, "python": platform.python_version(), "codec": codec, "modules": modules})


@app.command("command-reference", hidden=True)
def command_reference() -> None:
    """Print the command reference."""
    from odradek.cli.reference import page

    typer.echo(page(typer.main.get_command(app)), nl=False)


def _dumpable(paths: list[Path]) -> list[str]:
    """Return the files to dump; a directory stands for all dumpable files in it."""
    files: list[str] = []
    for path in paths:
        if path.is_dir():
            entries = sorted(path.iterdir())
            files += [
                str(file) for file in entries if file.suffix in DUMPABLE or file.stem == EPOCH_CHECKPOINT
            ]
        else:
            files.append(str(path))
    return files
