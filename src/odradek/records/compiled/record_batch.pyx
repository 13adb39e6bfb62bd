# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Batch headers, record scanning and encoding of magic 2 batches; ``pure.record_batch`` is the specification.

Invariant: equal results and equal error codes for all inputs. The interpreter lock is released while a large buffer is
checked; the buffer stays exported meanwhile, so that it cannot be resized or freed.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_New
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, getenv, realloc
from libc.string cimport memcpy, strcmp

from odradek.model.errors import BrokerError, ErrorCode, LocalProtocolViolation
from odradek.records.layout import BatchHeader, InvalidRecord, Record, RecordScan


cdef extern from "include/crc32c.h":
    void odr_crc_prepare()
    uint32_t odr_crc(uint32_t value, const uint8_t *p, size_t n) nogil
    uint32_t odr_crc_portable(uint32_t value, const uint8_t *p, size_t n) nogil

cdef extern from *:
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


odr_crc_prepare()

_STATUS_MESSAGES = {
    TRUNCATED_VARINT: "record ends within a varint",
    OVERLONG_VARINT: "varint of a record is too long",
    FIELD_OUT_OF_BOUNDS: "field of a record exceeds the batch",
    BAD_HEADER_COUNT: "header count of a record is out of range",
    NULL_HEADER_KEY: "key of a record header must not be null",
    BAD_RECORD_SIZE: "size of a record is out of range",
    SIZE_MISMATCH: "size of a record does not match its fields",
    TRAILING_BYTES: "trailing bytes after the last record",
    OFFSET_OUT_OF_RANGE: "offset of a record is outside the range of its batch",
}


cdef str status_message(RecordStatus status):
    return _STATUS_MESSAGES[status]


cdef object malformed(RecordStatus status):
    return BrokerError(ErrorCode.INVALID_RECORD, _STATUS_MESSAGES[status])


def pure_requested():
    cdef const char *value = getenv("ODRADEK_PURE")
    return value != NULL and strcmp(value, "1") == 0


cdef uint32_t update_crc(uint32_t value, const uint8_t *p, size_t n) noexcept nogil:
    return odr_crc(value, p, n)


def crc32c(data, uint32_t value=0):
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len >= UNLOCKED_BYTES_MIN:
        with nogil:
            crc = odr_crc(value, <const uint8_t *>view.buf, view.len)
    else:
        crc = odr_crc(value, <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


def crc32c_portable(data, uint32_t value=0):
    """CRC by table, as used on processors without the instruction."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = odr_crc_portable(value, <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


# ---- headers ----

cdef object batch_header(const uint8_t *p, Py_ssize_t position):
    cdef object header = odr_named_tuple(BatchHeader, 14)
    set_item(header, 0, position)
    set_item(header, 1, odr_int64(p))
    set_item(header, 2, <int64_t>odr_int32(p + 8) + LOG_OVERHEAD)
    set_item(header, 3, odr_int32(p + 12))
    set_item(header, 4, p[16])
    set_item(header, 5, <uint32_t>odr_int32(p + 17))
    set_item(header, 6, odr_int16(p + 21))
    set_item(header, 7, odr_int32(p + 23))
    set_item(header, 8, odr_int64(p + 27))
    set_item(header, 9, odr_int64(p + 35))
    set_item(header, 10, odr_int64(p + 43))
    set_item(header, 11, odr_int16(p + 51))
    set_item(header, 12, odr_int32(p + 53))
    set_item(header, 13, odr_int32(p + 57))
    return header


cdef object message_header(const uint8_t *p, Py_ssize_t position):
    cdef int attributes = <signed char>p[17]
    cdef int64_t timestamp = odr_int64(p + 18) if p[16] else -1
    return BatchHeader(
        position, odr_int64(p), <int64_t>odr_int32(p + 8) + LOG_OVERHEAD, -1, p[16], <uint32_t>odr_int32(p + 12),
        attributes, 0, timestamp, timestamp, -1, -1, -1, -1 if attributes & CODEC_MASK else 1,
    )


cdef object read_header(const uint8_t *p, Py_ssize_t position, int64_t size):
    cdef int64_t smallest = 14 if p[16] == 0 else 22 if p[16] == 1 else BATCH_OVERHEAD - LOG_OVERHEAD
    if size < smallest:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"size of a magic {p[16]} batch must be >= {smallest}, got {size}"
        )
    return batch_header(p, position) if p[16] == 2 else message_header(p, position)


cdef list read_all_headers(const uint8_t *start, Py_ssize_t position, Py_ssize_t end):
    cdef list headers = []
    cdef const uint8_t *p
    cdef int64_t size
    while end - position >= LOG_OVERHEAD:
        p = start + position
        size = odr_int32(p + 8)
        if size < 14:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"size of a batch must be >= 14, got {size}")
        if end - position <= LOG_OVERHEAD + 4:
            break
        if p[16] > 2:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {p[16]}")
        if end - position < size + LOG_OVERHEAD:
            break
        headers.append(read_header(p, position, size))
        position += size + LOG_OVERHEAD
    return headers


def read_headers(buffer, Py_ssize_t position=0):
    cdef Py_buffer view
    if position < 0:
        raise ValueError(f"position must be >= 0, got {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        return read_all_headers(<const uint8_t *>view.buf, position, view.len)
    finally:
        PyBuffer_Release(&view)


# ---- scanning records ----

cdef inline bint is_invalid(RecordFields *fields, int64_t timestamp, const RecordRules *rules) noexcept nogil:
    if rules.compacted and fields.key_size < 0:
        return True
    return timestamp != -1 and (timestamp < rules.earliest or timestamp > rules.latest)


cdef RecordStatus scan_all(
    const uint8_t *p, Py_ssize_t size, int32_t count, const RecordRules *rules, ScanResult *result
) noexcept nogil:
    cdef Cursor cursor
    cdef RecordFields fields
    cdef RecordStatus status
    cdef int64_t timestamp
    cdef int32_t index
    cursor.p = p
    cursor.end = p + size
    result.max_timestamp = -1
    result.consecutive = True
    result.invalid = 0
    for index in range(count):
        status = take_record(&cursor, &fields)
        if status != RECORD_OK:
            return status
        timestamp = timestamp_of(&fields, rules.base_timestamp, rules.fixed)
        if timestamp > result.max_timestamp:
            result.max_timestamp = timestamp
        if fields.offset_delta != index:
            result.consecutive = False
        if is_invalid(&fields, timestamp, rules):
            result.invalid += 1
    return RECORD_OK if cursor.p == cursor.end else TRAILING_BYTES


cdef list list_invalid(
    const uint8_t *p, Py_ssize_t size, int32_t count, const RecordRules *rules, Py_ssize_t invalid_max
):
    cdef list invalid = []
    cdef Cursor cursor
    cdef RecordFields fields
    cdef int64_t timestamp
    cdef int32_t index
    cursor.p = p
    cursor.end = p + size
    for index in range(count):
        if len(invalid) >= invalid_max:
            break
        take_record(&cursor, &fields)
        timestamp = timestamp_of(&fields, rules.base_timestamp, rules.fixed)
        if is_invalid(&fields, timestamp, rules):
            lacks_key = rules.compacted and fields.key_size < 0
            invalid.append(InvalidRecord(index, fields.offset_delta, timestamp, lacks_key))
    return invalid


def scan_records(
    records,
    int32_t count,
    int64_t base_timestamp,
    bint timestamp_fixed,
    int64_t earliest_ms,
    int64_t latest_ms,
    bint compacted,
    Py_ssize_t invalid_max,
):
    cdef Py_buffer view
    cdef RecordRules rules
    cdef ScanResult result
    cdef RecordStatus status
    rules.base_timestamp = base_timestamp
    rules.earliest = earliest_ms
    rules.latest = latest_ms
    rules.fixed = timestamp_fixed
    rules.compacted = compacted
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len >= UNLOCKED_BYTES_MIN:
            with nogil:
                status = scan_all(<const uint8_t *>view.buf, view.len, count, &rules, &result)
        else:
            status = scan_all(<const uint8_t *>view.buf, view.len, count, &rules, &result)
        if status != RECORD_OK:
            raise malformed(status)
        invalid = []
        if result.invalid:
            invalid = list_invalid(<const uint8_t *>view.buf, view.len, count, &rules, invalid_max)
        return RecordScan(result.max_timestamp, bool(result.consecutive), invalid)
    finally:
        PyBuffer_Release(&view)


# ---- validation in place ----

cdef inline bint is_one_batch(const uint8_t *p, Py_ssize_t size, int64_t bytes_max) noexcept nogil:
    if size < BATCH_OVERHEAD or size > bytes_max or p[16] != 2:
        return False
    return odr_int32(p + 8) == size - LOG_OVERHEAD


cdef inline bint can_assign(const uint8_t *p, bint from_client) noexcept nogil:
    cdef int attributes = p[22]
    cdef int32_t count = odr_int32(p + 57)
    if attributes & APPEND_TIME_BIT:
        return False
    if count <= 0 or odr_int32(p + 23) != count - 1:
        return False
    if not from_client:
        return True
    if odr_int64(p) or attributes & CONTROL_BIT:
        return False
    if odr_int64(p + 43) < 0:
        return not attributes & TRANSACTIONAL_BIT
    return odr_int32(p + 53) >= 0 and odr_int16(p + 51) >= 0


cdef struct Span:
    const uint8_t *start
    Py_ssize_t size


cdef inline bint is_valid(
    const uint8_t *p, Py_ssize_t size, Span records, const RecordRules *rules, ScanResult *result
) noexcept nogil:
    if odr_crc(0, p + CRC_START, size - CRC_START) != <uint32_t>odr_int32(p + 17):
        return False
    if scan_all(records.start, records.size, odr_int32(p + 57), rules, result) != RECORD_OK:
        return False
    return result.consecutive and not result.invalid


cdef void write_max_timestamp(
    uint8_t *p, Py_ssize_t size, int16_t attributes, int64_t max_timestamp
) noexcept nogil:
    odr_put(p + 21, <uint16_t>attributes, 2)
    odr_put(p + 35, <uint64_t>max_timestamp, 8)
    odr_put(p + 17, odr_crc(0, p + CRC_START, size - CRC_START), 4)


cdef bint validate_and_assign(
    uint8_t *p, Py_ssize_t size, Span records, int64_t next_offset, int32_t leader_epoch, int64_t append_time,
    const RecordRules *rules
) noexcept nogil:
    """Patch the header of a valid batch and return True; ``append_time`` -1 means CreateTime."""
    cdef ScanResult result
    if not is_valid(p, size, records, rules, &result):
        return False
    odr_put(p, <uint64_t>next_offset, 8)
    odr_put(p + 12, <uint32_t>leader_epoch, 4)
    if append_time >= 0:
        write_max_timestamp(p, size, (odr_int16(p + 21) & 0x77) | APPEND_TIME_BIT, append_time)
    elif result.max_timestamp != odr_int64(p + 35):
        write_max_timestamp(p, size, odr_int16(p + 21) & 0x77, result.max_timestamp)
    return True


def validate_in_place(
    buffer,
    int64_t next_offset,
    int32_t leader_epoch,
    int64_t now_ms,
    bint append_time,
    int64_t before_max_ms,
    int64_t after_max_ms,
    int64_t bytes_max,
    bint compacted,
    bint from_client,
    records=None,
):
    cdef Py_buffer view
    cdef RecordRules rules
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    header = None
    if not view.readonly and is_one_batch(<uint8_t *>view.buf, view.len, bytes_max):
        rules.earliest = odr_saturated_sum(now_ms, odr_wrapped_difference(0, before_max_ms))
        rules.latest = odr_saturated_sum(now_ms, after_max_ms)
        if append_time:
            rules.earliest, rules.latest = INT64_MIN, INT64_MAX
        rules.fixed = False
        rules.compacted = compacted
        if can_assign(<uint8_t *>view.buf, from_client):
            header = validate_batch(&view, records, next_offset, leader_epoch, now_ms if append_time else -1, &rules)
    PyBuffer_Release(&view)
    return header


cdef object validate_batch(
    Py_buffer *view, object records, int64_t next_offset, int32_t leader_epoch, int64_t append_time, RecordRules *rules
):
    cdef Py_buffer content
    cdef Span span
    cdef bint assigned
    cdef uint8_t *p = <uint8_t *>view.buf
    if bool(p[22] & CODEC_MASK) == (records is None):
        return None
    span.start = p + BATCH_OVERHEAD
    span.size = view.len - BATCH_OVERHEAD
    if records is not None:
        PyObject_GetBuffer(records, &content, PyBUF_SIMPLE)
        span.start = <const uint8_t *>content.buf
        span.size = content.len
    rules.base_timestamp = odr_int64(p + 27)
    if view.len >= UNLOCKED_BYTES_MIN:
        with nogil:
            assigned = validate_and_assign(p, view.len, span, next_offset, leader_epoch, append_time, rules)
    else:
        assigned = validate_and_assign(p, view.len, span, next_offset, leader_epoch, append_time, rules)
    if records is not None:
        PyBuffer_Release(&content)
    return batch_header(p, 0) if assigned else None


cdef uint8_t *writable_batch(object buffer, Py_buffer *view, Py_ssize_t position, Py_ssize_t size) except NULL:
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    if view.readonly or position < 0 or size < BATCH_OVERHEAD or position + size > view.len:
        PyBuffer_Release(view)
        raise ValueError("buffer must be writable and contain the batch")
    return <uint8_t *>view.buf + position


def assign_offset(buffer, Py_ssize_t position, int64_t base_offset, int32_t leader_epoch):
    cdef Py_buffer view
    cdef uint8_t *p = writable_batch(buffer, &view, position, BATCH_OVERHEAD)
    odr_put(p, <uint64_t>base_offset, 8)
    odr_put(p + 12, <uint32_t>leader_epoch, 4)
    PyBuffer_Release(&view)


def set_max_timestamp(buffer, Py_ssize_t position, Py_ssize_t size, int16_t attributes, int64_t max_timestamp):
    cdef Py_buffer view
    cdef uint8_t *p = writable_batch(buffer, &view, position, size)
    write_max_timestamp(p, size, attributes, max_timestamp)
    crc = <uint32_t>odr_int32(p + 17)
    PyBuffer_Release(&view)
    return crc


# ---- decoding ----

cdef object read_record_headers(RecordFields *fields):
    cdef Cursor cursor
    cdef int32_t size = -1
    cdef const uint8_t *field = NULL
    cdef int32_t index
    cdef object headers = PyTuple_New(fields.header_count)
    cdef object pair
    cursor.p = fields.headers
    cursor.end = fields.end
    for index in range(fields.header_count):
        take_field(&cursor, &size, &field)
        pair = PyTuple_New(2)
        set_item(pair, 0, PyUnicode_DecodeUTF8(<const char *>field, size, "replace"))
        take_field(&cursor, &size, &field)
        set_item(pair, 1, field_bytes(field, size))
        set_item(headers, index, pair)
    return headers


cdef tuple NO_HEADERS = ()


cdef object new_record(RecordFields *fields, int64_t base_offset, int64_t timestamp):
    cdef object record = odr_named_tuple(Record, 5)
    set_item(record, 0, odr_wrapped_sum(base_offset, fields.offset_delta))
    set_item(record, 1, timestamp)
    set_item(record, 2, field_bytes(fields.key, fields.key_size))
    set_item(record, 3, field_bytes(fields.value, fields.value_size))
    set_item(record, 4, read_record_headers(fields) if fields.header_count else NO_HEADERS)
    # Numbers, bytes and text form no cycles: untrack the record, so that the collector skips it.
    PyObject_GC_UnTrack(record)
    return record


def decode_records(records, int32_t count, int64_t base_offset, int64_t base_timestamp, bint timestamp_fixed):
    cdef Py_buffer view
    cdef Cursor cursor
    cdef RecordFields fields
    cdef RecordStatus status
    cdef int32_t index
    cdef list decoded = []
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        cursor.p = <const uint8_t *>view.buf
        cursor.end = cursor.p + view.len
        for index in range(count):
            status = take_record(&cursor, &fields)
            if status != RECORD_OK:
                raise malformed(status)
            decoded.append(
                new_record(&fields, base_offset, timestamp_of(&fields, base_timestamp, timestamp_fixed))
            )
        if cursor.p != cursor.end:
            raise malformed(TRAILING_BYTES)
        return decoded
    finally:
        PyBuffer_Release(&view)


# ---- encoding ----

cdef bytes encode_headers(object headers):
    """Encode the header count and the headers of a record."""
    cdef tuple pairs = tuple(headers)
    cdef Py_ssize_t size
    cdef const char *name
    if not pairs:
        return b"\0"
    out = bytearray()
    out += encode_varint(len(pairs))
    for key, value in pairs:
        if not isinstance(key, str):
            raise LocalProtocolViolation("key of a record header must be a str")
        name = PyUnicode_AsUTF8AndSize(key, &size)
        out += encode_varint(size)
        out += name[:size]
        if value is None:
            out += b"\1"
        else:
            out += encode_varint(memoryview(value).nbytes)
            out += value
    return bytes(out)


cdef bytes encode_varint(int64_t value):
    cdef uint8_t buffer[10]
    return PyBytes_FromStringAndSize(<char *>buffer, put_varint(buffer, value) - buffer)


cdef inline Py_ssize_t field_size(const Field *field) noexcept nogil:
    return varint_size(field.size) + (field.size if field.size > 0 else 0)


cdef class BatchBuffer:
    cdef uint8_t *_start
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef bint _has_base
    cdef int64_t _base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t last_offset_delta
    cdef readonly int64_t count

    def __cinit__(self, base_timestamp=None):
        self.max_timestamp = -1
        self.last_offset_delta = -1
        if base_timestamp is not None:
            self._has_base = True
            self._base_timestamp = base_timestamp

    def __dealloc__(self):
        free(self._start)

    @property
    def base_timestamp(self):
        return self._base_timestamp if self._has_base else None

    @property
    def size_bytes(self):
        return self._size

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t needed = self._size + more
        cdef uint8_t *resized
        if needed <= self._capacity:
            return 0
        if needed > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("size of a batch must be <= 2 GiB")
        needed = max(needed, 2 * self._capacity, 1024)
        resized = <uint8_t *>realloc(self._start, needed)
        if resized == NULL:
            raise MemoryError
        self._start = resized
        self._capacity = needed
        return 0

    def append(self, int64_t timestamp, key, value, headers=(), int64_t offset_delta=-1):
        cdef int64_t delta = self.last_offset_delta + 1 if offset_delta < 0 else offset_delta
        cdef int64_t base = self._base_timestamp if self._has_base else timestamp
        cdef int64_t time_delta = odr_wrapped_difference(timestamp, base)
        cdef Py_ssize_t body
        cdef uint8_t *p
        cdef Field key_field, value_field
        if timestamp < -1 or delta <= self.last_offset_delta or delta > INT32_MAX:
            raise LocalProtocolViolation(
                f"timestamp must be >= -1 and offset delta > {self.last_offset_delta}, got {timestamp} and {delta}"
            )
        encoded = encode_headers(headers)
        open_field(key, &key_field)
        try:
            open_field(value, &value_field)
            try:
                body = (
                    1 + varint_size(time_delta) + varint_size(delta) + field_size(&key_field)
                    + field_size(&value_field) + PyBytes_GET_SIZE(encoded)
                )
                self._reserve(body + 5)
                p = put_varint(self._start + self._size, body)
                p[0] = 0
                p = put_varint(put_varint(p + 1, time_delta), delta)
                p = put_field(p, key_field.start, key_field.size)
                p = put_field(p, value_field.start, value_field.size)
                memcpy(p, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))
                self._size = p + PyBytes_GET_SIZE(encoded) - self._start
            finally:
                close_field(&value_field)
        finally:
            close_field(&key_field)
        self._has_base = True
        self._base_timestamp = base
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last_offset_delta = delta
        self.count += 1
        return self._size

    def records(self):
        return PyBytes_FromStringAndSize(<char *>self._start, self._size)
