"""Adoption and release of a stopped broker: its locks, its files and both stores, in order.

An embedded store is closed before its file is renamed, so that the file is complete.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from odradek.adoption import broker_files
from odradek.broker.environment import Ensemble
from odradek.broker.start_checks import store_path
from odradek.ports.clock import Clock
from odradek.ports.files import FileSystem
from odradek.store.broker_registration import read_cluster_id
from odradek.store.port import Store
from odradek.store.transfer import transfer
from odradek.store.transfer.transfer import Report, TransferResult
from odradek.store.transfer.transfer_mark import TransferMark
from odradek.store.transfer.transfer_plan import PlannedNode, TransferRefused


class TransferEnvironment(NamedTuple):
    """Ports of a transfer. ``open_embedded`` takes the path of the store."""

    files: FileSystem
    clock: Clock
    open_embedded: Callable[[str], Ensemble]
    open_zookeeper: Callable[[], Ensemble]


async def plan_adoption(
    environment: TransferEnvironment, log_dirs: Sequence[str], broker_id: int | None
) -> TransferResult:
    """Return the result of an adoption without writing anything."""
    files = environment.files
    with broker_files.locked(files, log_dirs):
        _require_store(files, log_dirs)
        identity = broker_files.read_identity(files, log_dirs)
        async with _both(environment, log_dirs) as (embedded, zookeeper):
            return await transfer.plan_adoption(embedded, zookeeper, identity, broker_id)


async def adopt(
    environment: TransferEnvironment, log_dirs: Sequence[str], broker_id: int | None, report: Report
) -> tuple[TransferResult, str]:
    """Carry a broker's embedded store over to ZooKeeper; return the result and the store's new name."""
    files = environment.files
    with broker_files.locked(files, log_dirs):
        _require_store(files, log_dirs)
        identity = broker_files.read_identity(files, log_dirs)
        async with _both(environment, log_dirs) as (embedded, zookeeper):
            result = await transfer.adopt(embedded, zookeeper, identity, broker_id, report)
        now_ms = environment.clock.wall_ms()
        return result, broker_files.complete_adoption(files, log_dirs, result.mark, now_ms)


async def check_adopted(environment: TransferEnvironment, log_dirs: Sequence[str]) -> None:
    """Refuse log directories that were adopted by another ZooKeeper."""
    identity = broker_files.read_identity(environment.files, log_dirs)
    async with _session(environment.open_zookeeper()) as zookeeper:
        cluster_id = await read_cluster_id(zookeeper)
    if cluster_id != identity.cluster_id:
        raise TransferRefused(
            f"{log_dirs[0]} was adopted by another ZooKeeper: it belongs to cluster {identity.cluster_id}, "
            f"this is {cluster_id or 'empty'}"
        )


async def cancel_adoption(environment: TransferEnvironment, log_dirs: Sequence[str]) -> TransferMark:
    """Undo an adoption that is not complete."""
    files = environment.files
    with broker_files.locked(files, log_dirs):
        _require_store(files, log_dirs)
        identity = broker_files.read_identity(files, log_dirs)
        async with _both(environment, log_dirs) as (embedded, zookeeper):
            return await transfer.cancel_adoption(embedded, zookeeper, identity)


async def plan_release(environment: TransferEnvironment, log_dirs: Sequence[str]) -> list[PlannedNode]:
    """Return the nodes of a release without writing anything."""
    files = environment.files
    with broker_files.locked(files, log_dirs):
        _refuse_store(files, log_dirs)
        identity = broker_files.read_identity(files, log_dirs)
        async with _session(environment.open_zookeeper()) as zookeeper:
            return await transfer.plan_release(zookeeper, identity)


async def release(
    environment: TransferEnvironment, log_dirs: Sequence[str], report: Report
) -> list[PlannedNode]:
    """Carry a cluster of one broker over from ZooKeeper to a new embedded store; return its nodes."""
    files = environment.files
    with broker_files.locked(files, log_dirs):
        _refuse_store(files, log_dirs)
        identity = broker_files.read_identity(files, log_dirs)
        async with _session(environment.open_zookeeper()) as zookeeper:
            await transfer.plan_release(zookeeper, identity)  # refused before there is a new file
            path = broker_files.new_store_path(files, log_dirs)
            async with _session(environment.open_embedded(path)) as embedded:
                planned = await transfer.release(zookeeper, embedded, identity, report)
        broker_files.complete_release(files, log_dirs)
        return planned


def _require_store(files: FileSystem, log_dirs: Sequence[str]) -> None:
    if broker_files.was_adopted(files, log_dirs):
        raise TransferRefused(f"{log_dirs[0]} was adopted already; start the broker with zookeeper.connect")
    if not broker_files.has_store(files, log_dirs):
        raise TransferRefused(
            f"{store_path(log_dirs)} must be the embedded store of a broker, got no file. The first of "
            "log.dirs has it"
        )


def _refuse_store(files: FileSystem, log_dirs: Sequence[str]) -> None:
    if broker_files.has_store(files, log_dirs):
        raise TransferRefused(
            f"{store_path(log_dirs)} exists: the broker has an embedded store already. Start it without "
            "zookeeper.connect"
        )


@asynccontextmanager
async def _both(
    environment: TransferEnvironment, log_dirs: Sequence[str]
) -> AsyncIterator[tuple[Store, Store]]:
    async with (
        _session(environment.open_embedded(store_path(log_dirs))) as embedded,
        _session(environment.open_zookeeper()) as zookeeper,
    ):
        yield embedded, zookeeper


@asynccontextmanager
async def _session(ensemble: Ensemble) -> AsyncIterator[Store]:
    try:
        yield await ensemble.open_session()
    finally:
        await ensemble.close()
