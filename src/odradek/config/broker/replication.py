"""Replicas, in-sync sets, leadership, and the requests that wait for them."""

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
    text,
)

DEFAULT_REPLICATION_FACTOR = int32(
    "default.replication.factor", 1, MEDIUM, "Replicas of a topic that is created without a number."
)

MIN_INSYNC_REPLICAS = int32(
    "min.insync.replicas",
    1,
    HIGH,
    "Replicas that must be in sync for a write with acks=all to be accepted.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    HIGH,
    "Whether a replica out of sync may lead when none in sync is left. Availability bought with lost "
    "records.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REPLICA_LAG_TIME_MAX_MS = int64(
    "replica.lag.time.max.ms",
    30_000,
    HIGH,
    "A follower that has not caught up for this long leaves the in-sync set.",
)

REPLICA_SOCKET_TIMEOUT_MS = int32(
    "replica.socket.timeout.ms",
    30_000,
    HIGH,
    "How long a follower waits for the leader's answer; at least replica.fetch.wait.max.ms.",
    inert=True,
)

REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "replica.socket.receive.buffer.bytes",
    64 * KIB,
    HIGH,
    "Receive buffer asked of the system for a follower's connection.",
    inert=True,
)

REPLICA_FETCH_MAX_BYTES = int32(
    "replica.fetch.max.bytes",
    MIB,
    MEDIUM,
    "Bytes of one partition a follower asks for. A larger first batch is still sent.",
    at_least=0,
)

REPLICA_FETCH_WAIT_MAX_MS = int32(
    "replica.fetch.wait.max.ms",
    500,
    HIGH,
    "How long a leader may hold a follower's fetch when nothing is new; below replica.lag.time.max.ms.",
    inert=True,
)

REPLICA_FETCH_BACKOFF_MS = int32(
    "replica.fetch.backoff.ms", 1000, MEDIUM, "Wait of a follower after a fetch that failed.", at_least=0
)

REPLICA_FETCH_MIN_BYTES = int32(
    "replica.fetch.min.bytes",
    1,
    HIGH,
    "Bytes a follower's fetch waits for, within replica.fetch.wait.max.ms.",
    inert=True,
)

REPLICA_FETCH_RESPONSE_MAX_BYTES = int32(
    "replica.fetch.response.max.bytes",
    10 * MIB,
    MEDIUM,
    "Bytes a whole answer to a follower may carry.",
    at_least=0,
)

NUM_REPLICA_FETCHERS = int32(
    "num.replica.fetchers",
    1,
    HIGH,
    "Fetch loops from each leader; partitions are divided among them.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = int64(
    "replica.high.watermark.checkpoint.interval.ms", 5000, HIGH, "How often high watermarks are written down."
)

REPLICA_SELECTOR_CLASS = text(
    "replica.selector.class",
    None,
    MEDIUM,
    "How a consumer's read replica is chosen: not set, the leader; RackAwareReplicaSelector, one in its "
    "rack.",
    inert=True,
)

FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "fetch.purgatory.purge.interval.requests",
    1000,
    MEDIUM,
    "Finished fetches that may linger among the waiting ones before they are swept.",
    inert=True,
)

PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "producer.purgatory.purge.interval.requests",
    1000,
    MEDIUM,
    "Finished produce requests that may linger among the waiting ones before they are swept.",
    inert=True,
)

DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = int32(
    "delete.records.purgatory.purge.interval.requests",
    1,
    MEDIUM,
    "Finished DeleteRecords requests that may linger among the waiting ones before they are swept.",
    inert=True,
)

AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    HIGH,
    "Whether the controller moves leadership back to preferred replicas by itself.",
    inert=True,
)

LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = int32(
    "leader.imbalance.per.broker.percentage",
    10,
    HIGH,
    "Share of a broker's partitions led elsewhere, in percent, from which leadership is moved back.",
    inert=True,
)

LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = int64(
    "leader.imbalance.check.interval.seconds",
    300,
    HIGH,
    "How often the controller looks at that share.",
    at_least=1,
    inert=True,
)

UNCLEAN_LEADER_ELECTION_INTERVAL_MS = int64(
    "unclean.leader.election.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "How often a KRaft controller looks for partitions to elect uncleanly.",
    at_least=1,
    inert=True,
    unlisted=True,
)

CONTROLLER_SOCKET_TIMEOUT_MS = int32(
    "controller.socket.timeout.ms",
    30_000,
    MEDIUM,
    "How long the controller waits for a broker's answer.",
    inert=True,
)

REPLICATION_SETTINGS = declared(globals())
