"""The replica that a consumer should read instead of the leader (KIP-392)."""

from __future__ import annotations

from odradek.cluster.metadata_cache import MetadataCache
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition
from odradek.replication.reads.replica_selector import ReplicaSelector, ReplicaView


def find_read_replica(
    select: ReplicaSelector,
    partition: Partition,
    leader: Leader,
    metadata_cache: MetadataCache,
    fetch_offset: int,
    client_rack: str,
    listener: str,
) -> int | None:
    """Return the follower to read; None for the leader. A replica must be reachable on the same listener."""
    brokers = metadata_cache.brokers

    def rack_of(broker_id: int) -> str | None:
        broker = brokers.get(broker_id)
        return None if broker is None or listener not in broker.endpoints else broker.rack

    own = ReplicaView(leader.leader_id, rack_of(leader.leader_id), partition.log.log_end_offset, 0)
    followers = [
        ReplicaView(broker_id, rack_of(broker_id), replica.log_end_offset, replica.last_caught_up_ms)
        for broker_id, replica in leader.readable_replicas(fetch_offset)
    ]
    selected = select(client_rack, own, followers)
    return None if selected is own else selected.broker_id
