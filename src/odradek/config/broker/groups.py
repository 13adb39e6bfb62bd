"""Settings of consumer groups and committed offsets."""

from __future__ import annotations

from odradek.config.types import (
    HIGH,
    INT_MAX,
    KIB,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    declared,
    int16,
    int32,
    int64,
    string,
    string_list,
)


def _migration_policy(value: str) -> str | None:
    policies = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")
    if value.upper() in policies:
        return None
    return f"must be one of {', '.join(policies)}"


GROUP_MIN_SESSION_TIMEOUT_MS = int32(
    "group.min.session.timeout.ms", 6000, MEDIUM, "Minimum session timeout of a group member."
)

GROUP_MAX_SESSION_TIMEOUT_MS = int32(
    "group.max.session.timeout.ms", 30 * MINUTE_MS, MEDIUM, "Maximum session timeout of a group member."
)

GROUP_INITIAL_REBALANCE_DELAY_MS = int32(
    "group.initial.rebalance.delay.ms",
    3000,
    MEDIUM,
    "Time an empty group waits for more members before its first rebalance.",
)

GROUP_MAX_SIZE = int32("group.max.size", INT_MAX, MEDIUM, "Maximum number of members of a group.", at_least=1)

GROUP_COORDINATOR_REBALANCE_PROTOCOLS = string_list(
    "group.coordinator.rebalance.protocols",
    ("classic",),
    MEDIUM,
    "Enabled rebalance protocols. Only classic is supported with ZooKeeper.",
    among=("consumer", "classic", "share", "unknown"),
    inert=True,
)

GROUP_COORDINATOR_THREADS = int32(
    "group.coordinator.threads",
    1,
    MEDIUM,
    "Threads of the KRaft-only group coordinator.",
    at_least=1,
    inert=True,
)

GROUP_COORDINATOR_APPEND_LINGER_MS = int32(
    "group.coordinator.append.linger.ms",
    10,
    MEDIUM,
    "Time the KRaft-only group coordinator collects records before it appends them.",
    at_least=0,
    inert=True,
)

GROUP_COORDINATOR_NEW_ENABLE = boolean(
    "group.coordinator.new.enable",
    False,
    MEDIUM,
    "Whether the KRaft-only group coordinator is used.",
    inert=True,
    unlisted=True,
)

OFFSET_METADATA_MAX_BYTES = int32(
    "offset.metadata.max.bytes", 4 * KIB, HIGH, "Maximum size of the metadata of a committed offset."
)

OFFSETS_LOAD_BUFFER_SIZE = int32(
    "offsets.load.buffer.size",
    5 * MIB,
    HIGH,
    "Size of a read while a coordinator loads a partition of the offsets topic.",
    at_least=1,
)

OFFSETS_TOPIC_REPLICATION_FACTOR = int16(
    "offsets.topic.replication.factor",
    3,
    HIGH,
    "Replication factor of the offsets topic; it is not created while fewer brokers are alive.",
    at_least=1,
)

OFFSETS_TOPIC_NUM_PARTITIONS = int32(
    "offsets.topic.num.partitions",
    50,
    HIGH,
    "Number of partitions of the offsets topic. Must not be changed once it exists.",
    at_least=1,
)

OFFSETS_TOPIC_SEGMENT_BYTES = int32(
    "offsets.topic.segment.bytes",
    100 * MIB,
    HIGH,
    "Segment size of the offsets topic; small, so that it loads fast.",
    at_least=1,
)

OFFSETS_TOPIC_COMPRESSION_CODEC = int32(
    "offsets.topic.compression.codec",
    0,
    HIGH,
    "Codec id of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)

OFFSETS_RETENTION_MINUTES = int32(
    "offsets.retention.minutes",
    10_080,
    HIGH,
    "Time the offsets of a group without members are kept.",
    at_least=1,
)

OFFSETS_RETENTION_CHECK_INTERVAL_MS = int64(
    "offsets.retention.check.interval.ms",
    10 * MINUTE_MS,
    HIGH,
    "Interval between checks for expired offsets.",
    at_least=1,
)

OFFSETS_COMMIT_TIMEOUT_MS = int32(
    "offsets.commit.timeout.ms",
    5000,
    HIGH,
    "Time an offset commit waits for the replicas of the offsets topic.",
    at_least=1,
)

OFFSETS_COMMIT_REQUIRED_ACKS = int16(
    "offsets.commit.required.acks",
    -1,
    HIGH,
    "Deprecated: acks of an offset commit. Odradek always uses -1, all in-sync replicas.",
    inert=True,
)

GROUP_CONSUMER_SESSION_TIMEOUT_MS = int32(
    "group.consumer.session.timeout.ms",
    45_000,
    MEDIUM,
    "Session timeout in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = int32(
    "group.consumer.min.session.timeout.ms",
    45_000,
    MEDIUM,
    "Minimum session timeout in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = int32(
    "group.consumer.max.session.timeout.ms",
    MINUTE_MS,
    MEDIUM,
    "Maximum session timeout in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.heartbeat.interval.ms",
    5000,
    MEDIUM,
    "Heartbeat interval in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.min.heartbeat.interval.ms",
    5000,
    MEDIUM,
    "Minimum heartbeat interval in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = int32(
    "group.consumer.max.heartbeat.interval.ms",
    15_000,
    MEDIUM,
    "Maximum heartbeat interval in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_MAX_SIZE = int32(
    "group.consumer.max.size",
    INT_MAX,
    MEDIUM,
    "Maximum number of members of a group in the KRaft-only consumer protocol.",
    at_least=1,
    inert=True,
)

GROUP_CONSUMER_ASSIGNORS = string_list(
    "group.consumer.assignors",
    (
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
    ),
    MEDIUM,
    "Assignors of the broker in the KRaft-only consumer protocol.",
    inert=True,
)

GROUP_CONSUMER_MIGRATION_POLICY = string(
    "group.consumer.migration.policy",
    "disabled",
    MEDIUM,
    "Migration of groups between the classic and the KRaft-only consumer protocol.",
    check=_migration_policy,
    allowed="one of disabled, downgrade, upgrade, bidirectional",
    inert=True,
    unlisted=True,
)

GROUP_SHARE_ENABLE = boolean(
    "group.share.enable",
    False,
    MEDIUM,
    "Whether share groups, a KRaft-only preview, are enabled.",
    inert=True,
    unlisted=True,
)

GROUP_SHARE_SESSION_TIMEOUT_MS = int32(
    "group.share.session.timeout.ms",
    45_000,
    MEDIUM,
    "Session timeout of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = int32(
    "group.share.min.session.timeout.ms",
    45_000,
    MEDIUM,
    "Minimum session timeout of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = int32(
    "group.share.max.session.timeout.ms",
    MINUTE_MS,
    MEDIUM,
    "Maximum session timeout of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.heartbeat.interval.ms",
    5000,
    MEDIUM,
    "Heartbeat interval of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.min.heartbeat.interval.ms",
    5000,
    MEDIUM,
    "Minimum heartbeat interval of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = int32(
    "group.share.max.heartbeat.interval.ms",
    15_000,
    MEDIUM,
    "Maximum heartbeat interval of share group members.",
    at_least=1,
    inert=True,
)

GROUP_SHARE_MAX_SIZE = int16(
    "group.share.max.size",
    200,
    MEDIUM,
    "Maximum number of members of a share group.",
    at_least=10,
    at_most=1000,
    inert=True,
)

GROUP_SHARE_DELIVERY_COUNT_LIMIT = int32(
    "group.share.delivery.count.limit",
    5,
    MEDIUM,
    "Maximum number of delivery attempts of a record in a share group.",
    at_least=2,
    at_most=10,
    inert=True,
)

GROUP_SHARE_RECORD_LOCK_DURATION_MS = int32(
    "group.share.record.lock.duration.ms",
    30_000,
    MEDIUM,
    "Acquisition lock duration of a record in a share group.",
    at_least=1000,
    at_most=60000,
    inert=True,
)

GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = int32(
    "group.share.min.record.lock.duration.ms",
    15_000,
    MEDIUM,
    "Minimum acquisition lock duration in a share group.",
    at_least=1000,
    at_most=30000,
    inert=True,
)

GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = int32(
    "group.share.max.record.lock.duration.ms",
    MINUTE_MS,
    MEDIUM,
    "Maximum acquisition lock duration in a share group.",
    at_least=30000,
    at_most=3600000,
    inert=True,
)

GROUP_SHARE_MAX_GROUPS = int16(
    "group.share.max.groups",
    10,
    MEDIUM,
    "Maximum number of share groups.",
    at_least=1,
    at_most=100,
    inert=True,
)

GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = int32(
    "group.share.partition.max.record.locks",
    200,
    MEDIUM,
    "Maximum number of locked records of a share group in a partition.",
    at_least=100,
    at_most=10000,
    inert=True,
)

GROUPS_SETTINGS = declared(globals())
