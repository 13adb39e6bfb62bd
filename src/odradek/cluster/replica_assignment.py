"""Assignment of a topic's replicas to brokers, by Kafka's algorithm (``AdminUtils``).

First replicas (preferred leaders) are assigned round robin from ``start_index``. The others follow at a
shift that grows by one with each round, so that the followers of one broker's partitions spread over all
others. With racks, brokers are first ordered to alternate between racks, and a replica skips brokers in
racks that already have one while other racks have none.

Invariants: no broker twice in a partition; the numbers of first replicas and of replicas differ by at most
one between brokers over whole rounds; with racks, a partition spans as many racks as possible. The caller
draws the random numbers: both starting values are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.model.errors import BrokerError, ErrorCode

Assignment = dict[int, tuple[int, ...]]


class BrokerRack(NamedTuple):
    """A broker that replicas may be assigned to."""

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
    """Assign replicas to ``partition_count`` partitions, numbered from ``first_partition``.

    Raises INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR; as Kafka does, UNKNOWN_SERVER_ERROR if only some
    brokers have racks.
    """
    _validate(brokers, partition_count, replication_factor)
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    broker_list = _alternate_racks(racks) if racks else sorted(broker.id for broker in brokers)
    assignment: Assignment = {}
    shift = start_shift
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(broker_list) == 0:
            shift += 1
        first = (partition + start_index) % len(broker_list)
        if racks:
            replicas = _spread_over_racks(broker_list, racks, first, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            replicas = (
                broker_list[first],
                *(broker_list[_follower_index(first, shift, n, len(broker_list))] for n in followers),
            )
        assignment[partition] = replicas
    return assignment


def assign_added_replicas(
    brokers: Sequence[BrokerRack],
    partition_count: int,
    existing_count: int,
    first_replicas: Sequence[int],
) -> Assignment:
    """Assign replicas to partitions added to a topic with ``existing_count`` partitions.

    Deterministic: the rounds continue from the first replica of partition 0 (``first_replicas``).
    """
    ids = sorted(broker.id for broker in brokers)
    start = next((index for index, broker_id in enumerate(ids) if broker_id >= first_replicas[0]), 0)
    return assign_replicas(brokers, partition_count, len(first_replicas), start, start, existing_count)


def _validate(brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int) -> None:
    if partition_count <= 0:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"partition count must be > 0, got {partition_count}")
    if replication_factor <= 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor must be > 0, got {replication_factor}"
        )
    if replication_factor > len(brokers):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor must be at most the number of brokers ({len(brokers)}), "
            f"got {replication_factor}",
        )
    with_rack = sum(broker.rack is not None for broker in brokers)
    if with_rack not in {0, len(brokers)}:
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"broker.rack must be set on all brokers or none, got {with_rack} of {len(brokers)}",
        )


def _alternate_racks(racks: dict[int, str]) -> list[int]:
    """Return the brokers alternating between racks: the first of each rack, then the second of each."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    brokers_by_rack = [by_rack[rack] for rack in sorted(by_rack)]
    return [
        brokers_of_rack[position]
        for position in range(max(map(len, brokers_by_rack)))
        for brokers_of_rack in brokers_by_rack
        if position < len(brokers_of_rack)
    ]


def _spread_over_racks(
    broker_list: list[int], racks: dict[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [broker_list[first]]
    used_racks = {racks[broker_list[first]]}
    attempt = 0
    while len(replicas) < replication_factor:
        candidate = broker_list[_follower_index(first, shift * rack_count, attempt, len(broker_list))]
        attempt += 1
        if candidate in replicas or (racks[candidate] in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(candidate)
        used_racks.add(racks[candidate])
    return tuple(replicas)


def _follower_index(first: int, shift: int, number: int, count: int) -> int:
    """Return the index of the ``number``-th follower: never the first replica's."""
    return (first + 1 + (shift + number) % (count - 1)) % count
