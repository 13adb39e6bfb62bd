"""Control records: the markers that end a transaction in one partition.

Invariant: a marker is one record in a control, transactional batch of the transaction's producer. Its key is
int16 version, int16 type (0 abort, 1 commit); its value is int16 version, int32 coordinator epoch. Newer
versions only add fields, so that trailing bytes are ignored.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import Final, NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, NO_SEQUENCE
from odradek.records.batch import BatchBuilder, Record

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class ControlRecordType(enum.IntEnum):
    """Types of control records; readers skip unknown ones."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def _missing_(cls, value: object) -> ControlRecordType:
        return cls.UNKNOWN


class EndTransactionMarker(NamedTuple):
    """Commit or abort of a transaction, and the epoch of its coordinator."""

    type: ControlRecordType
    coordinator_epoch: int

    @property
    def commits(self) -> bool:
        return self.type is ControlRecordType.COMMIT


def read_control_type(key: bytes | None) -> ControlRecordType:
    """Return the type in a control record's key; raise INVALID_RECORD for a malformed key."""
    if key is None or len(key) < _KEY.size:
        raise BrokerError(ErrorCode.INVALID_RECORD, "key of a control record must have >= 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise BrokerError(
            ErrorCode.INVALID_RECORD, f"version of a control record's key must be >= 0, got {version}"
        )
    return ControlRecordType(kind)


def read_end_marker(record: Record) -> EndTransactionMarker:
    """Return the marker in a control record; raise INVALID_RECORD for anything but commit and abort."""
    kind = read_control_type(record.key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise BrokerError(
            ErrorCode.INVALID_RECORD, f"type of a transaction marker must be COMMIT or ABORT, got {kind.name}"
        )
    if record.value is None or len(record.value) < _VALUE.size:
        raise BrokerError(ErrorCode.INVALID_RECORD, "value of a transaction marker must have >= 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise BrokerError(
            ErrorCode.INVALID_RECORD, f"version of a transaction marker must be >= 0, got {version}"
        )
    return EndTransactionMarker(kind, coordinator_epoch)


def build_end_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the batch that ends a producer's transaction."""
    builder = BatchBuilder(
        base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        transactional=True,
        control=True,
    )
    builder.append(timestamp, _KEY.pack(0, marker.type), _VALUE.pack(0, marker.coordinator_epoch))
    return builder.build()
