"""What a leader does with a produced buffer: check it, give it offsets, convert it if it must be.

Invariant: what ``validate_and_assign_offsets`` returns is magic 2, whole, checksummed, with consecutive
offsets from
``next_offset`` and a max timestamp that is true. The order of the checks and the error codes are those of
Kafka 3.9's produce path. Where Kafka lets a fault through that readers would stumble over, or answers with
UNKNOWN_SERVER_ERROR, this is stricter or clearer:

- a record's size must be that of its fields, in compressed batches too: INVALID_RECORD;
- offset deltas that are not 0, 1, 2 and so on: INVALID_RECORD;
- transactional without producer id, or producer id with a negative epoch: INVALID_RECORD;
- bytes that cannot be decompressed: INVALID_RECORD; too many decompressed: MESSAGE_TOO_LARGE;
- a codec id without meaning: UNSUPPORTED_COMPRESSION_TYPE; a header cut short: CORRUPT_MESSAGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.append_rules import (
    KEYLESS,
    MARKED,
    NO_LIMITS,
    Append,
    AppendOrigin,
    AppendRules,
    RecordValidationError,
    WorkLimitExceeded,
    WorkLimits,
    record_errors,
    refused,
)
from odradek.records.batch import seal
from odradek.records.compression import DecompressedTooLarge, compress, decompress
from odradek.records.conversion import up_convert
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    KNOWN_BITS,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    RECORD_FAULTS_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Walked,
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
    """Bytes ready for the log and what they hold. Without records all numbers are -1 or 0.

    ``data`` is usually the buffer that came in, patched in place. ``offset_of_max_timestamp`` is the last
    offset of the batch that has the newest record, as the time index keeps it.
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
    """Check a buffer and make it ready to be appended at ``next_offset``.

    A writable buffer is patched in place where possible, and belongs to the result; on a refusal
    (``BrokerError``, or ``RecordValidationError`` when records are to blame) it is unchanged, as it is on
    ``WorkLimitExceeded``. A Produce below 3 may hold messages of magic 0 and 1, or nothing.
    """
    if len(buffer) > limits.plain_bytes_max:
        raise WorkLimitExceeded
    if not rules.compression:
        header = codec.accept_in_place(
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
            return _placed(buffer, header, now_ms if rules.timestamp_type else -1)
    if len(buffer) > limits.converted_bytes_max:
        raise WorkLimitExceeded
    unpacked_max = min(rules.decompressed_bytes_max, limits.decompressed_bytes_max)
    append = Append(next_offset, leader_epoch, now_ms, rules, origin, unpacked_max)
    try:
        return _accept_worked(buffer, append, produce_version)
    except DecompressedTooLarge:
        if unpacked_max < rules.decompressed_bytes_max:
            raise WorkLimitExceeded from None
        raise


def reassign_offsets(validated: ValidatedRecords, next_offset: int, leader_epoch: int) -> ValidatedRecords:
    """Move an validated batch to the offset and leader epoch that it is appended with after all."""
    if not validated.headers:
        return validated
    data = memoryview(validated.data)
    if data.readonly:
        data = memoryview(bytearray(data))
    codec.place(data, 0, next_offset, leader_epoch)
    return _placed(data, codec.read_headers(data)[0], validated.append_time_ms)


def _accept_worked(buffer: codec.Buffer, append: Append, produce_version: int) -> ValidatedRecords:
    """Accept what cannot be taken as it is, or is at fault."""
    if produce_version >= _ZSTD_SINCE:
        header = _accept_compressed(buffer, append, produce_version)
        if header is not None:
            return _placed(buffer, header, append.now_ms if append.stamps else -1)
    return _accept_any(memoryview(buffer), append, produce_version)


def _accept_compressed(buffer: codec.Buffer, append: Append, produce_version: int) -> BatchHeader | None:
    """Try the usual case for a compressed batch; ``None`` leaves it untouched, to the long way."""
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
        # Nothing is decompressed twice; but a fault that shows without decompressing goes first.
        _check_batch(_read_checked(view, append, produce_version)[0], append.origin)
        raise
    return codec.accept_in_place(
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


def _placed(data: codec.Buffer, header: BatchHeader, append_time_ms: int) -> ValidatedRecords:
    last_offset, newest = header[1] + header[7], header[9]
    return ValidatedRecords(
        data,
        [header],
        header[1],
        last_offset,
        newest,
        last_offset if newest != -1 else -1,
        append_time_ms,
        header[13],
    )


def _accept_any(view: memoryview, append: Append, produce_version: int) -> ValidatedRecords:
    headers = _read_checked(view, append, produce_version)
    if not headers:
        return ValidatedRecords(b"", [], -1, -1, -1, -1, -1, 0)
    if headers[0].magic == 2:
        return _accept_batch(view, headers[0], append)
    return _converted(up_convert(view, headers, append), append)


def _read_checked(view: memoryview, append: Append, produce_version: int) -> list[BatchHeader]:
    """The headers of a buffer in which all is well that shows without a look at the records."""
    headers = codec.read_headers(view)
    _check_request(headers, produce_version)
    for header in headers:
        _check_outside(view, header, append)
    compressed = any(header.codec_id for header in headers)
    if len(headers) > 1 and (headers[0].magic == 2 or compressed):
        raise refused("more than one batch where only one may be")
    return headers


def _check_request(headers: Sequence[BatchHeader], produce_version: int) -> None:
    if produce_version < _ONE_BATCH_SINCE:
        return
    if not headers:
        raise refused("a produce request needs one record batch per partition")
    if headers[0].magic != 2:
        raise refused(f"Produce {produce_version} takes record batches of magic 2, not {headers[0].magic}")
    if produce_version < _ZSTD_SINCE and headers[0].codec_id == Compression.ZSTD:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce {produce_version} does not know zstd"
        )
    if len(headers) > 1:
        raise refused(f"a produce request takes one record batch per partition, not {len(headers)}")


def _check_outside(view: memoryview, header: BatchHeader, append: Append) -> None:
    """What can be said of a batch or message without looking at its records."""
    if header.magic == 2 and append.origin is AppendOrigin.CLIENT and header.base_offset != 0:
        raise refused(f"a produced batch starts at offset 0, not {header.base_offset}")
    _check_size(header.size_bytes, append.rules)
    if not codec.has_valid_crc(view, header):
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch's bytes are not those of its CRC {header.crc}"
        )
    if header.codec_id > Compression.ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has id {header.codec_id}")


def _check_size(size_bytes: int, rules: AppendRules) -> None:
    if size_bytes > rules.message_bytes_max:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes, where max.message.bytes allows {rules.message_bytes_max}",
        )


def _accept_batch(view: memoryview, header: BatchHeader, append: Append) -> ValidatedRecords:
    _check_batch(header, append.origin)
    records = codec.records_of(view, header, append.decompressed_bytes_max)
    walked = _walk(records, header, append)
    if not walked.consecutive:
        raise refused("offset deltas that are not 0, 1, 2 and so on")
    if _keeps_codec(header, append.rules):
        return _place(view, header, walked.max_timestamp, append)
    return _recompress(records, header, walked.max_timestamp, append)


def _check_batch(header: BatchHeader, origin: AppendOrigin) -> None:
    if header.last_offset_delta < 0 or header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise refused(f"{header.count} records over offsets 0 to {header.last_offset_delta}")
    if origin is not AppendOrigin.CLIENT:
        return
    if header.is_control:
        raise refused("clients may not write control batches")
    if header.has_producer_id and header.base_sequence < 0:
        raise refused(f"producer {header.producer_id} with sequence {header.base_sequence}")
    if header.has_producer_id and header.producer_epoch < 0:
        raise refused(f"producer {header.producer_id} with epoch {header.producer_epoch}")
    if header.is_transactional and not header.has_producer_id:
        raise refused("a transactional batch without a producer id")


def _walk(records: memoryview, header: BatchHeader, append: Append) -> Walked:
    marked = bool(header.attributes & APPEND_TIME_BIT)
    timestamp = header.max_timestamp if marked else header.base_timestamp
    compacted = append.rules.compacted
    walked = codec.walk(
        records, header.count, timestamp, marked, *append.window, compacted, RECORD_FAULTS_MAX
    )
    if marked and (append.stamps or timestamp == -1):
        keyless = {fault.record_index for fault in walked.faults if fault.keyless}
        listed = range(min(header.count, RECORD_FAULTS_MAX))
        raise record_errors([(index, KEYLESS if index in keyless else MARKED) for index in listed])
    if walked.faults:
        raise record_errors(
            [
                (found.record_index, KEYLESS if found.keyless else append.late(found.timestamp))
                for found in walked.faults
            ]
        )
    return walked


def _keeps_codec(header: BatchHeader, rules: AppendRules) -> bool:
    if header.is_control and not header.codec_id:
        return True  # markers are not worth compressing
    return rules.compression is None or rules.compression == header.codec_id


def _place(view: memoryview, header: BatchHeader, max_timestamp: int, append: Append) -> ValidatedRecords:
    """Give a batch its place by patching its header."""
    data = view[header.position : header.end_position]
    if data.readonly:
        data = memoryview(bytearray(data))
    codec.place(data, 0, append.next_offset, append.leader_epoch)
    stamped = append.now_ms if append.stamps else max_timestamp
    attributes = header.attributes & ~APPEND_TIME_BIT | (APPEND_TIME_BIT if append.stamps else 0)
    if attributes != header.attributes or stamped != header.max_timestamp:
        codec.stamp(data, 0, header.size_bytes, attributes & KNOWN_BITS, stamped)
    return _placed(data, codec.read_headers(data)[0], append.now_ms if append.stamps else -1)


def _recompress(
    records: memoryview, header: BatchHeader, max_timestamp: int, append: Append
) -> ValidatedRecords:
    """Put the same records into a batch with the codec that the topic wants."""
    target = append.rules.compression or Compression.NONE
    bits = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | target
    made = seal(
        header._replace(
            base_offset=append.next_offset,
            leader_epoch=append.leader_epoch,
            attributes=bits | (APPEND_TIME_BIT if append.stamps else 0),
            max_timestamp=append.now_ms if append.stamps else max_timestamp,
        ),
        compress(target, records, append.rules.compression_level),
    )
    return _converted(made, append)


def _converted(made: bytes, append: Append) -> ValidatedRecords:
    _check_size(len(made), append.rules)
    return _placed(made, codec.read_headers(made)[0], append.now_ms if append.stamps else -1)


def validate_replicated(buffer: codec.Buffer, *, leader_epoch: int) -> list[BatchHeader]:
    """What a follower checks before it appends what its leader sent: whole, intact, in order.

    The list ends before the first batch of a newer leader epoch than the follower knows: such a batch was
    written after the answering leader was replaced, and will be fetched again from its successor.
    """
    headers = []
    last_offset = -1
    for header in codec.read_headers(buffer):
        if header.magic == 2 and header.leader_epoch > leader_epoch >= 0:
            break
        if not codec.has_valid_crc(buffer, header):
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE, f"a replicated batch at {header.base_offset} is corrupt"
            )
        if header.base_offset <= last_offset:
            raise BrokerError(
                ErrorCode.CORRUPT_MESSAGE,
                f"offset {header.base_offset} follows {last_offset} in replicated data",
            )
        last_offset = header.last_offset
        headers.append(header)
    return headers
