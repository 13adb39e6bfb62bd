"""Leader choice, from plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.model.ids import NO_LEADER
from odradek.store.znodes import LeaderIsrAndControllerEpoch


def elect_first_leader(
    replicas: Sequence[int], live: Collection[int], controller_epoch: int
) -> LeaderIsrAndControllerEpoch | None:
    """The state of a partition that never had one: its live replicas, led by the first of them."""
    isr = tuple(replica for replica in replicas if replica in live)
    if not isr:
        return None
    return LeaderIsrAndControllerEpoch(isr[0], 0, isr, controller_epoch)


def elect_offline_leader(
    state: LeaderIsrAndControllerEpoch, replicas: Sequence[int], live: Collection[int], controller_epoch: int
) -> LeaderIsrAndControllerEpoch | None:
    """Lead by the first live replica that is in sync; None if there is none, and the partition stays offline.

    Replicas that are gone leave the in-sync set; its last member stays in it, so that nothing is lost.
    """
    in_sync = tuple(replica for replica in state.isr if replica in live)
    leader = next((replica for replica in replicas if replica in in_sync), None)
    if leader is None:
        return None
    return LeaderIsrAndControllerEpoch(leader, state.leader_epoch + 1, in_sync, controller_epoch)


def without_leader(state: LeaderIsrAndControllerEpoch, controller_epoch: int) -> LeaderIsrAndControllerEpoch:
    """Nobody can lead; those in sync stay so, as one of them must be back before anyone may."""
    return LeaderIsrAndControllerEpoch(NO_LEADER, state.leader_epoch + 1, state.isr, controller_epoch)
