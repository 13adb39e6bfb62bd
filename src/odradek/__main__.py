"""Where the program begins.

A plain ``serve`` is read here and started at once: importing the library that parses commands takes longer
than starting the broker. Everything else, help and mistakes included, goes to ``commands``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

LOG_LEVEL = "warning"


def main() -> None:
    try:
        _run(sys.argv[1:])
    except BrokenPipeError:
        # Whoever read our output has seen enough (``| head``); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def _run(arguments: Sequence[str]) -> None:
    plain = read_plain_serve(arguments)
    if plain is None:
        from odradek.commands import app

        app()
        return
    from odradek.broker.main import run

    config, settings, level = plain
    raise SystemExit(run(config, settings, os.environ, level))


def read_plain_serve(arguments: Sequence[str]) -> tuple[Path | None, list[str], str] | None:
    """Config file, settings and log level of a ``serve`` with long options; None for anything else."""
    if not arguments or arguments[0] != "serve":
        return None
    config, settings, level = None, [], LOG_LEVEL
    rest = iter(arguments[1:])
    for option in rest:
        value = next(rest, None)
        if value is None or value.startswith("-"):
            return None
        if option == "--set":
            settings.append(value)
        elif option == "--config":
            config = Path(value)
        elif option == "--log-level":
            level = value
        else:
            return None
    return config, settings, level


if __name__ == "__main__":
    main()
