"""The entry point of ``odradek``.

A plain ``serve`` is parsed here and started directly: importing the command-line library takes longer than
starting the broker. Everything else, including help and usage errors, goes to ``commands``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.broker.serve_options import ServeOptions

BROKEN_PIPE = 141
_VALUES = {
    "--config": "config",
    "--host": "host",
    "--port": "port",
    "--data-dir": "data_dir",
    "--log-level": "log_level",
    "--log-format": "log_format",
}
_FLAGS = {"--ephemeral": "ephemeral", "--check-config": "check_config", "--secure": "secure"}


def main() -> None:
    _open_standard_streams()
    try:
        try:
            _run(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has closed it (``| head``).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE) from None


def _open_standard_streams() -> None:
    """Open closed standard streams (``>&-``) as /dev/null: else the next file would become stdout."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _run(arguments: Sequence[str]) -> None:
    plain = parse_plain_serve(arguments)
    if plain is None:
        from odradek.commands import app

        app()
        return
    from odradek.broker.main import run

    raise SystemExit(run(plain, os.environ))


def parse_plain_serve(arguments: Sequence[str]) -> ServeOptions | None:
    """Return the options of a ``serve`` with long options; None for anything else."""
    if not arguments or arguments[0] != "serve":
        return None
    values: dict[str, Any] = {}
    settings: list[str] = []
    rest = iter(arguments[1:])
    for option in rest:
        if option in _FLAGS:
            values[_FLAGS[option]] = True
            continue
        value = next(rest, None)
        if value is None or value.startswith("-"):
            return None
        if option == "--set":
            settings.append(value)
        elif option in _VALUES:
            values[_VALUES[option]] = value
        else:
            return None
    if "config" in values:
        values["config"] = Path(values["config"])
    if "port" in values:
        if not (values["port"].isascii() and values["port"].isdigit()):
            return None
        values["port"] = int(values["port"])
    return ServeOptions(settings=tuple(settings), **values)


if __name__ == "__main__":
    main()
