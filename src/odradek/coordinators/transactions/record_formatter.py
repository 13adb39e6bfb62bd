"""Records of ``__transaction_state`` as Kafka's dump tool prints them, for ``--transaction-log-decoder``."""

from __future__ import annotations

from typing import Final

from odradek.coordinators.record_serde import read_version
from odradek.coordinators.transactions.records import read_key, read_transaction
from odradek.model.errors import BrokerError
from odradek.records.layout import Record

TOMBSTONE: Final = "<DELETE>"


def format_record(record: Record) -> tuple[str, str | None]:
    """Return the text of a record's key and value; for an unreadable record, the error as its key."""
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    try:
        transactional_id = read_key(record.key)
        if transactional_id is None:
            return f"unknown::version={read_version(record.key)}", None
        return f"transaction_metadata::transactionalId={transactional_id}", _format_value(record.value)
    except BrokerError as error:
        return f"Error at offset {record.offset}, skipping. {error.message}", None


def _format_value(raw: bytes | None) -> str:
    if raw is None:
        return TOMBSTONE
    stored = read_transaction(raw)
    partitions = ",".join(map(str, sorted(stored.partitions)))
    return (
        f"producerId:{stored.producer_id},producerEpoch:{stored.producer_epoch},state={stored.state.value},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={stored.update_ms},"
        f"txnTimeoutMs={stored.timeout_ms}"
    )
