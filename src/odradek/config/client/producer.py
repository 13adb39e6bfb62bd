"""Options of producers: what a record must outlive, how batches are filled, and who gets them."""

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
    text,
    words,
)
from odradek.config.validators import gzip_level
from odradek.model.protocol_enums import ConfigType

_ACKS: Final = {"all": -1, "0": 0, "1": 1}


def required_acks(settings: Settings) -> int:
    """``acks`` as a request says it: -1 for all."""
    return _ACKS[settings[ACKS]]


def _read_acks(given: str) -> str:
    return "all" if given == "-1" else given


def _not_empty(value: str | None) -> str | None:
    return "String must be non-empty" if value == "" else None


KEY_SERIALIZER = class_name(
    "key.serializer",
    None,
    HIGH,
    'What turns keys into bytes: here the keyword argument key_serializer, a function or "bytes", "str" or '
    '"json".',
    check=reject_class_name("key_serializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

VALUE_SERIALIZER = class_name(
    "value.serializer",
    None,
    HIGH,
    "What turns values into bytes: here the keyword argument value_serializer.",
    check=reject_class_name("value_serializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

PARTITIONER_CLASS = class_name(
    "partitioner.class",
    None,
    MEDIUM,
    "What chooses a record's partition: here the keyword argument partitioner.",
    check=reject_class_name("partitioner", "an object that chooses partitions"),
    allowed="nothing",
)

INTERCEPTOR_CLASSES = words(
    "interceptor.classes",
    (),
    LOW,
    "Who sees records before they are sent, and what became of them: here the keyword argument interceptors.",
    check=reject_class_name("interceptors", "objects with on_send and on_acknowledgement"),
    allowed="nothing",
)

ACKS = Setting(
    "acks",
    ConfigType.STRING,
    "all",
    LOW,
    "Who must have a record before it counts as sent: all in-sync replicas (all or -1), the leader (1), or "
    "nobody (0: no answer, no offset, no retry).",
    _read_acks,
    check=lambda value: None if value in _ACKS else "String must be one of: all, -1, 0, 1",
    allowed="one of all, -1, 0, 1",
)

ENABLE_IDEMPOTENCE = boolean(
    "enable.idempotence",
    True,
    LOW,
    "Whether retries can neither double records nor change their order. Needs acks=all, retries and at most "
    "5 requests in flight; is off if those are set otherwise, and refused if it was asked for besides.",
)

TRANSACTIONAL_ID = text(
    "transactional.id",
    None,
    LOW,
    "Name under which transactions are made; a new producer of the same name puts out the old one.",
    check=_not_empty,
    allowed="not empty",
)

TRANSACTION_TIMEOUT_MS = int32(
    "transaction.timeout.ms",
    MINUTE_MS,
    LOW,
    "A transaction open for longer is aborted by the broker, which may bound this.",
)

RETRIES = int32(
    "retries",
    INT_MAX,
    HIGH,
    "How often a batch is sent again; better left alone, as delivery.timeout.ms bounds the whole.",
    at_least=0,
    at_most=INT_MAX,
)

DELIVERY_TIMEOUT_MS = int32(
    "delivery.timeout.ms",
    2 * MINUTE_MS,
    MEDIUM,
    "When a record has succeeded or failed at the latest, counted from send. Not less than linger.ms and "
    "request.timeout.ms together.",
    at_least=0,
)

LINGER_MS = int64(
    "linger.ms",
    0,
    MEDIUM,
    "How long a batch that has room waits for more records. A little more makes fewer and larger requests.",
    at_least=0,
)

BATCH_SIZE = int32(
    "batch.size",
    16 * KIB,
    MEDIUM,
    "Bytes of a batch; a larger record has a batch of its own. 0 sends each record alone.",
    at_least=0,
)

BATCH_BACKLOG_SIZE = int32(
    "batch.backlog.size",
    256 * KIB,
    MEDIUM,
    "Bytes up to which a full batch grows on while it cannot be sent yet, so that what must wait does so in "
    "fewer batches; nothing waits in order to grow. 0 is Kafka's rule: a full batch takes no more.",
    at_least=0,
)

BUFFER_MEMORY = int64(
    "buffer.memory",
    32 * MIB,
    HIGH,
    "Bytes that records not yet acknowledged may take. When they are used up, send waits for max.block.ms.",
    at_least=0,
)

MAX_BLOCK_MS = int64(
    "max.block.ms",
    MINUTE_MS,
    MEDIUM,
    "How long send may wait for metadata and room, and calls of transactions for their answer.",
    at_least=0,
)

MAX_REQUEST_SIZE = int32(
    "max.request.size",
    MIB,
    MEDIUM,
    "Largest request, and with it the largest record before compression.",
    at_least=0,
)

COMPRESSION_TYPE = choice(
    "compression.type",
    "none",
    HIGH,
    "How batches are compressed.",
    among=("none", "gzip", "snappy", "lz4", "zstd"),
)

COMPRESSION_GZIP_LEVEL = int32(
    "compression.gzip.level",
    -1,
    MEDIUM,
    "How hard gzip tries; more is smaller and slower, -1 the library's default.",
    check=gzip_level,
    allowed="-1 or 1 to 9",
)

COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    MEDIUM,
    "How hard lz4 tries; more is smaller and slower.",
    at_least=1,
    at_most=17,
)

COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    MEDIUM,
    "How hard zstd tries; more is smaller and slower.",
    at_least=-131_072,
    at_most=22,
)

PARTITIONER_IGNORE_KEYS = boolean(
    "partitioner.ignore.keys",
    False,
    MEDIUM,
    "Whether records with a key are spread like those without, not by the key's hash.",
)

PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE = boolean(
    "partitioner.adaptive.partitioning.enable",
    True,
    LOW,
    "Whether brokers that are faster get more of the records without a key.",
)

PARTITIONER_AVAILABILITY_TIMEOUT_MS = int64(
    "partitioner.availability.timeout.ms",
    0,
    LOW,
    "A broker that took no batch for so long gets no records without a key; 0 never leaves one out.",
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
