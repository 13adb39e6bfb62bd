"""The options of ``odradek serve``, and the settings they stand for. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
PORT = 9092


class ServeOptions(NamedTuple):
    """As given: None where an option is absent. ``settings`` are the ``NAME=VALUE`` texts of ``--set``."""

    config: Path | None = None
    settings: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    data_dir: str | None = None
    ephemeral: bool = False
    check_config: bool = False
    log_level: str | None = None
    log_format: str | None = None


def contradictions(options: ServeOptions) -> list[str]:
    """Return one line for each pair of options that cannot stand together."""
    named = {text.partition("=")[0].strip() for text in options.settings}
    found = []
    if (options.host is not None or options.port is not None) and "listeners" in named:
        found.append("give --host and --port, or --set listeners=..., not both")
    if options.ephemeral and options.data_dir is not None:
        found.append("--ephemeral keeps no data: leave out --data-dir")
    if (options.ephemeral or options.data_dir is not None) and named & {"log.dirs", "log.dir"}:
        found.append("give --data-dir or --ephemeral, or --set log.dirs=..., not both")
    if options.data_dir is not None and ("," in options.data_dir or not options.data_dir.strip()):
        found.append(f"--data-dir must name one directory, got {options.data_dir!r}; several are log.dirs")
    if options.port is not None and not 0 <= options.port <= 65535:
        found.append(f"--port must be between 0 and 65535, got {options.port}")
    return found


def arguments(options: ServeOptions, data_dir: str | None) -> list[str]:
    """Return ``NAME=VALUE`` texts for all options. ``data_dir`` replaces ``log.dirs`` unless it is None."""
    return [*_shortcuts(options, data_dir), *options.settings]


def _shortcuts(options: ServeOptions, data_dir: str | None) -> Iterator[str]:
    free = options.ephemeral and not any(text.startswith("listeners") for text in options.settings)
    if options.host is not None or options.port is not None or free:
        host = HOST if options.host is None else options.host
        port = options.port
        if port is None:
            port = 0 if options.ephemeral else PORT
        yield f"listeners=PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    if data_dir is not None:
        yield f"log.dirs={data_dir}"
    if options.log_level is not None:
        yield f"odradek.log.level={options.log_level}"
    if options.log_format is not None:
        yield f"odradek.log.format={options.log_format}"
