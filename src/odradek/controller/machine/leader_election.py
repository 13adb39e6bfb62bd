"""Leader elections (Kafka's Election and PartitionLeaderElectionAlgorithms), and changes of the ISR. Pure.

Each function takes the stored state of a partition and returns the next one, or None if no replica can lead.
Every next state has a new leader epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum

from odradek.model.ids import NO_LEADER
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch


class Election(Enum):
    """Kinds of elections in partitions that have a state."""

    OFFLINE = "offline"
    """The leader has failed. Topics with unclean.leader.election.enable accept any live replica."""
    UNCLEAN = "unclean"
    """The same on request, for any topic."""
    PREFERRED = "preferred"
    REASSIGNMENT = "reassignment"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


def elect_first_leader(
    replicas: Sequence[int], live: Collection[int], controller_epoch: int
) -> LeaderIsrAndControllerEpoch | None:
    """Return the first state of a new partition: the live replicas as ISR, the first of them as leader."""
    isr = tuple(replica for replica in replicas if replica in live)
    if not isr:
        return None
    return LeaderIsrAndControllerEpoch(isr[0], 0, isr, controller_epoch)


def elect_offline_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    replicas: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
    *,
    is_unclean: bool = False,
    is_recovery_supported: bool = True,
) -> LeaderIsrAndControllerEpoch | None:
    """Elect the first live ISR member; dead ones leave the ISR.

    Without a live member the partition stays offline, so that no committed record is lost. An unclean
    election takes any live replica then; it is the only ISR member, and the partition is recovering.
    """
    live_isr = tuple(replica for replica in leader_and_isr.isr if replica in live)
    leader = next((replica for replica in replicas if replica in live_isr), None)
    if leader is not None:
        return _with(leader_and_isr, leader, live_isr, controller_epoch)
    leader = next((replica for replica in replicas if replica in live), None) if is_unclean else None
    if leader is None:
        return None
    elected = _with(leader_and_isr, leader, (leader,), controller_epoch)
    return replace(elected, is_recovering=True) if is_recovery_supported else elected


def elect_preferred_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    replicas: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
) -> LeaderIsrAndControllerEpoch | None:
    """Elect the first replica, if it is live and in the ISR."""
    return _elect_in_sync(leader_and_isr, replicas[:1], live, controller_epoch)


def elect_reassignment_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    target: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
) -> LeaderIsrAndControllerEpoch | None:
    """Keep a live leader in the target, or elect the first live target replica in the ISR.

    All others leave the ISR with this write: a leader that knows only the target does not wait for them.
    """
    isr = tuple(replica for replica in leader_and_isr.isr if replica in target)
    candidates = [leader_and_isr.leader, *target]
    return _elect_in_sync(replace(leader_and_isr, isr=isr), candidates, live, controller_epoch)


def elect_shutdown_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    replicas: Sequence[int],
    live: Collection[int],
    shutting_down: Collection[int],
    controller_epoch: int,
) -> LeaderIsrAndControllerEpoch | None:
    """Elect the first live ISR member that is not shutting down; those that are leave the ISR."""
    isr = tuple(replica for replica in leader_and_isr.isr if replica not in shutting_down)
    return _elect_in_sync(replace(leader_and_isr, isr=isr), replicas, live, controller_epoch)


def elect_after_restart(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    replicas: Sequence[int],
    live: Collection[int],
    restarted: Collection[int],
    controller_epoch: int,
) -> LeaderIsrAndControllerEpoch | None:
    """Start a new leader epoch after live brokers have restarted: they leave the ISR, and lead no longer.

    If no other member is live, leader and ISR stay. None: the leader is dead, too, and an election follows.
    """
    isr = tuple(member for member in leader_and_isr.isr if member in live and member not in restarted)
    if isr:
        candidates = [leader_and_isr.leader, *replicas]
        return _elect_in_sync(replace(leader_and_isr, isr=isr), candidates, live, controller_epoch)
    if leader_and_isr.leader in live:
        return increment_leader_epoch(leader_and_isr, controller_epoch)
    return None


def remove_from_isr(
    leader_and_isr: LeaderIsrAndControllerEpoch, replica: int, controller_epoch: int
) -> LeaderIsrAndControllerEpoch:
    """Remove a replica. The last in-sync one stays, without leading: it has every committed record."""
    leader = NO_LEADER if leader_and_isr.leader == replica else leader_and_isr.leader
    isr = tuple(member for member in leader_and_isr.isr if member != replica) or leader_and_isr.isr
    return _with(leader_and_isr, leader, isr, controller_epoch)


def remove_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch, controller_epoch: int
) -> LeaderIsrAndControllerEpoch | None:
    """Start a leader epoch without a leader; None if there is none already. The ISR stays."""
    if leader_and_isr.leader == NO_LEADER:
        return None
    return _with(leader_and_isr, NO_LEADER, leader_and_isr.isr, controller_epoch)


def increment_leader_epoch(
    leader_and_isr: LeaderIsrAndControllerEpoch, controller_epoch: int
) -> LeaderIsrAndControllerEpoch:
    """Keep leader and ISR in a new leader epoch."""
    return _with(leader_and_isr, leader_and_isr.leader, leader_and_isr.isr, controller_epoch)


def _elect_in_sync(
    leader_and_isr: LeaderIsrAndControllerEpoch,
    candidates: Sequence[int],
    live: Collection[int],
    controller_epoch: int,
) -> LeaderIsrAndControllerEpoch | None:
    """Elect the first candidate that is live and in the ISR; the ISR stays."""
    isr = leader_and_isr.isr
    leader = next((replica for replica in candidates if replica in live and replica in isr), None)
    return None if leader is None else _with(leader_and_isr, leader, isr, controller_epoch)


def _with(
    before: LeaderIsrAndControllerEpoch, leader: int, isr: tuple[int, ...], controller_epoch: int
) -> LeaderIsrAndControllerEpoch:
    epoch = before.leader_epoch + 1
    return LeaderIsrAndControllerEpoch(leader, epoch, isr, controller_epoch, before.is_recovering)
