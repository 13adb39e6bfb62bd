"""Settings of transactions and idempotent producers."""

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
    "Size of a read while a coordinator loads a partition of the transaction topic.",
    at_least=1,
)

TRANSACTION_STATE_LOG_REPLICATION_FACTOR = int16(
    "transaction.state.log.replication.factor",
    3,
    HIGH,
    "Replication factor of the transaction topic; it is not created while fewer brokers are alive.",
    at_least=1,
)

TRANSACTION_STATE_LOG_NUM_PARTITIONS = int32(
    "transaction.state.log.num.partitions",
    50,
    HIGH,
    "Number of partitions of the transaction topic. Must not be changed once it exists.",
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
    "Whether a transactional write is verified with the coordinator before it is appended, which "
    "prevents hanging transactions.",
    dynamic=CLUSTER_WIDE,
)

TRANSACTION_MAX_TIMEOUT_MS = int32(
    "transaction.max.timeout.ms",
    15 * MINUTE_MS,
    HIGH,
    "Maximum transaction timeout of a producer.",
    at_least=1,
)

TRANSACTIONAL_ID_EXPIRATION_MS = int32(
    "transactional.id.expiration.ms",
    7 * DAY_MS,
    HIGH,
    "Time an unused transactional id is kept.",
    at_least=1,
)

TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    LOW,
    "Interval between checks for transactions to abort because they timed out.",
    at_least=1,
)

TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = int32(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    HOUR_MS,
    LOW,
    "Interval between checks for expired transactional ids.",
    at_least=1,
)

PRODUCER_ID_EXPIRATION_MS = int32(
    "producer.id.expiration.ms",
    DAY_MS,
    LOW,
    "Time a partition keeps the state of an idempotent producer that no longer writes.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
)

PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = int32(
    "producer.id.expiration.check.interval.ms",
    10 * MINUTE_MS,
    LOW,
    "Interval between checks for expired producer ids.",
    at_least=1,
    unlisted=True,
)

TRANSACTIONS_SETTINGS = declared(globals())
