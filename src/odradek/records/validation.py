"""Validation of produced records by the leader: checks, offset assignment, conversion.

Invariant: ``validate_and_assign_offsets`` returns a complete magic 2 batch with a valid CRC, consecutive
offsets from ``next_offset`` and the right max timestamp. The order of the checks and the error codes are
those of Kafka 3.9's produce path. Where Kafka accepts a batch that readers fail on, or returns
UNKNOWN_SERVER_ERROR, this is stricter or more specific:

- the size of a record must match its fields, in compressed batches too: INVALID_RECORD;
- offset deltas that are not 0, 1, 2 and so on: INVALID_RECORD;
- transactional without producer id, or producer id with a negative epoch: INVALID_RECORD;
- records that cannot be decompressed: INVALID_RECORD; too large decompressed: MESSAGE_TOO_LARGE;
- an unknown codec id: UNSUPPORTED_COMPRESSION_TYPE; a truncated header: CORRUPT_MESSAGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.append_rules import (
    APPEND_TIME_SET,
    MISSING_KEY,
    NO_LIMITS,
    AppendContext,
    AppendOrigin,
    AppendRules,
    RecordValidationError,
    WorkLimitExceeded,
    WorkLimits,
    invalid_record,
    record_validation_error,
)
from odradek.records.batch import build_batch
from odradek.records.compression import DecompressedTooLarge, compress, decompress
from odradek.records.conversion import up_convert
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DEFINED_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    RECORD_ERRORS_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    RecordScan,
)

__all__ = [
    "PRODUCE_VERSION_LATEST",
    "ValidatedRecords",
    "WorkLimitExceeded",
    "WorkLimits",
    "AppendRules",
    "AppendOrigin",
    "RecordValidationError",
    "validate_and_assign_offsets",
    "validate_replicated",
    "reassign_offsets",
]

PRODUCE_VERSION_LATEST: Final = 11
_ONE_BATCH_SINCE: Final = 3
_ZSTD_SINCE: Final = 7


class ValidatedRecords:
    """Validated bytes to append, and their summary. Without records all numbers are -1 or 0.

    ``data`` is usually the received buffer, patched in place. ``offset_of_max_timestamp`` is the last offset
    of the batch with the max timestamp, as the time index stores it.
    """

    __slots__ = (
        "append_time_ms",
        "data",
        "first_offset",
        "headers",
        "last_offset",
        "max_timestamp",
        "offset_of_max_timestamp",
        "record_count",
    )

    def __init__(
        self,
        data: codec.Buffer,
        headers: list[BatchHeader],
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        append_time_ms: int,
        record_count: int,
    ) -> None:
        self.data = data
        self.headers = headers
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.append_time_ms = append_time_ms
        self.record_count = record_count


def validate_and_assign_offsets(
    buffer: codec.Buffer,
    *,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    rules: AppendRules,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    produce_version: int = PRODUCE_VERSION_LATEST,
    limits: WorkLimits = NO_LIMITS,
) -> ValidatedRecords:
    """Validate a buffer and assign offsets from ``next_offset``.

    A writable buffer is patched in place where possible, and then belongs to the result. It is unchanged
    after an error: ``BrokerError``, ``RecordValidationError`` for invalid records, or ``WorkLimitExceeded``.
    Produce requests below version 3 may have messages of magic 0 and 1, or no records.
    """
    if len(buffer) > limits.plain_bytes_max:
        raise WorkLimitExceeded
    if not rules.compression:
        header = codec.validate_in_place(
            buffer,
            next_offset,
            leader_epoch,
            now_ms,
            rules.timestamp_type,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            rules.message_bytes_max,
            rules.compacted,
            origin is AppendOrigin.CLIENT,
        )
        if header is not None:
            return _result(buffer, header, now_ms if rules.timestamp_type else -1)
    if len(buffer) > limits.converted_bytes_max:
        raise WorkLimitExceeded
    decompressed_bytes_max = min(rules.decompressed_bytes_max, limits.decompressed_bytes_max)
    append = AppendContext(next_offset, leader_epoch, now_ms, rules, origin, decompressed_bytes_max)
    try:
        return _validate_with_conversion(buffer, append, produce_version)
    except DecompressedTooLarge:
        if decompressed_bytes_max < rules.decompressed_bytes_max:
            raise WorkLimitExceeded from None
        raise


def reassign_offsets(validated: ValidatedRecords, next_offset: int, leader_epoch: int) -> ValidatedRecords:
    """Change offsets and leader epoch of a validated batch to those it is appended with."""
    if not validated.headers:
        return validated
    data = memoryview(validated.data)
    if data.readonly:
        data = memoryview(bytearray(data))
    codec.assign_offset(data, 0, next_offset, leader_epoch)
    return _result(data, codec.read_headers(data)[0], validated.append_time_ms)


def _validate_with_conversion(
    buffer: codec.Buffer, append: AppendContext, produce_version: int
) -> ValidatedRecords:
    """Validate a buffer that is invalid or cannot be taken uncompressed as it is."""
    if produce_version >= _ZSTD_SINCE:
        header = _validate_compressed_in_place(buffer, append, produce_version)
        if header is not None:
            return _result(buffer, header, append.now_ms if append.uses_append_time else -1)
    return _validate_any(memoryview(buffer), append, produce_version)


def _validate_compressed_in_place(
    buffer: codec.Buffer, append: AppendContext, produce_version: int
) -> BatchHeader | None:
    """Validate a compressed batch in the usual case; ``None``, and no change, in any other."""
    rules, size = append.rules, len(buffer)
    if not BATCH_OVERHEAD <= size <= rules.message_bytes_max or buffer[MAGIC_POSITION] != 2:
        return None
    codec_id = buffer[CRC_START + 1] & CODEC_MASK
    if not codec_id or (rules.compression is not None and rules.compression != codec_id):
        return None
    if int.from_bytes(buffer[8:LOG_OVERHEAD], "big") != size - LOG_OVERHEAD:
        return None
    view = memoryview(buffer)
    try:
        records = decompress(codec_id, view[BATCH_OVERHEAD:], append.decompressed_bytes_max)
    except BrokerError:
        # Errors outside the records take precedence; nothing is decompressed twice.
        _check_batch(_read_checked_headers(view, append, produce_version)[0], append.origin)
        raise
    return codec.validate_in_place(
        buffer,
        append.next_offset,
        append.leader_epoch,
        append.now_ms,
        rules.timestamp_type,
        rules.timestamp_before_max_ms,
        rules.timestamp_after_max_ms,
        rules.message_bytes_max,
        rules.compacted,
        append.origin is AppendOrigin.CLIENT,
        records,
    )


def _result(data: codec.Buffer, header: BatchHeader, append_time_ms: int) -> ValidatedRecords:
    last_offset, max_timestamp = header.base_offset + header.last_offset_delta, header.max_timestamp
    return ValidatedRecords(
        data,
        [header],
        header.base_offset,
        last_offset,
        max_timestamp,
        last_offset if max_timestamp != -1 else -1,
        append_time_ms,
        header.count,
    )


def _validate_any(view: memoryview, append: AppendContext, produce_version: int) -> ValidatedRecords:
    headers = _read_checked_headers(view, append, produce_version)
    if not headers:
        return ValidatedRecords(b"", [], -1, -1, -1, -1, -1, 0)
    if headers[0].magic == 2:
        return _validate_batch(view, headers[0], append)
    return _rebuilt_result(up_convert(view, headers, append), append)


def _read_checked_headers(view: memoryview, append: AppendContext, produce_version: int) -> list[BatchHeader]:
    """Return the headers after all checks that do not look at the records."""
    headers = codec.read_headers(view)
    _check_request(headers, produce_version)
    for header in headers:
        _check_header(view, header, append)
    compressed = any(header.codec_id for header in headers)
    if len(headers) > 1 and (headers[0].magic == 2 or compressed):
        raise invalid_record(f"buffer must have one batch, got {len(headers)}")
    return headers


def _check_request(headers: Sequence[BatchHeader], produce_version: int) -> None:
    if produce_version < _ONE_BATCH_SINCE:
        return
    if not headers:
        raise invalid_record("produce request must have one record batch per partition, got none")
    if headers[0].magic != 2:
        raise invalid_record(f"magic must be 2 in Produce {produce_version}, got {headers[0].magic}")
    if produce_version < _ZSTD_SINCE and headers[0].codec_id == Compression.ZSTD:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce >= {_ZSTD_SINCE}, got {produce_version}",
        )
    if len(headers) > 1:
        raise invalid_record(f"produce request must have one record batch per partition, got {len(headers)}")


def _check_header(view: memoryview, header: BatchHeader, append: AppendContext) -> None:
    if header.magic == 2 and append.origin is AppendOrigin.CLIENT and header.base_offset != 0:
        raise invalid_record(f"base offset of a produced batch must be 0, got {header.base_offset}")
    _check_size(header.size_bytes, append.rules)
    if not codec.has_valid_crc(view, header):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"CRC {header.crc} of a batch does not match its bytes")
    if header.codec_id > Compression.ZSTD:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec id {header.codec_id}"
        )


def _check_size(size_bytes: int, rules: AppendRules) -> None:
    if size_bytes > rules.message_bytes_max:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch must have <= {rules.message_bytes_max} bytes (max.message.bytes), got {size_bytes}",
        )


def _validate_batch(view: memoryview, header: BatchHeader, append: AppendContext) -> ValidatedRecords:
    _check_batch(header, append.origin)
    records = codec.batch_records(view, header, append.decompressed_bytes_max)
    scan = _validate_records(records, header, append)
    if not scan.consecutive:
        raise invalid_record("offset deltas must be 0, 1, 2, ...")
    if _keeps_compression(header, append.rules):
        return _assign_in_header(view, header, scan.max_timestamp, append)
    return _recompress(records, header, scan.max_timestamp, append)


def _check_batch(header: BatchHeader, origin: AppendOrigin) -> None:
    if header.last_offset_delta < 0 or header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise invalid_record(
            f"last offset delta must be count - 1, got {header.last_offset_delta} for {header.count} records"
        )
    if origin is not AppendOrigin.CLIENT:
        return
    if header.is_control:
        raise invalid_record("clients must not write control batches")
    if header.has_producer_id and header.base_sequence < 0:
        raise invalid_record(
            f"base sequence of producer {header.producer_id} must be >= 0, got {header.base_sequence}"
        )
    if header.has_producer_id and header.producer_epoch < 0:
        raise invalid_record(
            f"epoch of producer {header.producer_id} must be >= 0, got {header.producer_epoch}"
        )
    if header.is_transactional and not header.has_producer_id:
        raise invalid_record("transactional batch must have a producer id")


def _validate_records(records: memoryview, header: BatchHeader, append: AppendContext) -> RecordScan:
    has_append_time = bool(header.attributes & APPEND_TIME_BIT)
    timestamp = header.max_timestamp if has_append_time else header.base_timestamp
    compacted = append.rules.compacted
    scan = codec.scan_records(
        records,
        header.count,
        timestamp,
        has_append_time,
        *append.timestamp_range,
        compacted,
        RECORD_ERRORS_MAX,
    )
    if has_append_time and (append.uses_append_time or timestamp == -1):
        keyless = {record.record_index for record in scan.invalid if record.keyless}
        indices = range(min(header.count, RECORD_ERRORS_MAX))
        raise record_validation_error(
            [(index, MISSING_KEY if index in keyless else APPEND_TIME_SET) for index in indices]
        )
    if scan.invalid:
        raise record_validation_error(
            [
                (
                    record.record_index,
                    MISSING_KEY if record.keyless else append.timestamp_error(record.timestamp),
                )
                for record in scan.invalid
            ]
        )
    return scan


def _keeps_compression(header: BatchHeader, rules: AppendRules) -> bool:
    if header.is_control and not header.codec_id:
        return True  # markers stay uncompressed
    return rules.compression is None or rules.compression == header.codec_id


def _assign_in_header(
    view: memoryview, header: BatchHeader, max_timestamp: int, append: AppendContext
) -> ValidatedRecords:
    """Assign offsets and timestamps by patching the header."""
    data = view[header.position : header.end_position]
    if data.readonly:
        data = memoryview(bytearray(data))
    codec.assign_offset(data, 0, append.next_offset, append.leader_epoch)
    new_max_timestamp = append.now_ms if append.uses_append_time else max_timestamp
    attributes = header.attributes & ~APPEND_TIME_BIT | (APPEND_TIME_BIT if append.uses_append_time else 0)
    if attributes != header.attributes or new_max_timestamp != header.max_timestamp:
        codec.set_max_timestamp(
            data, 0, header.size_bytes, attributes & DEFINED_ATTRIBUTES, new_max_timestamp
        )
    return _result(data, codec.read_headers(data)[0], append.now_ms if append.uses_append_time else -1)


def _recompress(
    records: memoryview, header: BatchHeader, max_timestamp: int, append: AppendContext
) -> ValidatedRecords:
    """Rebuild the batch with the topic's compression type."""
    target = append.rules.compression or Compression.NONE
    bits = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | target
    batch = build_batch(
        header._replace(
            base_offset=append.next_offset,
            leader_epoch=append.leader_epoch,
            attributes=bits | (APPEND_TIME_BIT if append.uses_append_time else 0),
            max_timestamp=append.now_ms if append.uses_append_time else max_timestamp,
        ),
        compress(target, records, append.rules.compression_level),
    )
    return _rebuilt_result(batch, append)


def _rebuilt_result(batch: bytes, append: AppendContext) -> ValidatedRecords:
    _check_size(len(batch), append.rules)
    return _result(batch, codec.read_headers(batch)[0], append.now_ms if append.uses_append_time else -1)


def validate_replicated(buffer: codec.Buffer, *, leader_epoch: int) -> list[BatchHeader]:
    """Check the CRCs and the offset order of fetched batches before a follower appends them.

    The list ends before the first batch of a newer leader epoch than the follower knows: such a batch was
    written after the fetched leader was replaced, and will be fetched from its successor.
    """
    headers = []
    last_offset = -1
    for header in codec.read_headers(buffer):
        if header.magic == 2 and header.leader_epoch > leader_epoch >= 0:
            break
        if not codec.has_valid_crc(buffer, header):
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE,
                f"CRC of the replicated batch at offset {header.base_offset} does not match its bytes",
            )
        if header.base_offset <= last_offset:
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE,
                f"base offset of a replicated batch must be > {last_offset}, got {header.base_offset}",
            )
        if header.last_offset_delta < 0:
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE,
                f"last offset delta of the replicated batch at offset {header.base_offset} must be >= 0, "
                f"got {header.last_offset_delta}",
            )
        last_offset = header.last_offset
        headers.append(header)
    return headers
