"""The cluster that ``odradek cluster up`` starts, from its options and the cluster of before. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.local_cluster.cluster_spec import BROKERS_MAX, NO_SETTINGS, ClusterSpec, cluster_command, label
from odradek.local_cluster.errors import ClusterError

DEFAULT_BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
PORT_MAX: Final = 65535
CLUSTER_FILE: Final = "cluster.json"
LOCK_FILE: Final = "lock"
_OWN_ENTRIES: Final = {CLUSTER_FILE, LOCK_FILE}
_BROKER_ENTRIES: Final = {"meta.properties", "odradek-store.sqlite"}
_PORT_STEP: Final = 10
_PORT_CHOICES: Final = 100

# Set for each broker.
_OWN_SETTINGS: Final = {
    "broker.id": "brokers are numbered from 1",
    "node.id": "brokers are numbered from 1",
    "broker.rack": "use --racks",
    "listeners": "use --port",
    "advertised.listeners": "use --port",
    "log.dir": "use --directory",
    "log.dirs": "use --directory",
    "zookeeper.connect": "the cluster starts its own ZooKeeper",
}


class UpOptions(NamedTuple):
    """Options of ``up``; None if absent."""

    brokers: int | None = None
    port: int | None = None
    zookeeper_port: int | None = None
    racks: tuple[str, ...] | None = None
    settings: Mapping[str, str] = NO_SETTINGS


class ExistingCluster(NamedTuple):
    """The cluster of a directory: members that are running, and replicas by broker if brokers respond."""

    spec: ClusterSpec
    running: Collection[str] = ()
    replicas: Mapping[int, int] | None = None


def check_entries(entries: Collection[str], directory: str) -> None:
    """Refuse a directory without a cluster that holds something else."""
    if CLUSTER_FILE in entries:
        return
    if _BROKER_ENTRIES & set(entries):
        raise ClusterError(
            f"{directory} holds the data of a single broker; choose another --directory for the cluster"
        )
    if others := sorted(set(entries) - _OWN_ENTRIES):
        raise ClusterError(
            f"{directory} is not empty and holds no cluster ({others[0]}); choose another --directory"
        )


def plan_up(
    existing: ExistingCluster | None, options: UpOptions, directory: str, choose_port: Callable[[], int]
) -> ClusterSpec:
    """Return the cluster to run, from the options and the cluster of before.

    What an option does not say stays as it was. Brokers may be added at any time, and removed while the
    cluster shows that they have no replicas; everything else changes only while the cluster is stopped.
    ``choose_port`` returns a free port, for ZooKeeper.
    """
    _check_options(options)
    if existing is None:
        port = DEFAULT_PORT if options.port is None else options.port
        spec = ClusterSpec(
            options.brokers or DEFAULT_BROKERS,
            port,
            options.zookeeper_port or choose_port(),
            options.racks or (),
            dict(options.settings),
        )
    else:
        spec = _merge(existing.spec, options)
        _check_removed_brokers(existing, spec, directory)
        if existing.running and spec._replace(brokers=existing.spec.brokers) != existing.spec:
            names = _differences(existing.spec, spec)
            down = cluster_command("down", directory)
            raise ClusterError(
                f"the cluster in {directory} is running with other options ({names}); stop it first with "
                f"{down}, or choose another --directory"
            )
    _check_ports(spec)
    return spec


def _check_options(options: UpOptions) -> None:
    if options.brokers is not None and not 1 <= options.brokers <= BROKERS_MAX:
        raise ClusterError(f"--brokers must be between 1 and {BROKERS_MAX}, got {options.brokers}")
    for name in options.settings:
        if name in _OWN_SETTINGS:
            raise ClusterError(f"--set {name} is not possible in a local cluster: {_OWN_SETTINGS[name]}")
    if options.racks is not None and not all(rack and rack == rack.strip() for rack in options.racks):
        raise ClusterError(f"--racks must be names with commas between, got {','.join(options.racks)!r}")


def _merge(previous: ClusterSpec, options: UpOptions) -> ClusterSpec:
    return ClusterSpec(
        options.brokers or previous.brokers,
        previous.port if options.port is None else options.port,
        options.zookeeper_port or previous.zookeeper_port,
        previous.racks if options.racks is None else options.racks,
        {**previous.settings, **options.settings},
    )


def _check_removed_brokers(existing: ExistingCluster, spec: ClusterSpec, directory: str) -> None:
    """Refuse to remove brokers that have replicas, or may have some."""
    before = existing.spec.brokers
    if spec.brokers >= before:
        return
    if existing.replicas is None:
        up = cluster_command("up --detach", directory)
        raise ClusterError(
            f"--brokers must be at least {before} while no broker responds, got {spec.brokers}: brokers may "
            f"have replicas; start all with {up} first"
        )
    for number in existing.spec.numbers[spec.brokers :]:
        if count := existing.replicas.get(number, 0):
            raise ClusterError(
                f"--brokers must be at least {before}, got {spec.brokers}: broker {number} has {count} "
                "replicas; move them to other brokers with `odradek reassign` first"
            )


def _differences(previous: ClusterSpec, spec: ClusterSpec) -> str:
    options = {
        "port": "--port",
        "zookeeper_port": "--zookeeper-port",
        "racks": "--racks",
        "settings": "--set",
    }
    return ", ".join(
        option for name, option in options.items() if getattr(previous, name) != getattr(spec, name)
    )


def _check_ports(spec: ClusterSpec) -> None:
    ports = range(spec.port, spec.port + spec.brokers)
    if spec.port < 1 or ports[-1] > PORT_MAX:
        raise ClusterError(
            f"--port must leave room for {spec.brokers} ports up to {PORT_MAX}, got {spec.port}"
        )
    if not 1 <= spec.zookeeper_port <= PORT_MAX:
        raise ClusterError(f"--zookeeper-port must be between 1 and {PORT_MAX}, got {spec.zookeeper_port}")
    if spec.zookeeper_port in ports:
        raise ClusterError(
            f"--zookeeper-port must not be a broker's port ({ports[0]} to {ports[-1]}), "
            f"got {spec.zookeeper_port}"
        )


def check_ports(spec: ClusterSpec, missing: Iterable[str], is_free: Callable[[int], bool]) -> None:
    """Refuse to start members whose ports other programs use."""
    busy = [member for member in missing if not is_free(spec.port_of(member))]
    if not busy:
        return
    ports = ", ".join(f"{spec.port_of(member)} ({label(member)})" for member in busy)
    verb = "is" if len(busy) == 1 else "are"
    option = "--zookeeper-port" if spec.port_of(busy[0]) == spec.zookeeper_port else "--port"
    base = spec.port if option == "--port" else spec.zookeeper_port
    count = spec.brokers if option == "--port" else 1
    hint = f"{option} {free_base}" if (free_base := _free_base(base, count, is_free)) else option
    raise ClusterError(f"port {ports} {verb} in use by another program; stop it, or use {hint}")


def _free_base(base: int, count: int, is_free: Callable[[int], bool]) -> int | None:
    """Return the first of some consecutive free ports, if there are any near ``base``."""
    for start in range(base + _PORT_STEP, PORT_MAX - count, _PORT_STEP)[:_PORT_CHOICES]:
        if all(is_free(port) for port in range(start, start + count)):
            return start
    return None
