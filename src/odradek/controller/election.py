"""Leader choice, from plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.model.ids import NO_LEADER
from odradek.store.payloads import PartitionState


def first_state(
    replicas: Sequence[int], live: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """The state of a partition that never had one: its live replicas, led by the first of them."""
    isr = tuple(replica for replica in replicas if replica in live)
    if not isr:
        return None
    return PartitionState(isr[0], 0, isr, controller_epoch)


def state_after_offline(
    state: PartitionState, replicas: Sequence[int], live: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """Lead by the first live replica that is in sync; None if there is none, and the partition stays offline.

    Replicas that are gone leave the in-sync set; its last member stays in it, so that nothing is lost.
    """
    in_sync = tuple(replica for replica in state.isr if replica in live)
    leader = next((replica for replica in replicas if replica in in_sync), None)
    if leader is None:
        return None
    return PartitionState(leader, state.leader_epoch + 1, in_sync, controller_epoch)


def state_without_leader(state: PartitionState, controller_epoch: int) -> PartitionState:
    """Nobody can lead; those in sync stay so, as one of them must be back before anyone may."""
    return PartitionState(NO_LEADER, state.leader_epoch + 1, state.isr, controller_epoch)
