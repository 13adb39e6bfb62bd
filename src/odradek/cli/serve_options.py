"""Command-line options of ``odradek serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
