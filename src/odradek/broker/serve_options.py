"""Options of ``odradek serve`` and the settings they map to. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
PORT = 9092
DATA_DIR = "./odradek-data"


class ServeOptions(NamedTuple):
    """Command line options; None if absent. ``settings`` are the ``NAME=VALUE`` values of ``--set``."""

    config: Path | None = None
    settings: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    data_dir: str | None = None
    ephemeral: bool = False
    check_config: bool = False
    log_level: str | None = None
    log_format: str | None = None
    secure: bool = False


def conflicting_options(options: ServeOptions) -> list[str]:
    """Return one message for each pair of options that exclude each other."""
    names = {text.partition("=")[0].strip() for text in options.settings}
    conflicts = []
    if (options.host is not None or options.port is not None) and "listeners" in names:
        conflicts.append("--host and --port cannot be combined with --set listeners=...")
    if options.secure and (options.config is not None or "listeners" in names):
        conflicts.append("--secure cannot be combined with --config or --set listeners=...")
    if options.ephemeral and options.data_dir is not None:
        conflicts.append("--ephemeral cannot be combined with --data-dir")
    if (options.ephemeral or options.data_dir is not None) and names & {"log.dirs", "log.dir"}:
        conflicts.append("--data-dir and --ephemeral cannot be combined with --set log.dirs=...")
    if options.data_dir is not None and ("," in options.data_dir or not options.data_dir.strip()):
        conflicts.append(
            f"--data-dir must name one directory, got {options.data_dir!r}; use log.dirs for several"
        )
    if options.port is not None and not 0 <= options.port <= 65535:
        conflicts.append(f"--port must be between 0 and 65535, got {options.port}")
    return conflicts


def arguments(options: ServeOptions, data_dir: str | None) -> list[str]:
    """Return all options as ``NAME=VALUE`` settings. ``data_dir`` replaces ``log.dirs`` unless None."""
    return [*_shortcuts(options, data_dir), *options.settings]


def _shortcuts(options: ServeOptions, data_dir: str | None) -> Iterator[str]:
    any_port = options.ephemeral and not any(text.startswith("listeners") for text in options.settings)
    if options.host is not None or options.port is not None or any_port or options.secure:
        host = HOST if options.host is None else options.host
        port = options.port
        if port is None:
            port = 0 if options.ephemeral else PORT
        protocol = "SASL_SSL" if options.secure else "PLAINTEXT"
        yield f"listeners={protocol}://{f'[{host}]' if ':' in host else host}:{port}"
    if data_dir is not None:
        yield f"log.dirs={data_dir}"
    if options.log_level is not None:
        yield f"odradek.log.level={options.log_level}"
    if options.log_format is not None:
        yield f"odradek.log.format={options.log_format}"
