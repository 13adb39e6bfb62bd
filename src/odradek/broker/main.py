"""The composition root of the broker process: the real world, signals, and what a person is told."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from odradek.broker.broker import Broker, World
from odradek.config import broker as settings
from odradek.config import sources
from odradek.log.loading import LoadingProgress
from odradek.model.errors import ConfigError, StorageError
from odradek.records import codec
from odradek.store.embedded import EmbeddedEnsemble
from odradek.store.port import StoreError
from odradek.system.clock import SystemClock
from odradek.system.entropy import SystemEntropy
from odradek.system.files import RealFileSystem
from odradek.system.limits import raise_open_files
from odradek.system.network import SocketNetwork
from odradek.telemetry import events
from odradek.version import VERSION

CONFIG_BYTES_MAX = 1024 * 1024


def run(config: Path | None, arguments: Sequence[str], variables: Mapping[str, str], log_level: str) -> int:
    """Serve until a signal; give the exit status. What is wrong is told in plain lines, not in tracebacks."""
    if log_level not in events.LEVELS:
        return _complain([f"--log-level: {log_level!r} is not one of {', '.join(events.LEVELS)}"])
    events.configure(sys.stderr, log_level, sys.stderr.isatty())
    try:
        loaded = sources.load(_read(config), variables, arguments)
        for warning in loaded.warnings:
            _tell(f"warning: {warning}")
        if codec.WHY_PURE is not None:
            _tell(
                f"warning: the compiled record codec is not in use ({codec.WHY_PURE}); expect a slow broker"
            )
        raise_open_files()
        _run(_serve(loaded))
    except ConfigError as wrong:
        return _complain(wrong.problems)
    except (StorageError, StoreError, OSError) as broken:
        return _complain([str(broken)])
    return 0


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def _serve(loaded: sources.Loaded) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = Broker(loaded.given, _world(loaded), _tell_of_loading)
    try:
        await broker.start()
        # What is there now stays: the collector need not walk it again and again.
        gc.freeze()
        for failure in broker.failures:
            _tell(f"warning: {failure}; serving without it")
        # The last of all: whoever waits for this line has seen the others.
        _announce(broker)
        await _first(stopping, broker.all_failed)
        if broker.all_failed.is_set():
            raise StorageError(f"all of log.dirs have failed: {'; '.join(broker.failures)}")
        _tell("stopping ...")
    finally:
        await broker.stop()
    _tell("stopped")


async def _first(*happenings: asyncio.Event) -> None:
    """Wait until one of these is set."""
    waits = [asyncio.ensure_future(one.wait()) for one in happenings]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _world(loaded: sources.Loaded) -> World:
    values = loaded.settings
    clock, files = SystemClock(), RealFileSystem()
    network = SocketNetwork(
        values[settings.SOCKET_SEND_BUFFER_BYTES],
        values[settings.SOCKET_RECEIVE_BUFFER_BYTES],
        values[settings.SOCKET_LISTEN_BACKLOG_SIZE],
        files.offload_read,
    )
    return World(
        clock,
        SystemEntropy(),
        files,
        network,
        socket.getfqdn,
        lambda path: EmbeddedEnsemble(path, clock, offload=files.offload),
    )


def _tell_of_loading(so_far: LoadingProgress) -> None:
    _tell(
        f"opening logs: {so_far.logs_loaded} of {so_far.logs_total}; {so_far.segments_scanned} segments "
        f"({so_far.bytes_scanned / 1e6:.0f} MB) checked after a stop that was not clean"
    )


def _announce(broker: Broker) -> None:
    where = ", ".join(f"{one.host}:{one.port}" for one in broker.endpoints)
    first = broker.endpoints[0]
    _tell(f"odradek {VERSION}: broker {broker.broker_id} listening on {where}")
    _tell(f"data in {', '.join(str(Path(path).resolve()) for path in broker.log_dirs)}")
    _tell(f"try:  echo hello | kcat -b {first.host}:{first.port} -t greetings -P   (Ctrl-C stops the broker)")


def _read(config: Path | None) -> str | None:
    if config is None:
        return None
    try:
        if config.stat().st_size > CONFIG_BYTES_MAX:
            raise ConfigError([f"--config: {config} is larger than {CONFIG_BYTES_MAX} bytes"])
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise ConfigError([f"--config: {config} cannot be read: {broken}"]) from broken


def _complain(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"odradek: {problem}\n")
    return 1


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
