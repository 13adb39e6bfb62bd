"""Options of ``odradek serve``, as the command line shows them."""

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
        help="Read settings from this server.properties file. Without it: one broker for this machine, on "
        "127.0.0.1:9092, with its data in ./odradek-data.",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Listen on this address (default 127.0.0.1). With --port it replaces the setting listeners.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Listen on this port (default 9092, with --ephemeral a free one); 0 takes a free one.",
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="Keep data in this directory (the setting log.dirs)."),
]
Ephemeral = Annotated[
    bool,
    typer.Option("--ephemeral", help="Keep data in a temporary directory, removed when the broker stops."),
]
CheckConfig = Annotated[
    bool,
    typer.Option(
        "--check-config",
        help="Only check the configuration: exit with 0 if it is valid, with 1 if not. Writes nothing.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Set a setting, over the file and over ODRADEK_… variables. May be repeated.",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Format of events: text or json. Without it: $ODRADEK_LOG_FORMAT, or text.",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="Write events from this level on to stderr: debug, info, warning or error. Without it: "
        "$ODRADEK_LOG_LEVEL, or warning.",
    ),
]
