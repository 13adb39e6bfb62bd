"""Leader election algorithms (Kafka's PartitionLeaderElectionAlgorithms)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.model.ids import NO_LEADER
from odradek.store.znodes import LeaderIsrAndControllerEpoch


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
) -> LeaderIsrAndControllerEpoch | None:
    """Elect the first live ISR member; return None if there is none, and the partition stays offline.

    Dead replicas leave the ISR, except its last member, so that no committed record is lost.
    """
    live_isr = tuple(replica for replica in leader_and_isr.isr if replica in live)
    leader = next((replica for replica in replicas if replica in live_isr), None)
    if leader is None:
        return None
    return LeaderIsrAndControllerEpoch(leader, leader_and_isr.leader_epoch + 1, live_isr, controller_epoch)


def without_leader(
    leader_and_isr: LeaderIsrAndControllerEpoch, controller_epoch: int
) -> LeaderIsrAndControllerEpoch:
    """Return the state without a leader. The ISR stays: one of its members must return first."""
    return LeaderIsrAndControllerEpoch(
        NO_LEADER, leader_and_isr.leader_epoch + 1, leader_and_isr.isr, controller_epoch
    )
