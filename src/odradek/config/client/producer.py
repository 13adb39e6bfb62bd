"""Options of producers: acknowledgements, batching and partitioning."""

from __future__ import annotations

from typing import Final

from odradek.config.client import connection
from odradek.config.client.definition import ClientConfigDef, reject_class_name
from odradek.config.definition import Setting, Settings
from odradek.config.types import (
    HIGH,
    INT_MAX,
    KIB,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    choice,
    class_name,
    declared,
    int32,
    int64,
    string,
    string_list,
)
from odradek.config.validators import gzip_level
from odradek.model.protocol_enums import ConfigType

_ACKS: Final = {"all": -1, "0": 0, "1": 1}


def required_acks(settings: Settings) -> int:
    """Return ``acks`` as in a produce request: -1 for all."""
    return _ACKS[settings[ACKS]]


def _parse_acks(text: str) -> str:
    return "all" if text == "-1" else text


def _not_empty(value: str | None) -> str | None:
    return "must be non-empty" if value == "" else None


KEY_SERIALIZER = class_name(
    "key.serializer",
    None,
    HIGH,
    'Serializer of keys: use the keyword argument key_serializer, a function or "bytes", "str" or "json".',
    check=reject_class_name("key_serializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

VALUE_SERIALIZER = class_name(
    "value.serializer",
    None,
    HIGH,
    "Serializer of values: use the keyword argument value_serializer.",
    check=reject_class_name("value_serializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

PARTITIONER_CLASS = class_name(
    "partitioner.class",
    None,
    MEDIUM,
    "Partitioner: use the keyword argument partitioner.",
    check=reject_class_name("partitioner", "an object that chooses partitions"),
    allowed="nothing",
)

INTERCEPTOR_CLASSES = string_list(
    "interceptor.classes",
    (),
    LOW,
    "Interceptors of records before they are sent, and of their results: use the keyword argument "
    "interceptors.",
    check=reject_class_name("interceptors", "objects with on_send and on_acknowledgement"),
    allowed="nothing",
)

ACKS = Setting(
    "acks",
    ConfigType.STRING,
    "all",
    LOW,
    "Acknowledgements before a record counts as sent: all in-sync replicas (all or -1), the leader "
    "(1), or none (0: no response, no offset, no retries).",
    _parse_acks,
    check=lambda value: None if value in _ACKS else "must be one of all, -1, 0, 1",
    allowed="one of all, -1, 0, 1",
)

ENABLE_IDEMPOTENCE = boolean(
    "enable.idempotence",
    True,
    LOW,
    "Whether retries can neither duplicate nor reorder records. Requires acks=all, retries and at "
    "most 5 requests in flight; otherwise it is disabled, or an error if it was set explicitly.",
)

TRANSACTIONAL_ID = string(
    "transactional.id",
    None,
    LOW,
    "Id for transactions. A new producer with the same id fences the old one.",
    check=_not_empty,
    allowed="not empty",
)

TRANSACTION_TIMEOUT_MS = int32(
    "transaction.timeout.ms",
    MINUTE_MS,
    LOW,
    "Time after which the broker aborts an open transaction. The broker limits it.",
)

RETRIES = int32(
    "retries",
    INT_MAX,
    HIGH,
    "Maximum number of retries of a batch; better left at its default, because delivery.timeout.ms "
    "bounds them.",
    at_least=0,
    at_most=INT_MAX,
)

DELIVERY_TIMEOUT_MS = int32(
    "delivery.timeout.ms",
    2 * MINUTE_MS,
    MEDIUM,
    "Maximum time from send to success or failure of a record. At least linger.ms plus request.timeout.ms.",
    at_least=0,
)

LINGER_MS = int64(
    "linger.ms",
    0,
    MEDIUM,
    "Time a batch that is not full waits for more records. Larger values give fewer and larger requests.",
    at_least=0,
)

BATCH_SIZE = int32(
    "batch.size",
    16 * KIB,
    MEDIUM,
    "Maximum batch size; a larger record gets its own batch. 0 disables batching.",
    at_least=0,
)

BATCH_BACKLOG_SIZE = int32(
    "batch.backlog.size",
    256 * KIB,
    MEDIUM,
    "Size up to which a full batch may grow while it cannot be sent yet, so that a backlog has "
    "fewer batches; batches never wait to grow. 0 is Kafka's behavior: a full batch is closed.",
    at_least=0,
)

BUFFER_MEMORY = int64(
    "buffer.memory",
    32 * MIB,
    HIGH,
    "Memory for records that are not acknowledged. If it is exhausted, send blocks for up to max.block.ms.",
    at_least=0,
)

MAX_BLOCK_MS = int64(
    "max.block.ms",
    MINUTE_MS,
    MEDIUM,
    "Maximum time that send blocks for metadata and memory, and transaction calls for their response.",
    at_least=0,
)

MAX_REQUEST_SIZE = int32(
    "max.request.size",
    MIB,
    MEDIUM,
    "Maximum size of a request, and of an uncompressed record.",
    at_least=0,
)

COMPRESSION_TYPE = choice(
    "compression.type",
    "none",
    HIGH,
    "Compression of batches.",
    among=("none", "gzip", "snappy", "lz4", "zstd"),
)

COMPRESSION_GZIP_LEVEL = int32(
    "compression.gzip.level",
    -1,
    MEDIUM,
    "Compression level of gzip; higher is smaller and slower, -1 is the library's default.",
    check=gzip_level,
    allowed="-1 or 1 to 9",
)

COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    MEDIUM,
    "Compression level of lz4; higher is smaller and slower.",
    at_least=1,
    at_most=17,
)

COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    MEDIUM,
    "Compression level of zstd; higher is smaller and slower.",
    at_least=-131_072,
    at_most=22,
)

PARTITIONER_IGNORE_KEYS = boolean(
    "partitioner.ignore.keys",
    False,
    MEDIUM,
    "Whether records with a key are partitioned like those without, instead of by the key's hash.",
)

PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE = boolean(
    "partitioner.adaptive.partitioning.enable",
    True,
    LOW,
    "Whether faster brokers get more of the records without a key.",
)

PARTITIONER_AVAILABILITY_TIMEOUT_MS = int64(
    "partitioner.availability.timeout.ms",
    0,
    LOW,
    "Time after which a broker that accepts no batches gets no records without a key; 0 disables this.",
    at_least=0,
)

PRODUCER_SETTINGS = declared(globals())

PRODUCER = ClientConfigDef(
    "producer",
    PRODUCER_SETTINGS,
    without=(
        connection.CLIENT_RACK,
        connection.DEFAULT_API_TIMEOUT_MS,
        connection.ALLOW_AUTO_CREATE_TOPICS,
    ),
    fixed={connection.RECEIVE_BUFFER_BYTES: 32 * KIB},
)
