"""Transactions and idempotent producers."""

from __future__ import annotations

from odradek.config.types import (
    CLUSTER_WIDE,
    DAY_MS,
    HIGH,
    HOUR_MS,
    LOW,
    MIB,
    MINUTE_MS,
    boolean,
    declared,
    int16,
    int32,
)

TRANSACTION_STATE_LOG_MIN_ISR = int32(
    "transaction.state.log.min.isr", 2, HIGH, "min.insync.replicas of the transaction topic.", at_least=1
)

TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = int32(
    "transaction.state.log.load.buffer.size",
    5 * MIB,
    HIGH,
    "Bytes read at a time while a coordinator loads its part of the transaction topic.",
    at_least=1,
)

TRANSACTION_STATE_LOG_REPLICATION_FACTOR = int16(
    "transaction.state.log.replication.factor",
    3,
    HIGH,
    "Replicas of the transaction topic; it is not created while fewer brokers are alive.",
    at_least=1,
)

TRANSACTION_STATE_LOG_NUM_PARTITIONS = int32(
    "transaction.state.log.num.partitions",
    50,
    HIGH,
    "Partitions of the transaction topic. Not to be changed once it exists.",
    at_least=1,
)

TRANSACTION_STATE_LOG_SEGMENT_BYTES = int32(
    "transaction.state.log.segment.bytes",
    100 * MIB,
    HIGH,
    "Segment size of the transaction topic; small, so that it loads fast.",
    at_least=1,
)

TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    LOW,
    "Whether a transactional write is checked with the coordinator before it is appended, so that none "
    "is left hanging.",
    dynamic=CLUSTER_WIDE,
)

TRANSACTION_MAX_TIMEOUT_MS = int32(
    "transaction.max.timeout.ms",
    15 * MINUTE_MS,
    HIGH,
    "Longest transaction timeout a producer may ask for.",
    at_least=1,
)

TRANSACTIONAL_ID_EXPIRATION_MS = int32(
    "transactional.id.expiration.ms",
    7 * DAY_MS,
    HIGH,
    "How long a transactional id without a transaction is remembered.",
    at_least=1,
)

TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    LOW,
    "How often transactions past their timeout are looked for and aborted.",
    at_least=1,
)

TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    HOUR_MS,
    LOW,
    "How often expired transactional ids are looked for and forgotten.",
    at_least=1,
)

PRODUCER_ID_EXPIRATION_MS = int32(
    "producer.id.expiration.ms",
    DAY_MS,
    LOW,
    "How long a partition remembers an idempotent producer that no longer writes.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = int32(
    "producer.id.expiration.check.interval.ms",
    10 * MINUTE_MS,
    LOW,
    "How often such producers are looked for.",
    at_least=1,
    unlisted=True,
)

TRANSACTIONS_SETTINGS = declared(globals())
