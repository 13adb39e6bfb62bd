"""Settings of KRaft mode, which is not available. Accepted so that files with them can be loaded."""

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
    string,
    string_list,
)

PROCESS_ROLES = string_list(
    "process.roles",
    (),
    HIGH,
    "Roles of a KRaft process. Must be empty: KRaft mode is not available.",
    among=("broker", "controller"),
    inert=True,
)

NODE_ID = int32("node.id", -1, HIGH, "KRaft's name of broker.id; both must be equal if both are set.")

CONTROLLER_LISTENER_NAMES = string(
    "controller.listener.names", None, HIGH, "Listeners of KRaft controllers.", inert=True
)

SASL_MECHANISM_CONTROLLER_PROTOCOL = string(
    "sasl.mechanism.controller.protocol",
    "GSSAPI",
    HIGH,
    "SASL mechanism for KRaft controllers.",
    inert=True,
)

INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = int32(
    "initial.broker.registration.timeout.ms",
    MINUTE_MS,
    MEDIUM,
    "Registration timeout of a KRaft broker.",
    inert=True,
)

BROKER_HEARTBEAT_INTERVAL_MS = int32(
    "broker.heartbeat.interval.ms",
    2000,
    MEDIUM,
    "Heartbeat interval of a KRaft broker.",
    inert=True,
)

BROKER_SESSION_TIMEOUT_MS = int32(
    "broker.session.timeout.ms", 9000, MEDIUM, "Session timeout of a KRaft broker.", inert=True
)

METADATA_LOG_DIR = string("metadata.log.dir", None, HIGH, "Directory of the KRaft metadata log.", inert=True)

METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = int64(
    "metadata.log.max.record.bytes.between.snapshots",
    20 * MIB,
    HIGH,
    "Maximum bytes of the KRaft metadata log between two snapshots.",
    at_least=1,
    inert=True,
)

METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = int64(
    "metadata.log.max.snapshot.interval.ms",
    HOUR_MS,
    HIGH,
    "Maximum time between two KRaft snapshots.",
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
    "Minimum segment size of the KRaft metadata log.",
    at_least=12,
    inert=True,
    unlisted=True,
)

METADATA_LOG_SEGMENT_MS = int64(
    "metadata.log.segment.ms",
    7 * DAY_MS,
    HIGH,
    "Maximum age of a segment of the KRaft metadata log.",
    inert=True,
)

METADATA_MAX_RETENTION_BYTES = int64(
    "metadata.max.retention.bytes", 100 * MIB, HIGH, "Retention size of the KRaft metadata log.", inert=True
)

METADATA_MAX_RETENTION_MS = int64(
    "metadata.max.retention.ms", 7 * DAY_MS, HIGH, "Retention time of the KRaft metadata log.", inert=True
)

METADATA_MAX_IDLE_INTERVAL_MS = int32(
    "metadata.max.idle.interval.ms",
    500,
    LOW,
    "Interval between no-op records of an idle KRaft controller.",
    at_least=0,
    inert=True,
)

SERVER_MAX_STARTUP_TIME_MS = int64(
    "server.max.startup.time.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum startup time of a KRaft process.",
    at_least=0,
    inert=True,
    unlisted=True,
)

ELIGIBLE_LEADER_REPLICAS_ENABLE = boolean(
    "eligible.leader.replicas.enable",
    False,
    HIGH,
    "Whether KRaft tracks eligible leader replicas.",
    inert=True,
)

ZOOKEEPER_METADATA_MIGRATION_ENABLE = boolean(
    "zookeeper.metadata.migration.enable",
    False,
    HIGH,
    "Whether metadata is migrated from ZooKeeper to KRaft.",
    inert=True,
)

ZOOKEEPER_METADATA_MIGRATION_MIN_BATCH_SIZE = int32(
    "zookeeper.metadata.migration.min.batch.size",
    200,
    MEDIUM,
    "Minimum batch size of the metadata migration.",
    at_least=1,
    inert=True,
    unlisted=True,
)

CONTROLLER_QUORUM_VOTERS = string_list(
    "controller.quorum.voters", (), HIGH, "Voters of the KRaft quorum.", inert=True
)

CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = string_list(
    "controller.quorum.bootstrap.servers",
    (),
    HIGH,
    "Servers from which a KRaft process discovers its quorum.",
    inert=True,
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
    "Maximum backoff between elections of the KRaft quorum.",
    inert=True,
)

CONTROLLER_QUORUM_APPEND_LINGER_MS = int32(
    "controller.quorum.append.linger.ms",
    25,
    MEDIUM,
    "Time the KRaft leader collects records before it appends them.",
    inert=True,
)

CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = int32(
    "controller.quorum.request.timeout.ms",
    2000,
    MEDIUM,
    "Request timeout within the KRaft quorum.",
    inert=True,
)

CONTROLLER_QUORUM_RETRY_BACKOFF_MS = int32(
    "controller.quorum.retry.backoff.ms", 20, LOW, "Backoff before a KRaft request is retried.", inert=True
)

KRAFT_SETTINGS = declared(globals())
