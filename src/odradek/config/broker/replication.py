"""Settings of replication and leader election."""

from __future__ import annotations

from odradek.config.types import (
    CLUSTER_WIDE,
    HIGH,
    KIB,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    declared,
    int32,
    int64,
    string,
)

DEFAULT_REPLICATION_FACTOR = int32(
    "default.replication.factor", 1, MEDIUM, "Default replication factor of a new topic."
)

MIN_INSYNC_REPLICAS = int32(
    "min.insync.replicas",
    1,
    HIGH,
    "Minimum number of in-sync replicas for a write with acks=all.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    HIGH,
    "Whether an out-of-sync replica may become leader if no in-sync replica is left, which can lose records.",
    dynamic=CLUSTER_WIDE,
)

REPLICA_LAG_TIME_MAX_MS = int64(
    "replica.lag.time.max.ms",
    30_000,
    HIGH,
    "Time after which a follower that has not caught up is removed from the ISR.",
)

REPLICA_SOCKET_TIMEOUT_MS = int32(
    "replica.socket.timeout.ms",
    30_000,
    HIGH,
    "Time a follower waits for the leader's response; at least replica.fetch.wait.max.ms.",
)

REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "replica.socket.receive.buffer.bytes",
    64 * KIB,
    HIGH,
    "Receive buffer (SO_RCVBUF) of a follower's connection.",
    inert=True,
)

REPLICA_FETCH_MAX_BYTES = int32(
    "replica.fetch.max.bytes",
    MIB,
    MEDIUM,
    "Bytes of one partition that a follower fetches. A larger first batch is still returned.",
    at_least=0,
)

REPLICA_FETCH_WAIT_MAX_MS = int32(
    "replica.fetch.wait.max.ms",
    500,
    HIGH,
    "Maximum time a leader waits for new records before it answers a follower; less than "
    "replica.lag.time.max.ms.",
)

REPLICA_FETCH_BACKOFF_MS = int32(
    "replica.fetch.backoff.ms", 1000, MEDIUM, "Wait of a follower after a failed fetch.", at_least=0
)

REPLICA_FETCH_MIN_BYTES = int32(
    "replica.fetch.min.bytes",
    1,
    HIGH,
    "Minimum bytes of a fetch response to a follower, within replica.fetch.wait.max.ms.",
)

REPLICA_FETCH_RESPONSE_MAX_BYTES = int32(
    "replica.fetch.response.max.bytes",
    10 * MIB,
    MEDIUM,
    "Maximum bytes of a fetch response to a follower.",
    at_least=0,
)

NUM_REPLICA_FETCHERS = int32(
    "num.replica.fetchers",
    1,
    HIGH,
    "Number of fetchers per leader; partitions are divided among them.",
    dynamic=CLUSTER_WIDE,
)

REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = int64(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    HIGH,
    "Interval between checkpoints of the high watermarks.",
)

REPLICA_SELECTOR_CLASS = string(
    "replica.selector.class",
    None,
    MEDIUM,
    "Class that selects the replica a consumer reads: the leader if not set; "
    "org.apache.kafka.common.replica.RackAwareReplicaSelector prefers the rack of the client (client.rack).",
)

FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "fetch.purgatory.purge.interval.requests",
    1000,
    MEDIUM,
    "Number of completed fetches that may remain in the purgatory before it is purged.",
    inert=True,
)

PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "producer.purgatory.purge.interval.requests",
    1000,
    MEDIUM,
    "Number of completed produce requests that may remain in the purgatory before it is purged.",
    inert=True,
)

DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "delete.records.purgatory.purge.interval.requests",
    1,
    MEDIUM,
    "Number of completed DeleteRecords requests that may remain in the purgatory before it is purged.",
    inert=True,
)

AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    HIGH,
    "Whether the controller moves leadership back to the preferred replicas.",
)

LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = int32(
    "leader.imbalance.per.broker.percentage",
    10,
    HIGH,
    "Percentage of a broker's preferred partitions led by others at which leadership is moved back.",
)

LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = int64(
    "leader.imbalance.check.interval.seconds",
    300,
    HIGH,
    "Interval between checks of the leader imbalance.",
    at_least=1,
)

UNCLEAN_LEADER_ELECTION_INTERVAL_MS = int64(
    "unclean.leader.election.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "Interval between unclean leader elections of a KRaft controller.",
    at_least=1,
    inert=True,
    unlisted=True,
)

CONTROLLER_SOCKET_TIMEOUT_MS = int32(
    "controller.socket.timeout.ms",
    30_000,
    MEDIUM,
    "Time the controller waits for a broker's response.",
)

REPLICATION_SETTINGS = declared(globals())
