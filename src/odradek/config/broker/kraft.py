"""Settings of KRaft mode. Accepted so that a file which names them loads; this broker has no such mode."""

from __future__ import annotations

from odradek.config.types import (
    DAY_MS,
    GIB,
    HIGH,
    HOUR_MS,
    LONG_MAX,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    declared,
    int32,
    int64,
    text,
    words,
)

PROCESS_ROLES = words(
    "process.roles",
    (),
    HIGH,
    "Roles of a KRaft process. Must stay empty: this broker runs on ZooKeeper's model.",
    among=("broker", "controller"),
    inert=True,
)

NODE_ID = int32("node.id", -1, HIGH, "KRaft's name for broker.id; the two must agree if both are set.")

CONTROLLER_LISTENER_NAMES = text(
    "controller.listener.names", None, HIGH, "Listeners of KRaft controllers.", inert=True
)

SASL_MECHANISM_CONTROLLER_PROTOCOL = text(
    "sasl.mechanism.controller.protocol",
    "GSSAPI",
    HIGH,
    "SASL mechanism towards KRaft controllers.",
    inert=True,
)

INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = int32(
    "initial.broker.registration.timeout.ms",
    MINUTE_MS,
    MEDIUM,
    "How long a KRaft broker tries to register.",
    inert=True,
)

BROKER_HEARTBEAT_INTERVAL_MS = int32(
    "broker.heartbeat.interval.ms",
    2000,
    MEDIUM,
    "Heartbeats of a KRaft broker to its controller.",
    inert=True,
)

BROKER_SESSION_TIMEOUT_MS = int32(
    "broker.session.timeout.ms", 9000, MEDIUM, "Session of a KRaft broker at its controller.", inert=True
)

METADATA_LOG_DIR = text("metadata.log.dir", None, HIGH, "Directory of the KRaft metadata log.", inert=True)

METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = int64(
    "metadata.log.max.record.bytes.between.snapshots",
    20 * MIB,
    HIGH,
    "Metadata written between two KRaft snapshots.",
    at_least=1,
    inert=True,
)

METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = int64(
    "metadata.log.max.snapshot.interval.ms",
    HOUR_MS,
    HIGH,
    "Time between two KRaft snapshots.",
    at_least=0,
    inert=True,
)

METADATA_LOG_SEGMENT_BYTES = int32(
    "metadata.log.segment.bytes",
    GIB,
    HIGH,
    "Segment size of the KRaft metadata log.",
    at_least=12,
    inert=True,
)

METADATA_LOG_SEGMENT_MIN_BYTES = int32(
    "metadata.log.segment.min.bytes",
    8 * MIB,
    HIGH,
    "Smallest segment size of the KRaft metadata log.",
    at_least=12,
    inert=True,
    unlisted=True,
)

METADATA_LOG_SEGMENT_MS = int64(
    "metadata.log.segment.ms", 7 * DAY_MS, HIGH, "Segment age of the KRaft metadata log.", inert=True
)

METADATA_MAX_RETENTION_BYTES = int64(
    "metadata.max.retention.bytes", 100 * MIB, HIGH, "Size kept of the KRaft metadata log.", inert=True
)

METADATA_MAX_RETENTION_MS = int64(
    "metadata.max.retention.ms", 7 * DAY_MS, HIGH, "Age kept of the KRaft metadata log.", inert=True
)

METADATA_MAX_IDLE_INTERVAL_MS = int32(
    "metadata.max.idle.interval.ms",
    500,
    LOW,
    "How often an idle KRaft controller writes a record.",
    at_least=0,
    inert=True,
)

SERVER_MAX_STARTUP_TIME_MS = int64(
    "server.max.startup.time.ms",
    LONG_MAX,
    MEDIUM,
    "Longest start of a KRaft process.",
    at_least=0,
    inert=True,
    unlisted=True,
)

ELIGIBLE_LEADER_REPLICAS_ENABLE = boolean(
    "eligible.leader.replicas.enable",
    False,
    HIGH,
    "Whether KRaft keeps eligible leader replicas.",
    inert=True,
)

ZOOKEEPER_METADATA_MIGRATION_ENABLE = boolean(
    "zookeeper.metadata.migration.enable",
    False,
    HIGH,
    "Whether metadata moves from ZooKeeper to KRaft.",
    inert=True,
)

ZOOKEEPER_METADATA_MIGRATION_MIN_BATCH_SIZE = int32(
    "zookeeper.metadata.migration.min.batch.size",
    200,
    MEDIUM,
    "Batch size of that move.",
    at_least=1,
    inert=True,
    unlisted=True,
)

CONTROLLER_QUORUM_VOTERS = words(
    "controller.quorum.voters", (), HIGH, "Voters of the KRaft quorum.", inert=True
)

CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = words(
    "controller.quorum.bootstrap.servers", (), HIGH, "Where a KRaft process finds its quorum.", inert=True
)

CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = int32(
    "controller.quorum.election.timeout.ms", 1000, HIGH, "Election timeout of the KRaft quorum.", inert=True
)

CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = int32(
    "controller.quorum.fetch.timeout.ms", 2000, HIGH, "Fetch timeout of the KRaft quorum.", inert=True
)

CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = int32(
    "controller.quorum.election.backoff.max.ms",
    1000,
    HIGH,
    "Longest wait between elections of the KRaft quorum.",
    inert=True,
)

CONTROLLER_QUORUM_APPEND_LINGER_MS = int32(
    "controller.quorum.append.linger.ms", 25, MEDIUM, "How long the KRaft leader collects writes.", inert=True
)

CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = int32(
    "controller.quorum.request.timeout.ms",
    2000,
    MEDIUM,
    "Request timeout within the KRaft quorum.",
    inert=True,
)

CONTROLLER_QUORUM_RETRY_BACKOFF_MS = int32(
    "controller.quorum.retry.backoff.ms", 20, LOW, "Wait before a KRaft request is tried again.", inert=True
)

KRAFT_SETTINGS = declared(globals())
