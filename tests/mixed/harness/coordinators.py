"""Groups and transactional ids whose coordinator is a certain broker."""

from __future__ import annotations

import itertools

from kio.schema.describe_transactions.v0 import request as describe_transactions
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.support.interbroker.clients import Clients
from tests.support.raw_connection import RawConnection

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITION_COUNT = 3


def partition_of(name: str) -> int:
    """Return the partition of a group or transactional id, by Java's hash of a string."""
    value = 0
    for character in name:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    magnitude = value if value < 1 << 31 else (1 << 32) - value  # of a signed number, as in Kafka's Utils.abs
    return magnitude % PARTITION_COUNT


def name_coordinated_by(cluster: MixedCluster, topic: str, broker: int, prefix: str) -> str:
    """Return a name with this prefix whose partition of the internal topic has the broker as its leader."""
    partitions = cluster.metadata(broker, topic).partitions
    for number in itertools.count():
        name = f"{prefix}-{number}"
        if partitions[topic, partition_of(name)].leader == broker:
            return name
    raise AssertionError("every broker leads a partition")


def spread_leaders(cluster: MixedCluster, clients: Clients, topic: str) -> None:
    """Wait for an internal topic, and elect the preferred leaders, so that each broker leads a partition."""
    for partition in range(PARTITION_COUNT):
        cluster.wait_for_partition(topic, partition)
    clients.elect_preferred([(topic, partition) for partition in range(PARTITION_COUNT)])
    for partition in range(PARTITION_COUNT):
        preferred = cluster.metadata(0, topic).partitions[topic, partition].replicas[0]
        cluster.wait_for_partition(topic, partition, leader=preferred)


def transaction_state(cluster: MixedCluster, coordinator: int, transactional_id: str) -> str:
    """Return the state of a transaction, as its coordinator describes it."""
    message = describe_transactions.DescribeTransactionsRequest(
        transactional_ids=(transactional_id,),  # type: ignore[arg-type]
    )
    with RawConnection(cluster.address(coordinator)) as connection:
        (described,) = connection.exchange(message).transaction_states
    return str(described.transaction_state)
