"""Records of the coordinators' topics as Kafka's dump tool prints them.

``--offsets-decoder`` prints those of ``__consumer_offsets`` as JSON. Fields have Kafka's names, and only
those of the record's version are shown. Bytes are shown in base64, except the subscriptions and assignments
of consumers, which are decoded if possible. ``--transaction-log-decoder`` prints those of
``__transaction_state`` as text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from odradek.coordinators.groups import records as group_records
from odradek.coordinators.groups.records import (
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetKey,
)
from odradek.coordinators.record_serde import read_fields, read_version
from odradek.coordinators.transactions import records as transaction_records
from odradek.model.errors import BrokerError
from odradek.records.layout import Record
from odradek.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.wire.schema import Field, table_of

TOMBSTONE: Final = "<DELETE>"

_SCHEMAS: Final[dict[type, tuple[type, type]]] = {
    OffsetKey: (OffsetCommitKey, OffsetCommitValue),
    GroupKey: (GroupMetadataKey, GroupMetadataValue),
}
_ESCAPE: Final = re.compile(r"\\(?:u00(..)|.)")


def format_group_record(record: Record) -> tuple[str, str | None]:
    """Return the text of a record's key and value; for an unreadable record, the error as its key."""
    return _format(record, _group_texts)


def format_transaction_record(record: Record) -> tuple[str, str | None]:
    """Return the text of a record's key and value; for an unreadable record, the error as its key."""
    return _format(record, _transaction_texts)


def _format(
    record: Record, texts: Callable[[bytes, Record], tuple[str, str | None]]
) -> tuple[str, str | None]:
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    try:
        return texts(record.key, record)
    except BrokerError as error:
        return f"Error at offset {record.offset}, skipping. {error.message}", None


def _transaction_texts(raw_key: bytes, record: Record) -> tuple[str, str | None]:
    transactional_id = transaction_records.read_key(raw_key)
    if transactional_id is None:
        return f"unknown::version={read_version(raw_key)}", None
    key_text = f"transaction_metadata::transactionalId={transactional_id}"
    if record.value is None:
        return key_text, TOMBSTONE
    stored = transaction_records.read_transaction(record.value)
    partitions = ",".join(map(str, sorted(stored.partitions)))
    return key_text, (
        f"producerId:{stored.producer_id},producerEpoch:{stored.producer_epoch},state={stored.state.value},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={stored.update_ms},"
        f"txnTimeoutMs={stored.timeout_ms}"
    )


def _group_texts(raw_key: bytes, record: Record) -> tuple[str, str | None]:
    key_version = read_version(raw_key)
    key = group_records.read_key(raw_key)
    if key is None:
        return f"Unknown record type {key_version} at offset {record.offset}, skipping.", None
    key_schema, value_schema = _SCHEMAS[type(key)]
    key_fields = _field_values(read_fields(key_schema, key_version, raw_key), key_version)
    key_text = _json({"type": str(key_version), "data": key_fields})
    if record.value is None:
        return key_text, TOMBSTONE
    version = read_version(record.value)
    value = _field_values(read_fields(value_schema, version, record.value), version)
    if value.get("protocolType") == PROTOCOL_TYPE:
        _decode_consumers(value["members"])
    return key_text, _json({"version": str(version), "data": value})


def _decode_consumers(members: list[dict[str, Any]]) -> None:
    for member in members:
        for name, schema in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            member[name] = _decode_or_keep(schema, member[name])


def _decode_or_keep(schema: type, raw: bytes) -> object:
    try:
        version = read_version(raw)
        return _field_values(read_fields(schema, version, raw), version)
    except BrokerError:
        return raw


def _field_values(fields: object, version: int) -> dict[str, Any]:
    """Return the values of the version's fields by Kafka's names."""
    return {
        _camel_case(name): _value(field, getattr(fields, name), version)
        for name, field in table_of(type(fields)).items()
        if field.is_in(version)
    }


def _value(field: Field, value: Any, version: int) -> Any:
    if isinstance(field.of, type):
        return [_field_values(each, version) for each in value]
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _json(value: dict[str, object]) -> str:
    """Return JSON as Kafka's tool prints it: without spaces, and with upper-case hexadecimal escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_base64)
    return _ESCAPE.sub(lambda match: f"\\u00{match[1].upper()}" if match[1] else match[0], text)


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()
