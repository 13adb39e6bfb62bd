"""``odradek cluster adopt`` and ``odradek cluster release``.

A composition root: it passes real files, time and stores to the transfer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from odradek.cli.errors import CommandFailed, command, usage_error
from odradek.cli.output import show_json, show_line
from odradek.cli.target import Json

if TYPE_CHECKING:
    from odradek.adoption.local_transfer import LocalTransfer
    from odradek.adoption.store_transfer import TransferEnvironment
    from odradek.config.definition import Settings
    from odradek.store.transfer.transfer import TransferResult

T = TypeVar("T")

DATA_DIR: Final = "./odradek-data"
PROGRESS_NODES_MIN: Final = 2000
"""Transfers of fewer nodes take no time to speak of."""

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Data directory of the broker (default: log.dirs of --config)."
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper-connect", metavar="HOST:PORT/PATH", help="ZooKeeper (the setting zookeeper.connect)."
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The broker's server.properties file.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Setting of the broker. May be repeated."),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory", "-d", metavar="DIR", help="Directory of a local cluster, in place of ZooKeeper."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check, and show what would be carried over.")]


@command
def adopt(
    data_dir: DataDir = None,
    zookeeper_connect: ZooKeeper = None,
    directory: Directory = None,
    config: Config = None,
    set_: Set = None,
    broker_id: Annotated[
        int | None,
        typer.Option(
            "--broker-id",
            metavar="ID",
            min=0,
            help="New id of the broker (default: as before; 1 in a local cluster).",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", "-n", metavar="NUMBER", help="Brokers of the local cluster (default: 3)."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Port of broker 1 of the local cluster.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Undo an adoption that was interrupted.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Carry a single broker over to ZooKeeper, so that more brokers can join.

    The broker must be stopped. Topics, settings, ids and offsets of its embedded store are copied to
    ZooKeeper, which must not have another cluster; the records stay where they are. After an interruption,
    run the command again. Nothing is started.

    Examples:

      odradek cluster adopt --data-dir ./odradek-data --zookeeper-connect zk1:2181/odradek

      odradek cluster adopt --data-dir ./odradek-data --directory ./odradek-cluster
    """
    if directory is None:
        settings = _settings(config, set_, data_dir, zookeeper_connect)
        _check_version(settings)
        environment, log_dirs = _environment(settings), _log_dirs(settings)
        if cancel:
            _cancel(environment, log_dirs, json=json)
        else:
            _adopt(environment, log_dirs, broker_id, dry_run=dry_run, json=json)
        return
    if zookeeper_connect or config or set_ or cancel or broker_id is not None:
        usage_error("--directory can be combined with --data-dir, --brokers, --port and --dry-run only")
    _adopt_locally(directory, data_dir or DATA_DIR, brokers, port, dry_run=dry_run, json=json)


@command
def release(
    data_dir: DataDir = None,
    zookeeper_connect: ZooKeeper = None,
    directory: Directory = None,
    config: Config = None,
    set_: Set = None,
    broker: Annotated[
        int, typer.Option("--broker", metavar="NUMBER", min=1, help="Broker of the local cluster.")
    ] = 1,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Carry a cluster of one broker back from ZooKeeper to an embedded store.

    All brokers must be stopped, and this broker must have every partition alone. ZooKeeper keeps its nodes,
    with a mark that keeps brokers from starting with them. With --directory, the data of a broker of a local
    cluster is moved to --data-dir.

    Examples:

      odradek cluster release --data-dir ./odradek-data --zookeeper-connect zk1:2181/odradek

      odradek cluster release --directory ./odradek-cluster --data-dir ./odradek-data
    """
    if directory is None:
        settings = _settings(config, set_, data_dir, zookeeper_connect)
        _release(_environment(settings), _log_dirs(settings), dry_run=dry_run, json=json)
        return
    if zookeeper_connect or config or set_:
        usage_error("--directory can be combined with --data-dir, --broker and --dry-run only")
    _release_locally(directory, data_dir or DATA_DIR, broker, dry_run=dry_run, json=json)


def _adopt(
    environment: TransferEnvironment,
    log_dirs: Sequence[str],
    broker_id: int | None,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    from odradek.adoption import store_transfer

    if dry_run:
        _show(_run(store_transfer.plan_adoption(environment, log_dirs, broker_id)), "would adopt", json=json)
        return
    report = _silent if json else _Progress().report
    result, store = _run(store_transfer.adopt(environment, log_dirs, broker_id, report))
    _show(result, "adopted", json=json)
    if not json:
        show_line(f"the embedded store is kept as {store}")
        show_line(f"start the broker with zookeeper.connect and broker.id={result.mark.new_broker_id}")


def _cancel(environment: TransferEnvironment, log_dirs: Sequence[str], *, json: bool) -> None:
    from odradek.adoption import store_transfer

    mark = _run(store_transfer.cancel_adoption(environment, log_dirs))
    if json:
        show_json({"cluster_id": mark.cluster_id, "cancelled": True})
    else:
        show_line(f"the adoption of cluster {mark.cluster_id} is cancelled; start the broker as before")


def _adopt_locally(
    directory: Path, data_dir: str, brokers: int | None, port: int | None, *, dry_run: bool, json: bool
) -> None:
    from odradek.adoption import broker_files, local_transfer, store_transfer
    from odradek.local_cluster.up_plan import UpOptions
    from odradek.system.files import RealFileSystem
    from odradek.system.local_zookeeper import free_port

    transfer = _local_transfer(directory, data_dir, is_silent=json)
    if not transfer.data_dir.is_dir():
        raise CommandFailed(f"--data-dir must be the data directory of a broker, got {data_dir}")
    spec = local_transfer.prepare_cluster(transfer, UpOptions(brokers, port), free_port)
    log_dirs = [str(transfer.data_dir)]
    if dry_run:
        _adopt(_transfer_environment(), log_dirs, local_transfer.FIRST, dry_run=True, json=json)
        return
    has_cluster = transfer.directory.load() is not None
    is_adopted = has_cluster and broker_files.was_adopted(RealFileSystem(), log_dirs)
    if not is_adopted:
        # Refused before anything is written or started.
        _run(store_transfer.plan_adoption(_transfer_environment(), log_dirs, local_transfer.FIRST))
    local_transfer.store_cluster(transfer, spec)

    async def run() -> None:
        async with local_transfer.running_zookeeper(transfer) as address:
            environment = _environment(_settings(None, None, data_dir, address, variables={}))
            if is_adopted:  # an earlier attempt did all but the move
                await store_transfer.check_adopted(environment, log_dirs)
                return
            report = _silent if json else _Progress().report
            result, _ = await store_transfer.adopt(environment, log_dirs, local_transfer.FIRST, report)
            _show(result, "adopted", json=json)

    _run(run())
    place = local_transfer.move_in(transfer)
    if not json:
        show_line(f"data moved to {place}")
        show_line(f"start the cluster with `odradek cluster up --directory {directory}`")


def _release(environment: TransferEnvironment, log_dirs: Sequence[str], *, dry_run: bool, json: bool) -> None:
    from odradek.adoption import broker_files, store_transfer
    from odradek.store.transfer.transfer_plan import count_partitions, count_topics

    if dry_run:
        planned = _run(store_transfer.plan_release(environment, log_dirs))
    else:
        report = _silent if json else _Progress().report
        planned = _run(store_transfer.release(environment, log_dirs, report))
    (broker_id,) = broker_files.read_identity(environment.files, log_dirs).broker_ids
    topics, partitions = count_topics(planned), count_partitions(planned)
    if json:
        show_json({"broker_id": broker_id, "topics": topics, "partitions": partitions, "dry_run": dry_run})
        return
    verb = "would release" if dry_run else "released"
    show_line(f"{verb} {topics} topics, {partitions} partitions ({len(planned)} nodes) to broker {broker_id}")
    if not dry_run:
        show_line(f"start it with `odradek serve --data-dir {log_dirs[0]} --set broker.id={broker_id}`")


def _release_locally(directory: Path, data_dir: str, broker: int, *, dry_run: bool, json: bool) -> None:
    from odradek.adoption import broker_files, local_transfer, store_transfer
    from odradek.local_cluster.cluster_spec import broker_name
    from odradek.system.files import RealFileSystem

    transfer = _local_transfer(directory, data_dir, is_silent=json)
    transfer.directory.require()
    log_dirs = [str(transfer.directory.data(broker_name(broker)))]
    local_transfer.check_outside(transfer.data_dir)

    async def run() -> None:
        async with local_transfer.running_zookeeper(transfer) as address:
            environment = _environment(_settings(None, None, log_dirs[0], address, variables={}))
            if dry_run:
                await store_transfer.plan_release(environment, log_dirs)
            else:
                await store_transfer.release(environment, log_dirs, _silent if json else _Progress().report)

    if not broker_files.has_store(RealFileSystem(), log_dirs):  # else only the move is missing
        _run(run())
    if dry_run:
        show_line(f"broker {broker} has every partition and can be released")
        return
    local_transfer.move_out(transfer, broker)
    if json:
        show_json({"broker_id": broker, "data_dir": data_dir})
    else:
        show_line(f"start it with `odradek serve --data-dir {data_dir} --set broker.id={broker}`")


def _show(result: TransferResult, verb: str, *, json: bool) -> None:
    mark = result.mark
    if json:
        show_json(
            {
                "cluster_id": mark.cluster_id,
                "broker_id": mark.broker_id,
                "new_broker_id": mark.new_broker_id,
                "topics": result.topics,
                "partitions": result.partitions,
                "nodes": result.nodes,
            }
        )
        return
    renamed = "" if mark.broker_id == mark.new_broker_id else f", now broker {mark.new_broker_id}"
    show_line(
        f"{verb} cluster {mark.cluster_id}: {result.topics} topics, {result.partitions} partitions "
        f"({result.nodes} nodes) of broker {mark.broker_id}{renamed}"
    )


class _Progress:
    """Prints progress at each tenth of a long transfer."""

    def __init__(self) -> None:
        self._tenths = 0

    def report(self, written: int, total: int) -> None:
        tenths = written * 10 // total
        if total >= PROGRESS_NODES_MIN and tenths > self._tenths:
            show_line(f"copied {written} of {total} nodes", flush=True)
            self._tenths = tenths


def _silent(_written: int, _total: int) -> None:
    """Print nothing: the output is JSON."""


def _run(work: Coroutine[Any, Any, T]) -> T:
    from odradek.model.errors import StorageError
    from odradek.store.port import StoreError
    from odradek.store.transfer.transfer_plan import TransferRefused

    try:
        return asyncio.run(work)
    except (TransferRefused, StorageError, StoreError, OSError) as error:
        raise CommandFailed(str(error)) from error


def _settings(
    config: Path | None,
    pairs: list[str] | None,
    data_dir: str | None,
    zookeeper_connect: str | None,
    variables: dict[str, str] | None = None,
) -> Settings:
    from odradek.config import broker, sources

    arguments = [*(pairs or ())]
    if data_dir is not None:
        arguments.append(f"log.dirs={data_dir}")
    if zookeeper_connect is not None:
        arguments.append(f"zookeeper.connect={zookeeper_connect}")
    try:
        text = None if config is None else config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"--config: {config} cannot be read: {error}") from error
    loaded = sources.load(text, dict(os.environ) if variables is None else variables, arguments)
    if not loaded.settings[broker.ZOOKEEPER_CONNECT]:
        usage_error("--zookeeper-connect or --directory is required, or a --config with zookeeper.connect")
    return loaded.settings


def _check_version(settings: Settings) -> None:
    from odradek.broker.start_checks import metadata_version
    from odradek.cluster.metadata_version import LATEST

    if metadata_version(settings) != LATEST:
        raise CommandFailed(
            f"inter.broker.protocol.version must be {LATEST}, as of a broker with an embedded store, got "
            f"{metadata_version(settings)}"
        )


def _log_dirs(settings: Settings) -> list[str]:
    from odradek.config import derived

    return [os.path.abspath(path) for path in derived.log_dirs(settings)]


def _environment(settings: Settings) -> TransferEnvironment:
    from odradek.store.zookeeper.ensemble import open_zookeeper

    return _transfer_environment()._replace(open_zookeeper=lambda: open_zookeeper(settings))


def _transfer_environment() -> TransferEnvironment:
    """Return an environment with an empty store in place of ZooKeeper."""
    from odradek.adoption.store_transfer import TransferEnvironment
    from odradek.store.embedded.database import MEMORY
    from odradek.store.embedded.ensemble import EmbeddedEnsemble
    from odradek.system.clock import SystemClock
    from odradek.system.files import RealFileSystem

    clock = SystemClock()
    return TransferEnvironment(
        RealFileSystem(),
        clock,
        lambda path: EmbeddedEnsemble(path, clock),
        lambda: EmbeddedEnsemble(MEMORY, clock),
    )


def _local_transfer(directory: Path, data_dir: str, *, is_silent: bool) -> LocalTransfer:
    from odradek.adoption.local_transfer import LocalTransfer
    from odradek.local_cluster.cluster_directory import ClusterDirectory
    from odradek.local_cluster.commands import make_supervisor

    supervisor = make_supervisor(directory, is_silent=is_silent)
    return LocalTransfer(ClusterDirectory(directory), supervisor, Path(data_dir).absolute())
