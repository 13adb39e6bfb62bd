"""Topic settings of Kafka 3.9, and the broker settings they fall back to.

A topic setting without an override has the value of the first broker setting of ``SYNONYMS`` that is set,
converted to the topic's unit; without synonyms it has its own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.config import broker, metadata_versions, validators
from odradek.config.definition import AnySetting, by_name
from odradek.config.types import (
    DAY_MS,
    GIB,
    HOUR_MS,
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

SEGMENT_BYTES = int32("segment.bytes", GIB, MEDIUM, "Size at which a segment is rolled.", at_least=14)

SEGMENT_MS = int64(
    "segment.ms", 7 * DAY_MS, MEDIUM, "Age at which a segment is rolled, whatever its size.", at_least=1
)

SEGMENT_JITTER_MS = int64(
    "segment.jitter.ms",
    0,
    MEDIUM,
    "Maximum random time subtracted from segment.ms, so that partitions do not all roll at once.",
    at_least=0,
)

SEGMENT_INDEX_BYTES = int32(
    "segment.index.bytes",
    10 * MIB,
    MEDIUM,
    "Maximum size of an index file; a full index rolls the segment.",
    at_least=4,
)

FLUSH_MESSAGES = int64(
    "flush.messages",
    LONG_MAX,
    MEDIUM,
    "Number of records after which a partition is flushed to disk.",
    at_least=1,
)

FLUSH_MS = int64(
    "flush.ms", LONG_MAX, MEDIUM, "Time after which new records are flushed to disk.", at_least=0
)

RETENTION_BYTES = int64(
    "retention.bytes",
    -1,
    MEDIUM,
    "Size of a partition above which its oldest segments are deleted; -1 is unlimited.",
)

RETENTION_MS = int64(
    "retention.ms",
    7 * DAY_MS,
    MEDIUM,
    "Age after which closed segments are deleted; -1 is unlimited.",
    at_least=-1,
)

MAX_MESSAGE_BYTES = int32(
    "max.message.bytes", MIB + 12, MEDIUM, "Maximum size of a record batch, as sent.", at_least=0
)

INDEX_INTERVAL_BYTES = int32(
    "index.interval.bytes",
    4 * KIB,
    MEDIUM,
    "Bytes of records between two index entries.",
    at_least=0,
)

DELETE_RETENTION_MS = int64(
    "delete.retention.ms", DAY_MS, MEDIUM, "Time tombstones are kept after compaction.", at_least=0
)

MIN_COMPACTION_LAG_MS = int64(
    "min.compaction.lag.ms", 0, MEDIUM, "Minimum age of a record before it is compacted.", at_least=0
)

MAX_COMPACTION_LAG_MS = int64(
    "max.compaction.lag.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum age of a record before it is compacted, whatever min.cleanable.dirty.ratio.",
    at_least=1,
)

FILE_DELETE_DELAY_MS = int64(
    "file.delete.delay.ms",
    MINUTE_MS,
    MEDIUM,
    "Delay between the removal of a segment from the log and the deletion of its files.",
    at_least=0,
)

MIN_CLEANABLE_DIRTY_RATIO = double(
    "min.cleanable.dirty.ratio",
    0.5,
    MEDIUM,
    "Minimum ratio of uncompacted to total log before it is compacted.",
    at_least=0,
    at_most=1,
)

CLEANUP_POLICY = string_list(
    "cleanup.policy",
    ("delete",),
    MEDIUM,
    "Cleanup of old records: delete removes whole segments, compact keeps the last record of each "
    "key; both can be combined.",
    among=("compact", "delete"),
)

UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    MEDIUM,
    "Whether an out-of-sync replica may become leader if no in-sync replica is left.",
)

MIN_INSYNC_REPLICAS = int32(
    "min.insync.replicas",
    1,
    MEDIUM,
    "Minimum number of in-sync replicas for a write with acks=all.",
    at_least=1,
)

COMPRESSION_TYPE = choice(
    "compression.type",
    "producer",
    MEDIUM,
    "Codec of stored batches; producer keeps the codec of each batch.",
    among=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
)

COMPRESSION_GZIP_LEVEL = int32(
    "compression.gzip.level",
    -1,
    MEDIUM,
    "Compression level if the broker compresses with gzip; -1 is the library's default.",
    check=validators.gzip_level,
    allowed="-1 or 1 to 9",
)

COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    MEDIUM,
    "Compression level if the broker compresses with lz4.",
    at_least=1,
    at_most=17,
)

COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    MEDIUM,
    "Compression level if the broker compresses with zstd.",
    at_least=-131072,
    at_most=22,
)

PREALLOCATE = boolean(
    "preallocate",
    False,
    MEDIUM,
    "Whether a new segment's file is preallocated. Kafka has this for Windows.",
    inert=True,
)

MESSAGE_FORMAT_VERSION = string(
    "message.format.version",
    "3.0-IV1",
    MEDIUM,
    "Record format of earlier Kafka versions. The newest format is always used, as in Kafka since 3.0.",
    check=metadata_versions.check,
    allowed="a Kafka release",
    inert=True,
)

MESSAGE_TIMESTAMP_TYPE = choice(
    "message.timestamp.type",
    "CreateTime",
    MEDIUM,
    "Timestamp of a record: CreateTime is set by the producer, LogAppendTime by the broker.",
    among=("CreateTime", "LogAppendTime"),
)

MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS = int64(
    "message.timestamp.difference.max.ms",
    LONG_MAX,
    MEDIUM,
    "Deprecated: maximum difference between a record's timestamp and the broker's clock, in both directions.",
    at_least=0,
)

MESSAGE_TIMESTAMP_BEFORE_MAX_MS = int64(
    "message.timestamp.before.max.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum time a record's timestamp may be in the past.",
    at_least=0,
)

MESSAGE_TIMESTAMP_AFTER_MAX_MS = int64(
    "message.timestamp.after.max.ms",
    LONG_MAX,
    MEDIUM,
    "Maximum time a record's timestamp may be in the future.",
    at_least=0,
)

LEADER_REPLICATION_THROTTLED_REPLICAS = string_list(
    "leader.replication.throttled.replicas",
    (),
    MEDIUM,
    "Replicas throttled on the leader: a list of partition:broker, or *.",
    check=validators.throttled_replicas,
    allowed="* or a list of partition:broker",
)

FOLLOWER_REPLICATION_THROTTLED_REPLICAS = string_list(
    "follower.replication.throttled.replicas",
    (),
    MEDIUM,
    "Replicas throttled on the follower: a list of partition:broker, or *.",
    check=validators.throttled_replicas,
    allowed="* or a list of partition:broker",
)

MESSAGE_DOWNCONVERSION_ENABLE = boolean(
    "message.downconversion.enable",
    True,
    LOW,
    "Whether records are converted to older formats for clients with old fetch versions.",
)

REMOTE_STORAGE_ENABLE = boolean(
    "remote.storage.enable",
    False,
    MEDIUM,
    "Whether the topic's segments are copied to remote storage.",
    inert=True,
)

LOCAL_RETENTION_MS = int64(
    "local.retention.ms",
    -2,
    MEDIUM,
    "Age after which a segment that was copied is deleted locally.",
    at_least=-2,
    inert=True,
)

LOCAL_RETENTION_BYTES = int64(
    "local.retention.bytes",
    -2,
    MEDIUM,
    "Size above which segments that were copied are deleted locally.",
    at_least=-2,
    inert=True,
)

REMOTE_LOG_COPY_DISABLE = boolean(
    "remote.log.copy.disable", False, MEDIUM, "Whether copying to remote storage is stopped.", inert=True
)

REMOTE_LOG_DELETE_ON_DISABLE = boolean(
    "remote.log.delete.on.disable",
    False,
    MEDIUM,
    "Whether remote segments are deleted when remote storage is disabled.",
    inert=True,
)

TOPIC = declared(globals())
BY_NAME = by_name(TOPIC)


class Synonym(NamedTuple):
    """A broker setting that a topic setting falls back to; ``factor`` converts its unit to the topic's."""

    setting: AnySetting
    factor: int = 1


SYNONYMS: Final[Mapping[AnySetting, tuple[Synonym, ...]]] = {
    SEGMENT_BYTES: (Synonym(broker.LOG_SEGMENT_BYTES),),
    SEGMENT_MS: (
        Synonym(broker.LOG_ROLL_MS),
        Synonym(broker.LOG_ROLL_HOURS, HOUR_MS),
    ),
    SEGMENT_JITTER_MS: (
        Synonym(broker.LOG_ROLL_JITTER_MS),
        Synonym(broker.LOG_ROLL_JITTER_HOURS, HOUR_MS),
    ),
    SEGMENT_INDEX_BYTES: (Synonym(broker.LOG_INDEX_SIZE_MAX_BYTES),),
    FLUSH_MESSAGES: (Synonym(broker.LOG_FLUSH_INTERVAL_MESSAGES),),
    FLUSH_MS: (
        Synonym(broker.LOG_FLUSH_INTERVAL_MS),
        Synonym(broker.LOG_FLUSH_SCHEDULER_INTERVAL_MS),
    ),
    RETENTION_BYTES: (Synonym(broker.LOG_RETENTION_BYTES),),
    RETENTION_MS: (
        Synonym(broker.LOG_RETENTION_MS),
        Synonym(broker.LOG_RETENTION_MINUTES, MINUTE_MS),
        Synonym(broker.LOG_RETENTION_HOURS, HOUR_MS),
    ),
    MAX_MESSAGE_BYTES: (Synonym(broker.MESSAGE_MAX_BYTES),),
    INDEX_INTERVAL_BYTES: (Synonym(broker.LOG_INDEX_INTERVAL_BYTES),),
    DELETE_RETENTION_MS: (Synonym(broker.LOG_CLEANER_DELETE_RETENTION_MS),),
    MIN_COMPACTION_LAG_MS: (Synonym(broker.LOG_CLEANER_MIN_COMPACTION_LAG_MS),),
    MAX_COMPACTION_LAG_MS: (Synonym(broker.LOG_CLEANER_MAX_COMPACTION_LAG_MS),),
    FILE_DELETE_DELAY_MS: (Synonym(broker.LOG_SEGMENT_DELETE_DELAY_MS),),
    MIN_CLEANABLE_DIRTY_RATIO: (Synonym(broker.LOG_CLEANER_MIN_CLEANABLE_RATIO),),
    CLEANUP_POLICY: (Synonym(broker.LOG_CLEANUP_POLICY),),
    UNCLEAN_LEADER_ELECTION_ENABLE: (Synonym(broker.UNCLEAN_LEADER_ELECTION_ENABLE),),
    MIN_INSYNC_REPLICAS: (Synonym(broker.MIN_INSYNC_REPLICAS),),
    COMPRESSION_TYPE: (Synonym(broker.COMPRESSION_TYPE),),
    COMPRESSION_GZIP_LEVEL: (Synonym(broker.COMPRESSION_GZIP_LEVEL),),
    COMPRESSION_LZ4_LEVEL: (Synonym(broker.COMPRESSION_LZ4_LEVEL),),
    COMPRESSION_ZSTD_LEVEL: (Synonym(broker.COMPRESSION_ZSTD_LEVEL),),
    PREALLOCATE: (Synonym(broker.LOG_PREALLOCATE),),
    MESSAGE_FORMAT_VERSION: (Synonym(broker.LOG_MESSAGE_FORMAT_VERSION),),
    MESSAGE_TIMESTAMP_TYPE: (Synonym(broker.LOG_MESSAGE_TIMESTAMP_TYPE),),
    MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS: (Synonym(broker.LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS),),
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS: (Synonym(broker.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS),),
    MESSAGE_TIMESTAMP_AFTER_MAX_MS: (Synonym(broker.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS),),
    MESSAGE_DOWNCONVERSION_ENABLE: (Synonym(broker.LOG_MESSAGE_DOWNCONVERSION_ENABLE),),
    LOCAL_RETENTION_MS: (Synonym(broker.LOG_LOCAL_RETENTION_MS),),
    LOCAL_RETENTION_BYTES: (Synonym(broker.LOG_LOCAL_RETENTION_BYTES),),
}
