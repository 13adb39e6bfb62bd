"""Lines of the dump, in the format of Kafka's tool. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.log.segments.transaction_index import VERSION, AbortedTransaction
from odradek.model.errors import BrokerError
from odradek.model.ids import NO_SEQUENCE
from odradek.records.codec import has_valid_crc
from odradek.records.control_records import ControlRecordType, read_control_type, read_end_marker
from odradek.records.layout import BatchHeader, Record, advance_sequence

Decode = Callable[[Record], tuple[str | None, str | None]]
"""Returns the text of a record's key and value."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options, named like those of Kafka's tool."""

    print_data_log: bool = False
    deep_iteration: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    skip_record_metadata: bool = False
    max_bytes: int | None = None
    decode: Decode | None = None
    """Decoder for records of an internal topic."""

    @property
    def prints_data(self) -> bool:
        return self.print_data_log or self.decode is not None

    @property
    def is_deep(self) -> bool:
        return self.deep_iteration or self.prints_data


def producer_line(producer: ProducerStateEntry) -> str:
    """Return the line of a ``.snapshot`` entry. Like Kafka's, it ends with a space if there is no batch."""
    offset = producer.transaction_first_offset
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
        f"coordinatorEpoch: {producer.coordinator_epoch} "
        f"currentTxnFirstOffset: {'OptionalLong.empty' if offset < 0 else f'OptionalLong[{offset}]'} "
        f"lastTimestamp: {producer.last_timestamp} "
    )
    if not producer.batches:
        return line
    batch = producer.batches[-1]
    return (
        f"{line}firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
        f"lastOffset: {batch.last_offset} offsetDelta: {batch.last_offset - batch.first_offset} "
        f"timestamp: {batch.timestamp}"
    )


def aborted_line(entry: AbortedTransaction) -> str:
    """Return the line of a ``.txnindex`` entry."""
    return (
        f"version: {VERSION} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
    )


def batch_line(header: BatchHeader, batch: memoryview, position: int) -> str:
    if header.magic >= 2:
        horizon = header.delete_horizon_ms
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.leader_epoch} "
            f"isTransactional: {_boolean(header.is_transactional)} isControl: {_boolean(header.is_control)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )
    else:
        start = f"offset: {header.last_offset}"
    codec = _CODECS[header.codec_id] if header.codec_id < len(_CODECS) else f"unknown({header.codec_id})"
    intact = has_valid_crc(batch, header._replace(position=0))
    return (
        f"{start} position: {position} {_time_label(header)}: {header.max_timestamp} "
        f"size: {header.size_bytes} magic: {header.magic} compresscodec: {codec} "
        f"crc: {header.crc} isvalid: {_boolean(intact)}"
    )


def record_line(header: BatchHeader, record: Record, options: DumpOptions) -> str:
    line = "" if options.skip_record_metadata else _record_metadata(header, record)
    if options.prints_data and not header.is_control:
        key, payload = (options.decode or _decode_text)(record)
        if key is not None:
            line += f"{' ' if line else '| '}key: {key}"
        if payload is not None:
            line += f" payload: {payload}"
    return line


def _decode_text(record: Record) -> tuple[str | None, str | None]:
    return _text_of(record.key), _text_of(record.value)


def _text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _record_metadata(header: BatchHeader, record: Record) -> str:
    line = (
        f"| offset: {record.offset} {_time_label(header)}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if header.magic >= 2:
        names = ",".join(name for name, _ in record.headers)
        line += f" sequence: {_sequence(header, record)} headerKeys: [{names}]"
    return f"{line} {_marker(record)}" if header.is_control else line


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return advance_sequence(header.base_sequence, record.offset - header.base_offset)


def _marker(record: Record) -> str:
    try:
        kind = read_control_type(record.key)
        if kind in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            return f"endTxnMarker: {kind.name} coordinatorEpoch: {read_end_marker(record).coordinator_epoch}"
    except BrokerError:
        return "controlType: UNKNOWN(-1)"
    return f"controlType: {kind.name}({kind.value})"


def _time_label(header: BatchHeader) -> str:
    return "NoTimestampType" if header.magic == 0 else header.timestamp_type.label


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _boolean(value: bool) -> str:
    return "true" if value else "false"
