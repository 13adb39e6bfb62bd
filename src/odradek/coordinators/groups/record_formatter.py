"""Records of ``__consumer_offsets`` in words: the JSON of Kafka's dump tool, for ``--offsets-decoder``.

Fields have Kafka's names and only those of the record's version are shown. Bytes are base64, but for the
subscriptions and assignments of consumers, which are shown as far as they can be read.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any, Final

from odradek.coordinators.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinators.groups.records import GroupKey, OffsetKey, read_key
from odradek.coordinators.record_serde import read_fields, read_version
from odradek.model.errors import BrokerError
from odradek.records.layout import Record
from odradek.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.wire.schema import Field, table_of

TOMBSTONE: Final = "<DELETE>"

_TABLES: Final[dict[type, tuple[type, type]]] = {
    OffsetKey: (OffsetCommitKey, OffsetCommitValue),
    GroupKey: (GroupMetadataKey, GroupMetadataValue),
}
_ESCAPE: Final = re.compile(r"\\(?:u00(..)|.)")


def format_record(record: Record) -> tuple[str, str | None]:
    """The words for a record's key and for its value; what cannot be read has its reason for a key."""
    try:
        return _text(record)
    except BrokerError as corrupt:
        return f"Error at offset {record.offset}, skipping. {corrupt.message}", None


def _text(record: Record) -> tuple[str, str | None]:
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    kind = read_version(record.key)
    key = read_key(record.key)
    if key is None:
        return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
    key_table, value_table = _TABLES[type(key)]
    words = _json({"type": str(kind), "data": _shown(read_fields(key_table, kind, record.key), kind)})
    if record.value is None:
        return words, TOMBSTONE
    version = read_version(record.value)
    value = _shown(read_fields(value_table, version, record.value), version)
    if value.get("protocolType") == PROTOCOL_TYPE:
        _show_consumers(value["members"])
    return words, _json({"version": str(version), "data": value})


def _show_consumers(members: list[dict[str, Any]]) -> None:
    for member in members:
        for name, table in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            member[name] = _consumer_words(table, member[name])


def _consumer_words(table: type, raw: bytes) -> Any:
    try:
        version = read_version(raw)
        return _shown(read_fields(table, version, raw), version)
    except BrokerError:
        return raw


def _shown(fields: Any, version: int) -> dict[str, Any]:
    """The fields that the version has, by Kafka's names."""
    return {
        _camel_case(name): _value(field, getattr(fields, name), version)
        for name, field in table_of(type(fields)).items()
        if field.is_in(version)
    }


def _value(field: Field, value: Any, version: int) -> Any:
    if isinstance(field.of, type):
        return [_shown(each, version) for each in value]
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _json(shown: dict[str, Any]) -> str:
    """JSON as Kafka's tool prints it: no spaces, and capitals where characters are given as numbers."""
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=_base64)
    return _ESCAPE.sub(lambda found: f"\\u00{found[1].upper()}" if found[1] else found[0], text)


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()
