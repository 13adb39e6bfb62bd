"""General settings of a broker: who it is, what it accepts, how it stops."""

from __future__ import annotations

from odradek.config import metadata_versions, validators
from odradek.config.broker.unavailable_reasons import NO_ACCESS_CONTROL, NO_CLASSES
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
    text,
)

BROKER_ID = int32(
    "broker.id",
    -1,
    HIGH,
    "The number this broker is known by in the cluster. -1 lets the store hand one out, above "
    "reserved.broker.max.id.",
)

BROKER_ID_GENERATION_ENABLE = boolean(
    "broker.id.generation.enable",
    True,
    MEDIUM,
    "Whether a broker without an id may be given one. Ids a person chooses must then stay at or below "
    "reserved.broker.max.id.",
)

RESERVED_BROKER_MAX_ID = int32(
    "reserved.broker.max.id",
    1000,
    MEDIUM,
    "Highest id a person may choose; ids handed out by the store start above it.",
    at_least=0,
)

BROKER_RACK = text(
    "broker.rack",
    None,
    MEDIUM,
    "Where this broker stands. Replica assignment spreads over racks, and consumers may read from their own.",
)

MESSAGE_MAX_BYTES = int32(
    "message.max.bytes",
    MIB + 12,
    HIGH,
    "Largest record batch a topic accepts, as sent, unless the topic says otherwise.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

NUM_PARTITIONS = int32(
    "num.partitions", 1, MEDIUM, "Partitions of a topic that is created without a number.", at_least=1
)

AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, HIGH, "Whether asking for the metadata of an unknown topic creates it."
)

DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, HIGH, "Whether topics may be deleted by request.")

COMPRESSION_TYPE = choice(
    "compression.type",
    "producer",
    HIGH,
    "Codec in which batches are stored; producer keeps each batch as it was sent.",
    among=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_GZIP_LEVEL = int32(
    "compression.gzip.level",
    -1,
    MEDIUM,
    "Level used when the broker itself compresses with gzip; -1 is the library's own choice.",
    check=validators.gzip_level,
    allowed="-1 or 1 to 9",
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    MEDIUM,
    "Level used when the broker itself compresses with lz4.",
    at_least=1,
    at_most=17,
    dynamic=CLUSTER_WIDE,
)

COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    MEDIUM,
    "Level used when the broker itself compresses with zstd.",
    at_least=-131072,
    at_most=22,
    dynamic=CLUSTER_WIDE,
)

FETCH_MAX_BYTES = int32(
    "fetch.max.bytes",
    55 * MIB,
    MEDIUM,
    "Most bytes one fetch answer may carry, whatever the client asks for. A first batch larger than "
    "this is still sent.",
    at_least=1024,
)

MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = int32(
    "max.incremental.fetch.session.cache.slots",
    1000,
    MEDIUM,
    "How many incremental fetch sessions are remembered; further consumers fetch without one.",
    at_least=0,
)

MAX_REQUEST_PARTITION_SIZE_LIMIT = int32(
    "max.request.partition.size.limit",
    2000,
    MEDIUM,
    "Most partitions one DescribeTopicPartitions answer holds; the rest is paged.",
    at_least=1,
    inert=True,
)

REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms",
    30_000,
    HIGH,
    "How long this broker waits for another broker's answer, and the controller for a broker's.",
)

BACKGROUND_THREADS = int32(
    "background.threads",
    10,
    HIGH,
    "Threads for background work. Here timers of the event loop do it.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

NUM_IO_THREADS = int32(
    "num.io.threads",
    8,
    HIGH,
    "Threads that handle requests. Here one event loop serves all of them, so the number changes nothing.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable",
    True,
    MEDIUM,
    "Whether a stopping broker first hands its leaderships to others.",
    inert=True,
)

CONTROLLED_SHUTDOWN_MAX_RETRIES = int32(
    "controlled.shutdown.max.retries",
    3,
    MEDIUM,
    "How often a stopping broker asks the controller again when leaderships could not be moved.",
    inert=True,
)

CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = int64(
    "controlled.shutdown.retry.backoff.ms", 5000, MEDIUM, "Wait between two such attempts.", inert=True
)

AUTHORIZER_CLASS_NAME = text(
    "authorizer.class.name",
    "",
    LOW,
    "Which authoriser decides what a principal may do; empty allows everything. Only the built-in ACL "
    "authoriser's names are known.",
    refused=NO_ACCESS_CONTROL,
)

EARLY_START_LISTENERS = text(
    "early.start.listeners", None, HIGH, "Listeners opened before the authoriser is ready.", inert=True
)

INTER_BROKER_PROTOCOL_VERSION = text(
    "inter.broker.protocol.version",
    "3.9-IV0",
    MEDIUM,
    "Version the brokers speak among themselves. Accepted and reported for tools that read it; 3.9 is "
    "spoken.",
    check=metadata_versions.check,
    allowed="a Kafka release",
    inert=True,
)

CREATE_TOPIC_POLICY_CLASS_NAME = class_name(
    "create.topic.policy.class.name",
    None,
    LOW,
    "Class that may refuse new topics. Classes are not loaded from configuration.",
    refused=NO_CLASSES,
)

ALTER_CONFIG_POLICY_CLASS_NAME = class_name(
    "alter.config.policy.class.name",
    None,
    LOW,
    "Class that may refuse configuration changes. Classes are not loaded from configuration.",
    refused=NO_CLASSES,
)

UNSTABLE_API_VERSIONS_ENABLE = boolean(
    "unstable.api.versions.enable",
    False,
    HIGH,
    "Whether protocol versions still under development are offered. None are.",
    inert=True,
    unlisted=True,
)

UNSTABLE_FEATURE_VERSIONS_ENABLE = boolean(
    "unstable.feature.versions.enable",
    False,
    HIGH,
    "Whether feature levels still under development are offered. None are.",
    inert=True,
    unlisted=True,
)

SERVER_SETTINGS = declared(globals())
