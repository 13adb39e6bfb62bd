"""Composition root of the broker process: real clock, files and sockets; signals; console output."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek import compiled_modules
from odradek.broker.broker import Broker
from odradek.broker.environment import Ensemble, Environment
from odradek.broker.handlers import HANDLERS
from odradek.broker.preloading import import_rest
from odradek.broker.serve_options import DATA_DIR, HOST, PORT, ServeOptions, arguments, conflicting_options
from odradek.broker.start_checks import check_settings, is_store_shared
from odradek.config import broker as settings
from odradek.config import derived, sources
from odradek.config.listeners import ListenerEndpoint, listeners
from odradek.log.recovery.load_progress import LoadProgress
from odradek.model.errors import ConfigError, StorageError
from odradek.ports.clock import Clock
from odradek.records import codec
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import StoreError
from odradek.system.clock import SystemClock, block_thread
from odradek.system.entropy import SystemEntropy
from odradek.system.files import RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.process import FrozenHeap, collect_garbage_less_often, raise_open_file_limit
from odradek.system.workers import ThreadWorkers
from odradek.telemetry import events
from odradek.version import VERSION

if TYPE_CHECKING:
    from odradek.broker.secure_setup import SecureSetup
    from odradek.net.sasl_login import LoginPorts

CONFIG_BYTES_MAX = 1024 * 1024
USAGE_ERROR = 2

log = events.logger("broker")


def run(options: ServeOptions, variables: Mapping[str, str]) -> int:
    """Serve until a signal; return the exit status. Problems are printed as plain lines, not tracebacks."""
    if conflicts := conflicting_options(options):
        _print_errors(conflicts)
        return USAGE_ERROR
    try:
        if options.check_config:
            return _check(options, variables)
        with _data_directory(options) as data_dir:
            secure = _secure_setup(options, data_dir)
            pairs = [*(secure.settings if secure else ()), *arguments(options, data_dir)]
            _start(sources.load(_read(options.config), variables, pairs), options, secure)
    except ConfigError as error:
        return _print_errors(error.problems)
    except (StorageError, StoreError, OSError) as error:
        return _print_errors([str(error)])
    return 0


def _secure_setup(options: ServeOptions, data_dir: str | None) -> SecureSetup | None:
    """Return the certificates and users of ``--secure``, which are beside the data."""
    if not options.secure:
        return None
    from odradek.broker.secure_setup import prepare

    data = Path(data_dir or DATA_DIR).absolute()
    return prepare(data.with_name(f"{data.name}.security"), options.host or HOST)


def _start(loaded: sources.LoadedConfig, options: ServeOptions, secure: SecureSetup | None) -> None:
    level, form = loaded.settings[settings.ODRADEK_LOG_LEVEL], loaded.settings[settings.ODRADEK_LOG_FORMAT]
    events.configure(sys.stderr, level, sys.stderr.isatty(), form=form)
    for warning in loaded.warnings:
        _print(f"warning: {warning}")
    if codec.PURE_REASON is not None:
        _print(
            f"warning: the compiled record codec is not in use ({codec.PURE_REASON}); expect a slow broker"
        )
    elif compiled_modules.PURE_REASON is not None:
        _print(
            f"warning: the compiled modules are not in use ({compiled_modules.PURE_REASON}); "
            "expect twice the CPU time for small requests"
        )
    raise_open_file_limit()
    collect_garbage_less_often()
    _run(_serve(loaded, options, secure))


@contextmanager
def _data_directory(options: ServeOptions) -> Iterator[str | None]:
    """Yield the value for ``log.dirs``: the option, a temporary directory, or None to keep the setting."""
    if not options.ephemeral:
        yield options.data_dir
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="odradek-") as path:
        yield f"{path}/data" if options.secure else path


def _check(options: ServeOptions, variables: Mapping[str, str]) -> int:
    """Print the problems of the configuration, or its listeners and log directories."""
    loaded = sources.load(_read(options.config), variables, arguments(options, options.data_dir))
    for warning in loaded.warnings:
        _print(f"warning: {warning}")
    check_settings(loaded.settings, loaded.raw_values)
    if is_store_shared(loaded.settings):
        from odradek.store.zookeeper.options import read_options

        read_options(loaded.settings)
    paths = [] if options.ephemeral else [Path(path).absolute() for path in derived.log_dirs(loaded.settings)]
    if problems := [problem for path in paths if (problem := _directory_problem(path))]:
        return _print_errors(problems)
    _print(f"listeners {', '.join(map(str, listeners(loaded.settings).bound))}")
    _print(f"data in {', '.join(map(str, paths)) or 'a temporary directory'}")
    _print("the configuration is valid")
    return 0


def _directory_problem(path: Path) -> str | None:
    """Return why a log directory could not be created or written to, without writing anything."""
    ancestor = next(parent for parent in (path, *path.parents) if parent.exists())
    verb = "used" if ancestor == path else "created"
    if not ancestor.is_dir():
        return f"log.dirs: {path} cannot be {verb}: {ancestor} is not a directory"
    if not os.access(ancestor, os.W_OK | os.X_OK):
        return f"log.dirs: {path} cannot be {verb}: {ancestor} is not writable"
    return None


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(coroutine)
    else:
        uvloop.run(coroutine)


async def _serve(loaded: sources.LoadedConfig, options: ServeOptions, secure: SecureSetup | None) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup ignores SIGHUP; keep that.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, _stop, stopping, number)
    heap = FrozenHeap()
    environment = _environment(loaded, heap)
    broker = Broker(loaded.raw_values, environment, _print_load_progress)
    preloading: asyncio.Task[None] | None = None
    try:
        await broker.start()
        heap.freeze(broker.partition_count)
        for failure in broker.failures:
            _print(f"warning: {failure}; serving without it")
        # Last, because scripts wait for these lines.
        _announce(broker, options, secure)
        preloading = loop.create_task(_preload(broker, environment.clock, heap))
        await _wait_for_any(stopping, broker.all_failed)
        if broker.all_failed.is_set():
            raise StorageError(f"all of log.dirs have failed: {'; '.join(broker.failures)}")
        _print("stopping ...")
    finally:
        if preloading is not None:
            preloading.cancel()
        await broker.stop()
    _print("stopped")


async def _preload(broker: Broker, clock: Clock, heap: FrozenHeap) -> None:
    """Import what later requests will need; if that fails, it is imported on first use."""
    try:
        await import_rest(HANDLERS, clock)
    except (ImportError, OSError) as error:
        log.warning("modules_not_imported", reason=str(error))
        return
    heap.freeze(broker.partition_count)
    log.debug("modules_imported")


def _stop(stopping: asyncio.Event, number: signal.Signals) -> None:
    if not stopping.is_set():
        log.info("stopping", signal=number.name)
        stopping.set()


async def _wait_for_any(*signals: asyncio.Event) -> None:
    """Wait until one of these is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in signals]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _environment(loaded: sources.LoadedConfig, heap: FrozenHeap) -> Environment:
    values = loaded.settings
    clock, files = SystemClock(), RealFileSystem()
    network = SocketNetwork(
        values[settings.SOCKET_SEND_BUFFER_BYTES],
        values[settings.SOCKET_RECEIVE_BUFFER_BYTES],
        values[settings.SOCKET_LISTEN_BACKLOG_SIZE],
        files.offload_read,
    )

    def open_store(path: str) -> Ensemble:
        if values[settings.ZOOKEEPER_CONNECT]:
            # A broker without ZooKeeper does not load its client.
            from odradek.store.zookeeper.ensemble import open_zookeeper

            return open_zookeeper(values)
        return EmbeddedEnsemble(path, clock, offload=files.offload)

    entropy = SystemEntropy()
    return Environment(
        clock,
        entropy,
        files,
        network,
        socket.getfqdn,
        open_store,
        ThreadWorkers(),
        heap.resized,
        partial(_login_ports, files, entropy, clock),
    )


def _login_ports(files: RealFileSystem, entropy: SystemEntropy, clock: SystemClock) -> LoginPorts:
    """Return what a broker with SASL between brokers needs; imported only then."""
    from odradek.net.sasl_login import LoginPorts
    from odradek.system.http import SystemHttp

    return LoginPorts(
        SystemHttp(),
        lambda path: files.read_whole(path).decode(),
        entropy.token,
        clock.wall_ms,
        lambda duration_ms: block_thread(duration_ms / 1000),
    )


def _print_load_progress(progress: LoadProgress) -> None:
    _print(
        f"loading logs: {progress.logs_loaded} of {progress.logs_total}; recovered "
        f"{progress.segments_scanned} segments ({progress.bytes_scanned / 1e6:.0f} MB) after an unclean stop"
    )


def _announce(broker: Broker, options: ServeOptions, secure: SecureSetup | None) -> None:
    note = ", removed when the broker stops" if options.ephemeral else ""
    addresses = ", ".join(map(_address, broker.endpoints))
    first = broker.endpoints[0]
    bootstrap_option = "" if (first.host, first.port) == (HOST, PORT) else f" -b {_address(first)}"
    if secure is not None:
        bootstrap_option += f" -X @{secure.client_properties}"
    _print(f"odradek {VERSION} ({compiled_modules.FORM}): broker {broker.broker_id} listening on {addresses}")
    _print(f"data in {', '.join(str(Path(path).resolve()) for path in broker.log_dirs)}{note}")
    if secure is not None:
        made = "made" if secure.is_new else "as before"
        _print(f"TLS, SASL and ACLs are on; options of the first user ({made}): {secure.client_properties}")
    _print("try:")
    _print(f"  echo hello | odradek produce greetings{bootstrap_option}")
    _print(f"  odradek consume greetings --from-beginning{bootstrap_option}")
    _print("Ctrl-C stops the broker")


def _address(endpoint: ListenerEndpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def _read(config: Path | None) -> str | None:
    if config is None:
        return None
    try:
        if (size := config.stat().st_size) > CONFIG_BYTES_MAX:
            raise ConfigError([f"--config: {config} must be at most {CONFIG_BYTES_MAX} bytes, got {size}"])
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"--config: {config} cannot be read: {error}"]) from error


def _print_errors(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"odradek: {problem}\n")
    return 1


def _print(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone (``| head -1``); keep serving.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
