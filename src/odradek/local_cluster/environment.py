"""Parts of this machine that a supervisor uses. ``commands`` passes the real ones, tests pass fakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import NamedTuple

from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.local_cluster.status.cluster_view import ClusterView
from odradek.ports.clock import Clock
from odradek.ports.processes import Processes


class Environment(NamedTuple):
    """Processes, time, ports of this machine, and the programs to start."""

    processes: Processes
    clock: Clock
    choose_port: Callable[[], int]
    is_port_free: Callable[[int], bool]
    is_listening: Callable[[int], bool]
    is_zookeeper_serving: Callable[[int, Path], bool]
    """Returns whether the server of this data directory, and not another one, serves on a port."""
    registered_brokers: Callable[[int], Collection[int]]
    """Returns the ids that sessions of the ZooKeeper server on a port have registered."""
    zookeeper_command: Callable[[], list[str]]
    """Returns the command without its configuration file; raises ClusterError if something is missing."""
    zookeeper_config: Callable[[Path, int, int], str]
    """Returns ``zoo.cfg`` for a data directory, a port and a ``tickTime``."""
    broker_command: list[str]
    observe: Callable[[ClusterSpec, Collection[int]], Awaitable[ClusterView | None]]
