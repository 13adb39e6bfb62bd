"""Settings of logs: segments, retention, compaction, flushing, timestamps."""

from __future__ import annotations

from odradek.config import metadata_versions
from odradek.config.types import (
    CLUSTER_WIDE,
    DAY_MS,
    DOUBLE_MAX,
    GIB,
    HIGH,
    KIB,
    LONG_MAX,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    choice,
    declared,
    double,
    int32,
    int64,
    string,
    string_list,
)

LOG_DIR = string("log.dir", "/tmp/kafka-logs", HIGH, "Log directory if log.dirs is not set.")

LOG_DIRS = string(
    "log.dirs",
    None,
    HIGH,
    "Log directories, comma-separated. A new partition is placed in the one with the fewest partitions.",
)

LOG_SEGMENT_BYTES = int32(
    "log.segment.bytes",
    GIB,
    HIGH,
    "Size at which a segment is rolled.",
    at_least=14,
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_MS = int64(
    "log.roll.ms",
    None,
    HIGH,
    "Age in milliseconds at which a segment is rolled, whatever its size.",
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_HOURS = int32(
    "log.roll.hours", 168, HIGH, "Like log.roll.ms, in hours; used if that is not set.", at_least=1
)

LOG_ROLL_JITTER_MS = int64(
    "log.roll.jitter.ms",
    None,
    HIGH,
    "Maximum random time subtracted from the roll age, so that partitions do not all roll at once.",
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_JITTER_HOURS = int32(
    "log.roll.jitter.hours",
    0,
    HIGH,
    "Like log.roll.jitter.ms, in hours; used if that is not set.",
    at_least=0,
)

LOG_RETENTION_MS = int64(
    "log.retention.ms",
    None,
    HIGH,
    "Age in milliseconds after which closed segments are deleted; -1 is unlimited.",
    dynamic=CLUSTER_WIDE,
)

LOG_RETENTION_MINUTES = int32(
    "log.retention.minutes", None, HIGH, "Like log.retention.ms, in minutes; used if that is not set."
)

LOG_RETENTION_HOURS = int32(
    "log.retention.hours",
    168,
    HIGH,
    "Like log.retention.ms, in hours; used if neither that nor log.retention.minutes is set.",
)

LOG_RETENTION_BYTES = int64(
    "log.retention.bytes",
    -1,
    HIGH,
    "Size of a partition above which its oldest segments are deleted; -1 is unlimited.",
    dynamic=CLUSTER_WIDE,
)

LOG_RETENTION_CHECK_INTERVAL_MS = int64(
    "log.retention.check.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "Interval between checks for segments to delete.",
    at_least=1,
)

LOG_CLEANUP_POLICY = string_list(
    "log.cleanup.policy",
    ("delete",),
    MEDIUM,
    "Cleanup of old records: delete removes whole segments, compact keeps the last record of each "
    "key; both can be combined.",
    among=("compact", "delete"),
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_ENABLE = boolean("log.cleaner.enable", True, MEDIUM, "Whether logs are compacted.")

LOG_CLEANER_THREADS = int32(
    "log.cleaner.threads",
    1,
    MEDIUM,
    "Number of concurrent compactions; 0 pauses compaction.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE_MAX,
    MEDIUM,
    "Maximum bytes per second that compaction reads and writes.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_DEDUPE_BUFFER_SIZE = int64(
    "log.cleaner.dedupe.buffer.size",
    128 * MIB,
    MEDIUM,
    "Memory for the key maps of all compactions; at least 1 MiB for each.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_BUFFER_SIZE = int32(
    "log.cleaner.io.buffer.size",
    512 * KIB,
    MEDIUM,
    "Memory for the read and write buffers of all compactions.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = double(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    MEDIUM,
    "Load factor of a key map at which a compaction stops collecting keys.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_BACKOFF_MS = int64(
    "log.cleaner.backoff.ms",
    15_000,
    MEDIUM,
    "Wait before the next check if no log has to be compacted.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MIN_CLEANABLE_RATIO = double(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    MEDIUM,
    "Minimum ratio of uncompacted to total log before it is compacted.",
    at_least=0,
    at_most=1,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_DELETE_RETENTION_MS = int64(
    "log.cleaner.delete.retention.ms",
    DAY_MS,
    MEDIUM,
    "Time tombstones are kept after compaction, so that a consumer that reads from the start still "
    "sees them.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MIN_COMPACTION_LAG_MS = int64(
    "log.cleaner.min.compaction.lag.ms",
    0,
    MEDIUM,
    "Minimum age of a record before it is compacted.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MAX_COMPACTION_LAG_MS = int64(
    "log.cleaner.max.compaction.lag.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum age of a record before it is compacted, whatever the ratio.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

LOG_INDEX_SIZE_MAX_BYTES = int32(
    "log.index.size.max.bytes",
    10 * MIB,
    MEDIUM,
    "Maximum size of an index file; a full index rolls the segment.",
    at_least=4,
    dynamic=CLUSTER_WIDE,
)

LOG_INDEX_INTERVAL_BYTES = int32(
    "log.index.interval.bytes",
    4 * KIB,
    MEDIUM,
    "Bytes of records between two index entries.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_INTERVAL_MESSAGES = int64(
    "log.flush.interval.messages",
    LONG_MAX,
    HIGH,
    "Number of records after which a partition is flushed to disk. The default leaves this to the "
    "system and to replication.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_INTERVAL_MS = int64(
    "log.flush.interval.ms",
    None,
    HIGH,
    "Time after which new records are flushed to disk; log.flush.scheduler.interval.ms if not set.",
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_SCHEDULER_INTERVAL_MS = int64(
    "log.flush.scheduler.interval.ms",
    LONG_MAX,
    HIGH,
    "Interval between checks for partitions to flush.",
)

LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = int32(
    "log.flush.offset.checkpoint.interval.ms",
    MINUTE_MS,
    HIGH,
    "Interval between checkpoints of the recovery points.",
    at_least=0,
)

LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = int32(
    "log.flush.start.offset.checkpoint.interval.ms",
    MINUTE_MS,
    HIGH,
    "Interval between checkpoints of the log start offsets.",
    at_least=0,
)

LOG_SEGMENT_DELETE_DELAY_MS = int64(
    "log.segment.delete.delay.ms",
    MINUTE_MS,
    HIGH,
    "Delay between the removal of a segment from the log and the deletion of its files, for readers "
    "that still use them.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_PREALLOCATE = boolean(
    "log.preallocate",
    False,
    MEDIUM,
    "Whether a new segment's file is preallocated. Kafka has this for Windows, which Odradek does "
    "not support.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_MESSAGE_FORMAT_VERSION = string(
    "log.message.format.version",
    "3.0-IV1",
    MEDIUM,
    "Record format of earlier Kafka versions. The newest format is always used, as in Kafka since 3.0.",
    check=metadata_versions.check,
    allowed="a Kafka release",
    inert=True,
)

LOG_MESSAGE_TIMESTAMP_TYPE = choice(
    "log.message.timestamp.type",
    "CreateTime",
    MEDIUM,
    "Timestamp of a record: CreateTime is set by the producer, LogAppendTime by the broker.",
    among=("CreateTime", "LogAppendTime"),
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS = int64(
    "log.message.timestamp.difference.max.ms",
    LONG_MAX,
    MEDIUM,
    "Deprecated: maximum difference between a record's timestamp and the broker's clock, in both directions.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = int64(
    "log.message.timestamp.before.max.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum time a record's timestamp may be in the past.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = int64(
    "log.message.timestamp.after.max.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum time a record's timestamp may be in the future.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_DOWNCONVERSION_ENABLE = boolean(
    "log.message.downconversion.enable",
    True,
    LOW,
    "Whether records are converted to older formats for clients with old fetch versions.",
    dynamic=CLUSTER_WIDE,
)

LOG_DIR_FAILURE_TIMEOUT_MS = int64(
    "log.dir.failure.timeout.ms",
    30_000,
    LOW,
    "Time after which a KRaft broker stops if it cannot report a failed log directory.",
    at_least=1,
    inert=True,
)

LOG_INITIAL_TASK_DELAY_MS = int64(
    "log.initial.task.delay.ms",
    30_000,
    LOW,
    "Delay after start before retention, flush and checkpoint tasks run for the first time.",
    at_least=0,
    unlisted=True,
)

NUM_RECOVERY_THREADS_PER_DATA_DIR = int32(
    "num.recovery.threads.per.data.dir",
    1,
    HIGH,
    "Threads per log directory for recovery at start and flush at shutdown.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

NUM_REPLICA_ALTER_LOG_DIRS_THREADS = int32(
    "num.replica.alter.log.dirs.threads",
    None,
    HIGH,
    "Number of concurrent replica moves between log directories; the number of directories if not set.",
)

LOG_SETTINGS = declared(globals())
