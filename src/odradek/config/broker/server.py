"""General broker settings: identity, topics, limits and shutdown."""

from __future__ import annotations

from odradek.config import metadata_versions, validators
from odradek.config.broker.unavailable_reasons import NO_CLASSES
from odradek.config.types import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MEDIUM,
    MIB,
    boolean,
    choice,
    class_name,
    declared,
    int32,
    int64,
    string,
)

BROKER_ID = int32(
    "broker.id",
    -1,
    HIGH,
    "Id of this broker in the cluster. -1 generates one above reserved.broker.max.id.",
)

BROKER_ID_GENERATION_ENABLE = boolean(
    "broker.id.generation.enable",
    True,
    MEDIUM,
    "Whether an id is generated for a broker without one. Configured ids must then be at most "
    "reserved.broker.max.id.",
)

RESERVED_BROKER_MAX_ID = int32(
    "reserved.broker.max.id",
    1000,
    MEDIUM,
    "Largest broker id that may be configured; generated ids are larger.",
    at_least=0,
)

BROKER_RACK = string(
    "broker.rack",
    None,
    MEDIUM,
    "Rack of this broker. Replica assignment spreads over racks, and consumers may fetch from a "
    "replica in their rack.",
)

MESSAGE_MAX_BYTES = int32(
    "message.max.bytes",
    MIB + 12,
    HIGH,
    "Maximum size of a record batch, as sent, unless the topic has its own max.message.bytes.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

NUM_PARTITIONS = int32(
    "num.partitions", 1, MEDIUM, "Default number of partitions of a new topic.", at_least=1
)

AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, HIGH, "Whether a metadata request for an unknown topic creates it."
)

DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, HIGH, "Whether topics can be deleted.")

COMPRESSION_TYPE = choice(
    "compression.type",
    "producer",
    HIGH,
    "Codec of stored batches; producer keeps the codec of each batch.",
    among=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_GZIP_LEVEL = int32(
    "compression.gzip.level",
    -1,
    MEDIUM,
    "Compression level if the broker compresses with gzip; -1 is the library's default.",
    check=validators.gzip_level,
    allowed="-1 or 1 to 9",
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    MEDIUM,
    "Compression level if the broker compresses with lz4.",
    at_least=1,
    at_most=17,
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    MEDIUM,
    "Compression level if the broker compresses with zstd.",
    at_least=-131072,
    at_most=22,
    dynamic=CLUSTER_WIDE,
)

FETCH_MAX_BYTES = int32(
    "fetch.max.bytes",
    55 * MIB,
    MEDIUM,
    "Maximum bytes of a fetch response, whatever the client requests. A larger first batch is still "
    "returned.",
    at_least=1024,
)

MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = int32(
    "max.incremental.fetch.session.cache.slots",
    1000,
    MEDIUM,
    "Maximum number of incremental fetch sessions; further consumers fetch without one.",
    at_least=0,
)

MAX_REQUEST_PARTITION_SIZE_LIMIT = int32(
    "max.request.partition.size.limit",
    2000,
    MEDIUM,
    "Maximum partitions in a DescribeTopicPartitions response; the rest is paged.",
    at_least=1,
    inert=True,
)

REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms",
    30_000,
    HIGH,
    "Time this broker waits for a response of another broker, and the controller for one of a broker.",
)

BACKGROUND_THREADS = int32(
    "background.threads",
    10,
    HIGH,
    "Threads for background tasks. Odradek uses timers of its event loop.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

NUM_IO_THREADS = int32(
    "num.io.threads",
    8,
    HIGH,
    "Threads that process requests. Odradek uses one event loop, so the number has no effect.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable",
    True,
    MEDIUM,
    "Whether a broker transfers its partition leaderships before it stops.",
)

CONTROLLED_SHUTDOWN_MAX_RETRIES = int32(
    "controlled.shutdown.max.retries",
    3,
    MEDIUM,
    "Retries of a controlled shutdown if leaderships could not be transferred.",
)

CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = int64(
    "controlled.shutdown.retry.backoff.ms",
    5000,
    MEDIUM,
    "Wait between retries of a controlled shutdown.",
)

AUTHORIZER_CLASS_NAME = string(
    "authorizer.class.name",
    "",
    LOW,
    "Authorizer class; empty allows all operations. Kafka's AclAuthorizer is built in; no class is loaded.",
    check=validators.authorizer_class,
    allowed=f"empty or {validators.ACL_AUTHORIZER}",
)

EARLY_START_LISTENERS = string(
    "early.start.listeners", None, HIGH, "Listeners that start before the authorizer is ready.", inert=True
)

INTER_BROKER_PROTOCOL_VERSION = string(
    "inter.broker.protocol.version",
    "3.9-IV0",
    MEDIUM,
    "Protocol version between the brokers of a cluster on ZooKeeper, 2.8 or later. A single broker without "
    "ZooKeeper always uses 3.9.",
    check=metadata_versions.check,
    allowed="a Kafka release",
)

CREATE_TOPIC_POLICY_CLASS_NAME = class_name(
    "create.topic.policy.class.name",
    None,
    LOW,
    "Class that validates new topics. Classes are not loaded from configuration.",
    unavailable=NO_CLASSES,
)

ALTER_CONFIG_POLICY_CLASS_NAME = class_name(
    "alter.config.policy.class.name",
    None,
    LOW,
    "Class that validates configuration changes. Classes are not loaded from configuration.",
    unavailable=NO_CLASSES,
)

UNSTABLE_API_VERSIONS_ENABLE = boolean(
    "unstable.api.versions.enable",
    False,
    HIGH,
    "Whether API versions under development are enabled. There are none.",
    inert=True,
    unlisted=True,
)

UNSTABLE_FEATURE_VERSIONS_ENABLE = boolean(
    "unstable.feature.versions.enable",
    False,
    HIGH,
    "Whether feature versions under development are enabled. There are none.",
    inert=True,
    unlisted=True,
)

SERVER_SETTINGS = declared(globals())
