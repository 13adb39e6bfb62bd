"""Which brokers get the replicas of a topic's partitions: Kafka's own way, so that clusters can be mixed.

First replicas (preferred leaders) go round the brokers from ``start_index``. The others follow at a distance
that grows by one with each round, so that the followers of one broker's partitions spread over all others.
With racks the brokers are first put in an order that alternates between racks, and a replica skips brokers
in racks that have one while there are racks that have none.

Invariants: no broker twice in a partition; first replicas and replicas differ by at most one between brokers
over whole rounds; with racks, a partition is in as many racks as it can be. Chance is the caller's: both
starting numbers are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.model.errors import BrokerError, ErrorCode

Assignment = dict[int, tuple[int, ...]]


class BrokerRack(NamedTuple):
    """A broker that may get replicas."""

    id: int
    rack: str | None = None


def assign_replicas(
    brokers: Sequence[BrokerRack],
    partition_count: int,
    replication_factor: int,
    start_index: int,
    start_shift: int,
    first_partition: int = 0,
) -> Assignment:
    """Replicas for ``partition_count`` partitions, numbered from ``first_partition``.

    Raises INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR; as Kafka does, UNKNOWN_SERVER_ERROR if only some
    brokers have racks.
    """
    _check(brokers, partition_count, replication_factor)
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    order = _alternate_racks(racks) if racks else sorted(broker.id for broker in brokers)
    assignment: Assignment = {}
    shift = start_shift
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start_index) % len(order)
        if racks:
            replicas = _spread_over_racks(order, racks, first, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            replicas = (order[first], *(order[_follower(first, shift, n, len(order))] for n in followers))
        assignment[partition] = replicas
    return assignment


def assign_added_replicas(
    brokers: Sequence[BrokerRack],
    partition_count: int,
    existing_count: int,
    first_replicas: Sequence[int],
) -> Assignment:
    """Replicas for partitions added to a topic that has ``existing_count``; partition 0's are given.

    There is no chance in it: the round goes on from the broker that partition 0 began with.
    """
    ids = sorted(broker.id for broker in brokers)
    start = next((index for index, broker_id in enumerate(ids) if broker_id >= first_replicas[0]), 0)
    return assign_replicas(brokers, partition_count, len(first_replicas), start, start, existing_count)


def _check(brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int) -> None:
    if partition_count <= 0:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    with_rack = sum(broker.rack is not None for broker in brokers)
    if with_rack not in {0, len(brokers)}:
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{with_rack} of {len(brokers)} brokers have a rack; replicas are placed if all or none have one",
        )


def _alternate_racks(racks: dict[int, str]) -> list[int]:
    """The brokers, rack after rack in turn: the first of each, then the second of each, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    return [row[turn] for turn in range(max(map(len, rows))) for row in rows if turn < len(row)]


def _spread_over_racks(
    order: list[int], racks: dict[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [order[first]]
    used = {racks[order[first]]}
    step = 0
    while len(replicas) < replication_factor:
        candidate = order[_follower(first, shift * rack_count, step, len(order))]
        step += 1
        if candidate in replicas or (racks[candidate] in used and len(used) < rack_count):
            continue
        replicas.append(candidate)
        used.add(racks[candidate])
    return tuple(replicas)


def _follower(first: int, shift: int, number: int, count: int) -> int:
    """The place of a partition's ``number``-th follower: any but the first replica's own."""
    return (first + 1 + (shift + number) % (count - 1)) % count
