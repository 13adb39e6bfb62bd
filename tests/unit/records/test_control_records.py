"""Transaction markers: encoding and decoding."""

import pytest

from odradek.model.errors import BrokerError
from odradek.records import codec
from odradek.records.batch import Record
from odradek.records.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_marker,
    read_control_type,
    read_end_marker,
)

COMMIT = b"\0\0\0\1"
VALUE = b"\0\0\0\0\0\7"


@pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_marker_round_trip(kind: ControlRecordType) -> None:
    marker = EndTransactionMarker(kind, 12)
    data = build_end_marker(marker, producer_id=5, producer_epoch=2, timestamp=1000)
    (header,) = codec.read_headers(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (5, 2, -1, 1)
    assert header.is_control
    assert header.is_transactional
    (record,) = codec.decode(data)
    assert read_end_marker(record) == marker
    assert read_end_marker(record).commits == (kind is ControlRecordType.COMMIT)


def test_trailing_fields_of_newer_versions_are_ignored() -> None:
    record = Record(0, 0, b"\0\5\0\1more", b"\0\3\0\0\0\7more")
    assert read_end_marker(record) == EndTransactionMarker(ControlRecordType.COMMIT, 7)


def test_unknown_control_types_are_recognized() -> None:
    assert read_control_type(b"\0\0\0\2") is ControlRecordType.LEADER_CHANGE
    assert read_control_type(b"\0\0\0\x63") is ControlRecordType.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (b"\0\0\0", VALUE),
        (b"\xff\xff\0\1", VALUE),
        (b"\0\0\0\2", VALUE),
        (COMMIT, None),
        (COMMIT, VALUE[:5]),
        (COMMIT, b"\xff\xff\0\0\0\7"),
    ],
    ids=["no key", "short key", "key version", "other type", "no value", "short value", "value version"],
)
def test_malformed_markers_are_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BrokerError, match="INVALID_RECORD"):
        read_end_marker(Record(0, 0, key, value))
