"""All faults of clusters of processes, by the numbers of the list of faults in docs/correctness.md.

To add a fault, write ``fault(scene: Scene) -> None``: it notes when it begins (``scene.note``), and heals
what it broke unless ``cluster.restore`` does. Then add an entry here; ``needs`` says what the machine must
have, ``cluster`` makes the cluster it is played on. Faults with the same number and cluster share scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.cluster_faults.harness import (
    cleaning_faults,
    clock_faults,
    copies,
    disk_faults,
    faults,
    group_faults,
    ledgers,
    power_faults,
)
from tests.cluster_faults.harness.disks import why_no_preload
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.link_faults import CONNECTION_FAULTS, PACKET_FAULTS
from tests.cluster_faults.harness.networks import Loopback, Namespaces, why_no_loss, why_no_namespaces
from tests.cluster_faults.harness.power_loss import why_no_power_loss
from tests.cluster_faults.harness.powered_clusters import FlushingCluster, LosingCluster
from tests.cluster_faults.harness.proxied_cluster import ProxiedCluster
from tests.cluster_faults.harness.request_faults import request_faults
from tests.cluster_faults.harness.scene import Scene
from tests.cluster_faults.harness.topic_changes import change_topics, cut_off, killed
from tests.cluster_faults.harness.unclean_elections import UNCLEAN_ELECTIONS
from tests.faults.storage.full_disk import why_no_disk

Fault = Callable[[Scene], None]
MakeCluster = Callable[[Path], FaultCluster]


class Need(Enum):
    """Abilities of the machine that a fault needs."""

    NAMESPACES = "network namespaces, and root"
    LOSS = "links that lose packets"
    TMPFS = "a tmpfs, and root"
    COMPILER = "a C compiler"
    POWER_LOSS = "a file system that drops what is not synced, and root"


_REASONS: Final[dict[Need, Callable[[], str | None]]] = {
    Need.NAMESPACES: why_no_namespaces,
    Need.LOSS: why_no_loss,
    Need.TMPFS: why_no_disk,
    Need.COMPILER: why_no_preload,
    Need.POWER_LOSS: why_no_power_loss,
}


@cache
def why_missing(need: Need) -> str | None:
    """Return why this machine does not have what a fault needs; None if it has."""
    return _REASONS[need]()


def direct_cluster(home: Path) -> FaultCluster:
    """Make a cluster in namespaces where that is possible, else on loopback."""
    return FaultCluster(home, Loopback() if why_missing(Need.NAMESPACES) else Namespaces(BROKERS))


class Entry(NamedTuple):
    number: str
    name: str
    play: Fault
    needs: tuple[Need, ...] = ()
    cluster: MakeCluster = direct_cluster
    is_long: bool = False
    """True for a fault that takes minutes: it is played once, however many rounds there are."""

    @property
    def why_not(self) -> str | None:
        """Reason why it cannot be played here."""
        return next(filter(None, map(why_missing, self.needs)), None)


def _entries(
    number: str,
    named: Mapping[str, Fault] | tuple[Fault, ...],
    needs: tuple[Need, ...] = (),
    cluster: MakeCluster = direct_cluster,
    *,
    is_long: bool = False,
) -> list[Entry]:
    if not isinstance(named, Mapping):
        named = {fault.__name__: fault for fault in named}
    return [Entry(number, name, fault, needs, cluster, is_long) for name, fault in named.items()]


CATALOGUE: Final = (
    *_entries("R1", faults.KILLS),
    *_entries("R2", (faults.kill_all,)),
    *_entries("R3", power_faults.POWER_LOSSES, (Need.POWER_LOSS,), LosingCluster),
    *_entries("R3", power_faults.POWER_LOSSES_OF_ALL, (Need.POWER_LOSS,), FlushingCluster),
    *_entries("R4", faults.PAUSES),
    *_entries("R5", faults.CUTS, (Need.NAMESPACES,)),
    *_entries("R6", PACKET_FAULTS, (Need.LOSS,)),
    *_entries("R6", CONNECTION_FAULTS, cluster=ProxiedCluster),
    *_entries("R7", request_faults(), cluster=ProxiedCluster),
    *_entries("R8", faults.STORE),
    *_entries("R9", UNCLEAN_ELECTIONS),
    *_entries("R10", disk_faults.FULL_DISKS, (Need.TMPFS,)),
    *_entries("R11", disk_faults.FAILING_DISKS, (Need.COMPILER,)),
    *_entries("R14", copies.COPIES),
    *_entries("R15", clock_faults.CLOCKS, (Need.COMPILER,)),
    *_entries("R16", (faults.roll,)),
    *_entries("R17", {"change_topics_killed": partial(change_topics, away=killed)}),
    *_entries("R17", {"change_topics_cut_off": partial(change_topics, away=cut_off)}, (Need.NAMESPACES,)),
    *_entries("R18", group_faults.GROUPS),
    *_entries("R18", (group_faults.crash_half_of_many,), is_long=True),
    *_entries("R19", (ledgers.keep_long_ledger,)),
    *_entries("R20", cleaning_faults.CLEANING),
)


def chosen_entries(only: str) -> tuple[list[Entry], dict[str, str]]:
    """Return entries that can be played here, and why others cannot.

    ``only`` names numbers or parts of names, separated by commas.
    """
    parts = only.split(",")
    chosen = [
        entry for entry in CATALOGUE if any(entry.number == part or part in entry.name for part in parts)
    ]
    reasons = {f"{entry.number} {entry.name}": entry.why_not for entry in chosen}
    possible = [entry for entry in chosen if not entry.why_not]
    return possible, {name: reason for name, reason in reasons.items() if reason}
