"""A local cluster made of one broker's data, and back.

The data directory becomes that of broker 1 once ZooKeeper has everything: it is moved, not copied. The local
ZooKeeper runs during the transfer only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from odradek.local_cluster.broker_properties import check_settings
from odradek.local_cluster.cluster_directory import ClusterDirectory
from odradek.local_cluster.cluster_spec import HOST, ZOOKEEPER, ClusterSpec, broker_name
from odradek.local_cluster.cluster_state import ClusterState
from odradek.local_cluster.errors import ClusterError
from odradek.local_cluster.supervisor import Supervisor
from odradek.local_cluster.up_plan import ExistingCluster, UpOptions, plan_up

FIRST: Final = 1


class LocalTransfer(NamedTuple):
    """A local cluster, and the data directory of a broker outside."""

    directory: ClusterDirectory
    supervisor: Supervisor
    data_dir: Path


def prepare_cluster(
    transfer: LocalTransfer, options: UpOptions, choose_port: Callable[[], int]
) -> ClusterSpec:
    """Return the cluster to adopt the data, without writing anything."""
    directory = transfer.directory
    directory.check()
    state = directory.load()
    if state is not None and directory.data(broker_name(FIRST)).exists():
        raise ClusterError(f"the cluster in {directory.path} has data already; choose another --directory")
    existing = None if state is None else ExistingCluster(state.spec)
    spec = plan_up(existing, options, str(directory.path), choose_port)
    check_settings(spec)
    _check_same_device(transfer.data_dir, directory.root)
    return spec


def store_cluster(transfer: LocalTransfer, spec: ClusterSpec) -> None:
    """Create the directory of the cluster."""
    directory = transfer.directory
    directory.create()
    state = directory.load()
    directory.save(ClusterState(spec, {} if state is None else state.processes))


@asynccontextmanager
async def running_zookeeper(transfer: LocalTransfer) -> AsyncIterator[str]:
    """Yield the address of the cluster's ZooKeeper, which runs meanwhile."""
    spec = transfer.directory.require().spec
    is_started = await transfer.supervisor.start(ZOOKEEPER)
    try:
        yield f"{HOST}:{spec.zookeeper_port}"
    finally:
        if is_started:
            await transfer.supervisor.stop(ZOOKEEPER)


def move_in(transfer: LocalTransfer) -> Path:
    """Move the data directory to broker 1; return its new place."""
    target = transfer.directory.data(broker_name(FIRST))
    target.parent.mkdir(exist_ok=True)
    _move(transfer.data_dir, target)
    return target


def check_outside(data_dir: Path) -> None:
    """Refuse a place for released data that is in use."""
    if data_dir.exists():
        raise ClusterError(f"{data_dir} exists; choose another --data-dir")


def move_out(transfer: LocalTransfer, number: int) -> None:
    """Move the data of a broker to the data directory."""
    _move(transfer.directory.data(broker_name(number)), transfer.data_dir)


def _check_same_device(data_dir: Path, root: Path) -> None:
    ancestor = next(parent for parent in (root, *root.parents) if parent.exists())
    if data_dir.stat().st_dev != ancestor.stat().st_dev:
        raise ClusterError(
            f"{data_dir} must be on the file system of {ancestor}, because it is moved, not copied; choose "
            "another --directory"
        )


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        raise ClusterError(
            f"{source} cannot be moved to {target}: {error.strerror}; move it with mv, or repeat this command"
        ) from error
