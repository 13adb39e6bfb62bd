"""Logs on disk: segments, retention, compaction, flushing, timestamps."""

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
    text,
    words,
)

LOG_DIR = text("log.dir", "/tmp/kafka-logs", HIGH, "Data directory, for when log.dirs is not set.")

LOG_DIRS = text(
    "log.dirs",
    None,
    HIGH,
    "Data directories, comma separated. A new partition goes to the one that holds fewest.",
)

LOG_SEGMENT_BYTES = int32(
    "log.segment.bytes",
    GIB,
    HIGH,
    "Size at which a segment is closed and the next begun.",
    at_least=14,
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_MS = int64(
    "log.roll.ms",
    None,
    HIGH,
    "Age in milliseconds at which a segment is closed even if small.",
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_HOURS = int32(
    "log.roll.hours", 168, HIGH, "The same in hours, for when log.roll.ms is not set.", at_least=1
)

LOG_ROLL_JITTER_MS = int64(
    "log.roll.jitter.ms",
    None,
    HIGH,
    "Up to this much is taken off the roll age at random, so that partitions do not all roll at once.",
    dynamic=CLUSTER_WIDE,
)

LOG_ROLL_JITTER_HOURS = int32(
    "log.roll.jitter.hours", 0, HIGH, "The same in hours, for when log.roll.jitter.ms is not set.", at_least=0
)

LOG_RETENTION_MS = int64(
    "log.retention.ms",
    None,
    HIGH,
    "Age in milliseconds after which closed segments are deleted; -1 keeps them for ever.",
    dynamic=CLUSTER_WIDE,
)

LOG_RETENTION_MINUTES = int32(
    "log.retention.minutes", None, HIGH, "The same in minutes, for when log.retention.ms is not set."
)

LOG_RETENTION_HOURS = int32(
    "log.retention.hours",
    168,
    HIGH,
    "The same in hours, for when neither log.retention.ms nor log.retention.minutes is set.",
)

LOG_RETENTION_BYTES = int64(
    "log.retention.bytes",
    -1,
    HIGH,
    "Size above which a partition's oldest segments are deleted; -1 sets no bound.",
    dynamic=CLUSTER_WIDE,
)

LOG_RETENTION_CHECK_INTERVAL_MS = int64(
    "log.retention.check.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "How often logs are looked at for segments to delete.",
    at_least=1,
)

LOG_CLEANUP_POLICY = words(
    "log.cleanup.policy",
    ("delete",),
    MEDIUM,
    "What happens to old records: delete drops whole segments, compact keeps the last record of each "
    "key; both may be given.",
    among=("compact", "delete"),
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_ENABLE = boolean("log.cleaner.enable", True, MEDIUM, "Whether logs are compacted at all.")

LOG_CLEANER_THREADS = int32(
    "log.cleaner.threads",
    1,
    MEDIUM,
    "How many compactions may run at once; 0 pauses compaction.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE_MAX,
    MEDIUM,
    "Bytes per second that compaction may read and write together.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_DEDUPE_BUFFER_SIZE = int64(
    "log.cleaner.dedupe.buffer.size",
    128 * MIB,
    MEDIUM,
    "Memory for the key maps of all compactions together; at least 1 MiB for each.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_BUFFER_SIZE = int32(
    "log.cleaner.io.buffer.size",
    512 * KIB,
    MEDIUM,
    "Memory for compaction's read and write buffers, all together.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = double(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    MEDIUM,
    "How full a key map may get before a compaction stops collecting keys.",
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_BACKOFF_MS = int64(
    "log.cleaner.backoff.ms",
    15_000,
    MEDIUM,
    "Wait before looking again when no log is worth compacting.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MIN_CLEANABLE_RATIO = double(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    MEDIUM,
    "Share of a log that must be uncompacted before it is compacted.",
    at_least=0,
    at_most=1,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_DELETE_RETENTION_MS = int64(
    "log.cleaner.delete.retention.ms",
    DAY_MS,
    MEDIUM,
    "How long tombstones stay after compaction, so that a reader from the start still meets them.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MIN_COMPACTION_LAG_MS = int64(
    "log.cleaner.min.compaction.lag.ms",
    0,
    MEDIUM,
    "Records younger than this are not compacted.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_CLEANER_MAX_COMPACTION_LAG_MS = int64(
    "log.cleaner.max.compaction.lag.ms",
    LONG_MAX,
    MEDIUM,
    "Records older than this are compacted whatever the ratio says.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

LOG_INDEX_SIZE_MAX_BYTES = int32(
    "log.index.size.max.bytes",
    10 * MIB,
    MEDIUM,
    "Size of an index file; a full index closes its segment.",
    at_least=4,
    dynamic=CLUSTER_WIDE,
)

LOG_INDEX_INTERVAL_BYTES = int32(
    "log.index.interval.bytes",
    4 * KIB,
    MEDIUM,
    "How many bytes of records lie between two index entries.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_INTERVAL_MESSAGES = int64(
    "log.flush.interval.messages",
    LONG_MAX,
    HIGH,
    "Records after which a partition is forced to disk. The default leaves it to the system and to "
    "replication.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_INTERVAL_MS = int64(
    "log.flush.interval.ms",
    None,
    HIGH,
    "Time after which a partition with new records is forced to disk; log.flush.scheduler.interval.ms "
    "if not set.",
    dynamic=CLUSTER_WIDE,
)

LOG_FLUSH_SCHEDULER_INTERVAL_MS = int64(
    "log.flush.scheduler.interval.ms",
    LONG_MAX,
    HIGH,
    "How often partitions are looked at for a flush that is due.",
)

LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = int32(
    "log.flush.offset.checkpoint.interval.ms",
    MINUTE_MS,
    HIGH,
    "How often the point up to which logs are on disk is written down.",
    at_least=0,
)

LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = int32(
    "log.flush.start.offset.checkpoint.interval.ms",
    MINUTE_MS,
    HIGH,
    "How often the logs' start offsets are written down.",
    at_least=0,
)

LOG_SEGMENT_DELETE_DELAY_MS = int64(
    "log.segment.delete.delay.ms",
    MINUTE_MS,
    HIGH,
    "Wait between removing a segment from the log and deleting its files, for readers that still hold them.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_PREALLOCATE = boolean(
    "log.preallocate",
    False,
    MEDIUM,
    "Whether a new segment's file is given its full size at once. Kafka has it for Windows, where Odradek "
    "does not run.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_MESSAGE_FORMAT_VERSION = text(
    "log.message.format.version",
    "3.0-IV1",
    MEDIUM,
    "Record format on disk of old versions. Always the newest here, as in Kafka since 3.0.",
    check=metadata_versions.check,
    allowed="a Kafka release",
    inert=True,
)

LOG_MESSAGE_TIMESTAMP_TYPE = choice(
    "log.message.timestamp.type",
    "CreateTime",
    MEDIUM,
    "Whose clock dates a record: CreateTime keeps the producer's, LogAppendTime sets the broker's.",
    among=("CreateTime", "LogAppendTime"),
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS = int64(
    "log.message.timestamp.difference.max.ms",
    LONG_MAX,
    MEDIUM,
    "Deprecated: largest distance between a record's date and the broker's clock, in both directions.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = int64(
    "log.message.timestamp.before.max.ms",
    LONG_MAX,
    MEDIUM,
    "How far a record's date may lie in the past.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = int64(
    "log.message.timestamp.after.max.ms",
    LONG_MAX,
    MEDIUM,
    "How far a record's date may lie in the future.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

LOG_MESSAGE_DOWNCONVERSION_ENABLE = boolean(
    "log.message.downconversion.enable",
    True,
    LOW,
    "Whether records are turned into older formats for clients that fetch with old versions.",
    dynamic=CLUSTER_WIDE,
)

LOG_DIR_FAILURE_TIMEOUT_MS = int64(
    "log.dir.failure.timeout.ms",
    30_000,
    LOW,
    "How long a KRaft broker goes on when it cannot report a failed directory.",
    at_least=1,
    inert=True,
)

LOG_INITIAL_TASK_DELAY_MS = int64(
    "log.initial.task.delay.ms",
    30_000,
    LOW,
    "Wait after start before retention, flush and checkpoints run for the first time.",
    at_least=0,
    unlisted=True,
)

NUM_RECOVERY_THREADS_PER_DATA_DIR = int32(
    "num.recovery.threads.per.data.dir",
    1,
    HIGH,
    "Threads per directory that check logs at start and flush them at stop.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

NUM_REPLICA_ALTER_LOG_DIRS_THREADS = int32(
    "num.replica.alter.log.dirs.threads",
    None,
    HIGH,
    "Replicas moved between directories at the same time; as many as there are directories if not set.",
)

LOG_SETTINGS = declared(globals())
