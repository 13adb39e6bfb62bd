# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The record codec, compiled. ``_codec_py`` says what every function means; this one only says it faster.

Invariant: equal results and equal error codes for all inputs. The interpreter lock is let go while a large
buffer is checked; the buffer is held (exported) meanwhile, so it cannot be resized or freed.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, getenv, malloc, realloc
from libc.string cimport memcpy, memset, strcmp
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from types import GenericAlias

from odradek.model.client_errors import ConcurrentUse, InvalidState, RecordCorrupt
from odradek.model.errors import BrokerError, ErrorCode, LocalProtocolViolation
from odradek.model.protocol_enums import TimestampType
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from odradek.records.layout import (
    POLL_COLUMNS, BatchHeader, Columns, Fault, Record, RecordMetadata, FilterResult, FilteredRecords, Walked,
)
from odradek.records.message_set import read_message


cdef extern from "_codec_primitives.h":
    void odr_crc_prepare()
    uint32_t odr_crc(uint32_t value, const uint8_t *p, size_t n) nogil
    uint32_t odr_crc_portable(uint32_t value, const uint8_t *p, size_t n) nogil
    int64_t odr_int64(const uint8_t *p) nogil
    int32_t odr_int32(const uint8_t *p) nogil
    int16_t odr_int16(const uint8_t *p) nogil
    void odr_put(uint8_t *p, uint64_t value, int n) nogil
    int64_t odr_wrapped_sum(int64_t a, int64_t b) nogil
    int64_t odr_wrapped_difference(int64_t a, int64_t b) nogil
    int64_t odr_saturated_sum(int64_t a, int64_t b) nogil


cdef extern from "_murmur2.h":
    uint32_t odr_murmur2(const uint8_t *p, size_t n) noexcept nogil


cdef extern from *:
    """
    /* A tuple subclass made as tuple's own constructor makes it, without the intermediate tuple. */
    static PyObject *odr_named_tuple(PyObject *type, Py_ssize_t n) {
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made) ((PyTupleObject *)made)->ob_hash = -1;
    #endif
        return made;
    }
    """
    object odr_named_tuple(object type, Py_ssize_t n)
    void PyObject_GC_UnTrack(object made)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    # Borrowed references and numbers without a detour, for what must run no Python code.
    PyObject *PyList_GET_ITEM(object items, Py_ssize_t index)
    PyObject *PySequence_Fast_GET_ITEM(object items, Py_ssize_t index)
    Py_ssize_t PySequence_Fast_GET_SIZE(object items)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


odr_crc_prepare()

cdef enum:
    LOG_OVERHEAD = 12
    BATCH_OVERHEAD = 61
    CRC_START = 21
    CODEC_MASK = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    # Below this the lock's hand-over costs more than the work.
    UNLOCKED_BYTES_MIN = 16384

cdef enum Verdict:
    FINE
    CUT_NUMBER
    LONG_NUMBER
    LONG_FIELD
    HEADER_COUNT
    HEADER_KEY
    RECORD_SIZE
    FIELD_SIZES
    SURPLUS
    OUTSIDE

_WHY = {
    CUT_NUMBER: "a record ends in the middle of a number",
    LONG_NUMBER: "a number in a record is too long",
    LONG_FIELD: "a field of a record reaches past the end of the batch",
    HEADER_COUNT: "a record claims a number of headers that it cannot have",
    HEADER_KEY: "a record header has no key",
    RECORD_SIZE: "a record claims a size that it cannot have",
    FIELD_SIZES: "a record's size is not that of its fields",
    SURPLUS: "bytes follow the batch's last record",
    OUTSIDE: "a record's offset is not among those of its batch",
}


cdef object malformed(Verdict verdict):
    return BrokerError(ErrorCode.INVALID_RECORD, _WHY[verdict])


def pure_asked():
    cdef const char *asked = getenv("ODRADEK_PURE")
    return asked != NULL and strcmp(asked, "1") == 0


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
    """The table's CRC, whatever the processor can do: what runs where the instruction is missing."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = odr_crc_portable(value, <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


# ---- headers ----

cdef inline void fill(object made, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, index, item)


cdef object batch_header(const uint8_t *p, Py_ssize_t position):
    cdef object made = odr_named_tuple(BatchHeader, 14)
    fill(made, 0, position)
    fill(made, 1, odr_int64(p))
    fill(made, 2, <int64_t>odr_int32(p + 8) + LOG_OVERHEAD)
    fill(made, 3, odr_int32(p + 12))
    fill(made, 4, p[16])
    fill(made, 5, <uint32_t>odr_int32(p + 17))
    fill(made, 6, odr_int16(p + 21))
    fill(made, 7, odr_int32(p + 23))
    fill(made, 8, odr_int64(p + 27))
    fill(made, 9, odr_int64(p + 35))
    fill(made, 10, odr_int64(p + 43))
    fill(made, 11, odr_int16(p + 51))
    fill(made, 12, odr_int32(p + 53))
    fill(made, 13, odr_int32(p + 57))
    return made


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
            ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a magic {p[16]} header's {smallest}"
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
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is smaller than any can be")
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
        raise ValueError("positions start at 0")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        return read_all_headers(<const uint8_t *>view.buf, position, view.len)
    finally:
        PyBuffer_Release(&view)


# ---- the walk over records ----

cdef struct Cursor:
    const uint8_t *p
    const uint8_t *end

cdef struct Parts:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size
    int32_t value_size
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    const uint8_t *end

cdef struct Rules:
    int64_t base_timestamp
    int64_t earliest
    int64_t latest
    bint fixed
    bint compacted

cdef struct Found:
    int64_t max_timestamp
    bint consecutive
    int64_t faults


cdef inline Verdict take_int32(Cursor *at, int32_t *out) noexcept nogil:
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    if at.p < at.end and at.p[0] < 0x80:
        value = at.p[0]
        at.p += 1
        out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
        return FINE
    while shift < 35:
        if at.p >= at.end:
            return CUT_NUMBER
        byte = at.p[0]
        at.p += 1
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
            return FINE
        shift += 7
    return LONG_NUMBER


cdef inline Verdict take_int64(Cursor *at, int64_t *out) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70:
        if at.p >= at.end:
            return CUT_NUMBER
        byte = at.p[0]
        at.p += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            return FINE
        shift += 7
    return LONG_NUMBER


cdef inline Verdict take_field(Cursor *at, int32_t *size, const uint8_t **field) noexcept nogil:
    cdef Verdict verdict = take_int32(at, size)
    if verdict != FINE:
        return verdict
    field[0] = at.p
    if size[0] > 0:
        if size[0] > at.end - at.p:
            return LONG_FIELD
        at.p += size[0]
    return FINE


cdef inline Verdict skip_headers(Cursor *at, int32_t count) noexcept nogil:
    cdef int32_t size
    cdef const uint8_t *field
    cdef Verdict verdict
    cdef int32_t index
    for index in range(count):
        verdict = take_field(at, &size, &field)
        if verdict != FINE:
            return verdict
        if size < 0:
            return HEADER_KEY
        verdict = take_field(at, &size, &field)
        if verdict != FINE:
            return verdict
    return FINE


cdef inline Verdict take_record(Cursor *at, Parts *parts) noexcept nogil:
    """Read one record's fields, checking all of its structure."""
    cdef int32_t size
    cdef const uint8_t *expected
    cdef Verdict verdict = take_int32(at, &size)
    if verdict != FINE:
        return verdict
    if size < 1 or size > at.end - at.p:
        return RECORD_SIZE
    expected = at.p + size
    parts.end = expected
    at.p += 1
    verdict = take_int64(at, &parts.timestamp_delta)
    if verdict != FINE:
        return verdict
    verdict = take_int32(at, &parts.offset_delta)
    if verdict != FINE:
        return verdict
    verdict = take_field(at, &parts.key_size, &parts.key)
    if verdict != FINE:
        return verdict
    verdict = take_field(at, &parts.value_size, &parts.value)
    if verdict != FINE:
        return verdict
    verdict = take_int32(at, &parts.header_count)
    if verdict != FINE:
        return verdict
    if parts.header_count < 0 or parts.header_count > at.end - at.p:
        return HEADER_COUNT
    parts.headers = at.p
    if parts.header_count:
        verdict = skip_headers(at, parts.header_count)
        if verdict != FINE:
            return verdict
    return FINE if at.p == expected else FIELD_SIZES


cdef inline int64_t timestamp_of(Parts *parts, int64_t base_timestamp, bint fixed) noexcept nogil:
    return base_timestamp if fixed else odr_wrapped_sum(base_timestamp, parts.timestamp_delta)


cdef inline bint breaks_rules(Parts *parts, int64_t timestamp, const Rules *rules) noexcept nogil:
    if rules.compacted and parts.key_size < 0:
        return True
    return timestamp != -1 and (timestamp < rules.earliest or timestamp > rules.latest)


cdef Verdict walk_all(
    const uint8_t *p, Py_ssize_t size, int32_t count, const Rules *rules, Found *found
) noexcept nogil:
    cdef Cursor at
    cdef Parts parts
    cdef Verdict verdict
    cdef int64_t timestamp
    cdef int32_t index
    at.p = p
    at.end = p + size
    found.max_timestamp = -1
    found.consecutive = True
    found.faults = 0
    for index in range(count):
        verdict = take_record(&at, &parts)
        if verdict != FINE:
            return verdict
        timestamp = timestamp_of(&parts, rules.base_timestamp, rules.fixed)
        if timestamp > found.max_timestamp:
            found.max_timestamp = timestamp
        if parts.offset_delta != index:
            found.consecutive = False
        if breaks_rules(&parts, timestamp, rules):
            found.faults += 1
    return FINE if at.p == at.end else SURPLUS


cdef list list_faults(const uint8_t *p, Py_ssize_t size, int32_t count, const Rules *rules, Py_ssize_t faults_max):
    cdef list faults = []
    cdef Cursor at
    cdef Parts parts
    cdef int64_t timestamp
    cdef int32_t index
    at.p = p
    at.end = p + size
    for index in range(count):
        if len(faults) >= faults_max:
            break
        take_record(&at, &parts)
        timestamp = timestamp_of(&parts, rules.base_timestamp, rules.fixed)
        if breaks_rules(&parts, timestamp, rules):
            faults.append(Fault(index, parts.offset_delta, timestamp, rules.compacted and parts.key_size < 0))
    return faults


def walk(
    records,
    int32_t count,
    int64_t base_timestamp,
    bint timestamp_fixed,
    int64_t earliest_ms,
    int64_t latest_ms,
    bint compacted,
    Py_ssize_t faults_max,
):
    cdef Py_buffer view
    cdef Rules rules
    cdef Found found
    cdef Verdict verdict
    rules.base_timestamp = base_timestamp
    rules.earliest = earliest_ms
    rules.latest = latest_ms
    rules.fixed = timestamp_fixed
    rules.compacted = compacted
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len >= UNLOCKED_BYTES_MIN:
            with nogil:
                verdict = walk_all(<const uint8_t *>view.buf, view.len, count, &rules, &found)
        else:
            verdict = walk_all(<const uint8_t *>view.buf, view.len, count, &rules, &found)
        if verdict != FINE:
            raise malformed(verdict)
        faults = []
        if found.faults:
            faults = list_faults(<const uint8_t *>view.buf, view.len, count, &rules, faults_max)
        return Walked(found.max_timestamp, bool(found.consecutive), faults)
    finally:
        PyBuffer_Release(&view)


# ---- the usual produce, in one call ----

cdef inline bint is_one_batch(const uint8_t *p, Py_ssize_t size, int64_t bytes_max) noexcept nogil:
    if size < BATCH_OVERHEAD or size > bytes_max or p[16] != 2:
        return False
    return odr_int32(p + 8) == size - LOG_OVERHEAD


cdef inline bint is_placeable(const uint8_t *p, bint from_client) noexcept nogil:
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


cdef inline bint is_sound(
    const uint8_t *p, Py_ssize_t size, Span records, const Rules *rules, Found *found
) noexcept nogil:
    if odr_crc(0, p + CRC_START, size - CRC_START) != <uint32_t>odr_int32(p + 17):
        return False
    if walk_all(records.start, records.size, odr_int32(p + 57), rules, found) != FINE:
        return False
    return found.consecutive and not found.faults


cdef inline void stamp_batch(uint8_t *p, Py_ssize_t size, int16_t attributes, int64_t max_timestamp) noexcept nogil:
    odr_put(p + 21, <uint16_t>attributes, 2)
    odr_put(p + 35, <uint64_t>max_timestamp, 8)
    odr_put(p + 17, odr_crc(0, p + CRC_START, size - CRC_START), 4)


cdef bint check_and_place(
    uint8_t *p, Py_ssize_t size, Span records, int64_t next_offset, int32_t leader_epoch, int64_t append_time,
    const Rules *rules
) noexcept nogil:
    """Returns whether the batch was sound; only then is it patched. ``append_time`` -1 means create time."""
    cdef Found found
    if not is_sound(p, size, records, rules, &found):
        return False
    odr_put(p, <uint64_t>next_offset, 8)
    odr_put(p + 12, <uint32_t>leader_epoch, 4)
    if append_time >= 0:
        stamp_batch(p, size, (odr_int16(p + 21) & 0x77) | APPEND_TIME_BIT, append_time)
    elif found.max_timestamp != odr_int64(p + 35):
        stamp_batch(p, size, odr_int16(p + 21) & 0x77, found.max_timestamp)
    return True


def accept_in_place(
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
    cdef Rules rules
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    header = None
    if not view.readonly and is_one_batch(<uint8_t *>view.buf, view.len, bytes_max):
        rules.earliest = odr_saturated_sum(now_ms, odr_wrapped_difference(0, before_max_ms))
        rules.latest = odr_saturated_sum(now_ms, after_max_ms)
        if append_time:
            rules.earliest, rules.latest = INT64_MIN, INT64_MAX
        rules.fixed = False
        rules.compacted = compacted
        if is_placeable(<uint8_t *>view.buf, from_client):
            header = place_checked(&view, records, next_offset, leader_epoch, now_ms if append_time else -1, &rules)
    PyBuffer_Release(&view)
    return header


cdef object place_checked(
    Py_buffer *view, object records, int64_t next_offset, int32_t leader_epoch, int64_t append_time, Rules *rules
):
    cdef Py_buffer content
    cdef Span span
    cdef bint placed
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
            placed = check_and_place(p, view.len, span, next_offset, leader_epoch, append_time, rules)
    else:
        placed = check_and_place(p, view.len, span, next_offset, leader_epoch, append_time, rules)
    if records is not None:
        PyBuffer_Release(&content)
    return batch_header(p, 0) if placed else None


cdef uint8_t *writable(object buffer, Py_buffer *view, Py_ssize_t position, Py_ssize_t size) except NULL:
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    if view.readonly or position < 0 or size < BATCH_OVERHEAD or position + size > view.len:
        PyBuffer_Release(view)
        raise ValueError("no writable batch there")
    return <uint8_t *>view.buf + position


def place(buffer, Py_ssize_t position, int64_t base_offset, int32_t leader_epoch):
    cdef Py_buffer view
    cdef uint8_t *p = writable(buffer, &view, position, BATCH_OVERHEAD)
    odr_put(p, <uint64_t>base_offset, 8)
    odr_put(p + 12, <uint32_t>leader_epoch, 4)
    PyBuffer_Release(&view)


def stamp(buffer, Py_ssize_t position, Py_ssize_t size, int16_t attributes, int64_t max_timestamp):
    cdef Py_buffer view
    cdef uint8_t *p = writable(buffer, &view, position, size)
    stamp_batch(p, size, attributes, max_timestamp)
    crc = <uint32_t>odr_int32(p + 17)
    PyBuffer_Release(&view)
    return crc


# ---- records out ----

cdef inline object field_bytes(const uint8_t *field, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>field, size)


cdef object read_record_headers(Parts *parts):
    cdef Cursor at
    cdef int32_t size = -1
    cdef const uint8_t *field = NULL
    cdef int32_t index
    cdef object headers = PyTuple_New(parts.header_count)
    cdef object pair
    at.p = parts.headers
    at.end = parts.end
    for index in range(parts.header_count):
        take_field(&at, &size, &field)
        pair = PyTuple_New(2)
        fill(pair, 0, PyUnicode_DecodeUTF8(<const char *>field, size, "replace"))
        take_field(&at, &size, &field)
        fill(pair, 1, field_bytes(field, size))
        fill(headers, index, pair)
    return headers


cdef tuple NO_HEADERS = ()


cdef object made_record(Parts *parts, int64_t base_offset, int64_t timestamp):
    cdef object made = odr_named_tuple(Record, 5)
    fill(made, 0, odr_wrapped_sum(base_offset, parts.offset_delta))
    fill(made, 1, timestamp)
    fill(made, 2, field_bytes(parts.key, parts.key_size))
    fill(made, 3, field_bytes(parts.value, parts.value_size))
    fill(made, 4, read_record_headers(parts) if parts.header_count else NO_HEADERS)
    # Numbers, bytes and text cannot refer back: the collector need not look at thousands of records.
    PyObject_GC_UnTrack(made)
    return made


def decode_records(records, int32_t count, int64_t base_offset, int64_t base_timestamp, bint timestamp_fixed):
    cdef Py_buffer view
    cdef Cursor at
    cdef Parts parts
    cdef Verdict verdict
    cdef int32_t index
    cdef list decoded = []
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        at.p = <const uint8_t *>view.buf
        at.end = at.p + view.len
        for index in range(count):
            verdict = take_record(&at, &parts)
            if verdict != FINE:
                raise malformed(verdict)
            decoded.append(
                made_record(&parts, base_offset, timestamp_of(&parts, base_timestamp, timestamp_fixed))
            )
        if at.p != at.end:
            raise malformed(SURPLUS)
        return decoded
    finally:
        PyBuffer_Release(&view)


# ---- records in ----

cdef inline int int64_size(int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *p, int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while zigzag > 0x7F:
        p[0] = <uint8_t>(zigzag & 0x7F | 0x80)
        p += 1
        zigzag >>= 7
    p[0] = <uint8_t>zigzag
    return p + 1


cdef inline uint8_t *put_field(uint8_t *p, const char *field, Py_ssize_t size) noexcept nogil:
    p = put_varint(p, size)
    if size > 0:
        memcpy(p, field, size)
        p += size
    return p


# In a struct of ours: the collector would let go of a plain one's object without ending the export.
cdef struct Export:
    Py_buffer view


cdef struct Field:
    Py_buffer view
    bint exported
    const char *start
    Py_ssize_t size


cdef int open_field(object given, Field *field) except -1:
    """Borrow a field's bytes; null has size -1, and plain bytes need no export."""
    field.exported = False
    field.start = NULL
    field.size = -1
    if given is None:
        return 0
    if PyBytes_CheckExact(given):
        field.start = PyBytes_AS_STRING(given)
        field.size = PyBytes_GET_SIZE(given)
        return 0
    PyObject_GetBuffer(given, &field.view, PyBUF_SIMPLE)
    field.exported = True
    field.start = <const char *>field.view.buf
    field.size = field.view.len
    return 0


cdef inline Py_ssize_t field_size(const Field *field) noexcept nogil:
    return int64_size(field.size) + (field.size if field.size > 0 else 0)


cdef inline void close_field(Field *field) noexcept:
    if field.exported:
        PyBuffer_Release(&field.view)


cdef bytes encode_headers(object headers):
    """The header count and the headers as they stand in a record."""
    cdef tuple given = tuple(headers)
    cdef Py_ssize_t size
    cdef const char *name
    if not given:
        return b"\0"
    out = bytearray()
    out += number_bytes(len(given))
    for key, value in given:
        if not isinstance(key, str):
            raise LocalProtocolViolation("a record header needs a key")
        name = PyUnicode_AsUTF8AndSize(key, &size)
        out += number_bytes(size)
        out += name[:size]
        if value is None:
            out += b"\1"
        else:
            out += number_bytes(memoryview(value).nbytes)
            out += value
    return bytes(out)


cdef bytes number_bytes(int64_t value):
    cdef uint8_t number[10]
    return PyBytes_FromStringAndSize(<char *>number, put_varint(number, value) - number)


cdef class BatchBuffer:
    cdef uint8_t *_start
    cdef Py_ssize_t _size
    cdef Py_ssize_t _room
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
        cdef Py_ssize_t wanted = self._size + more
        cdef uint8_t *moved
        if wanted <= self._room:
            return 0
        if wanted > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("a batch cannot pass 2 GiB")
        wanted = max(wanted, 2 * self._room, 1024)
        moved = <uint8_t *>realloc(self._start, wanted)
        if moved == NULL:
            raise MemoryError
        self._start = moved
        self._room = wanted
        return 0

    def append(self, int64_t timestamp, key, value, headers=(), int64_t offset_delta=-1):
        cdef int64_t delta = self.last_offset_delta + 1 if offset_delta < 0 else offset_delta
        cdef int64_t base = self._base_timestamp if self._has_base else timestamp
        cdef int64_t time_delta = odr_wrapped_difference(timestamp, base)
        cdef Py_ssize_t body
        cdef uint8_t *p
        cdef Field key_field, value_field
        if timestamp < -1 or delta <= self.last_offset_delta or delta > INT32_MAX:
            raise LocalProtocolViolation(f"no record can have timestamp {timestamp} and offset delta {delta}")
        encoded = encode_headers(headers)
        open_field(key, &key_field)
        try:
            open_field(value, &value_field)
            try:
                body = (
                    1 + int64_size(time_delta) + int64_size(delta) + field_size(&key_field)
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


# ---- compaction ----

include "_codec_key_offsets.pxi"
include "_codec_sifting.pxi"


# ---- producing ----

include "_codec_record_columns.pxi"
include "_codec_producer_batch.pxi"
include "_codec_delivery.pxi"
include "_codec_appender.pxi"


# ---- consuming ----

include "_codec_consumer_record.pxi"
include "_codec_column_builder.pxi"
include "_codec_blank_buffer.pxi"
include "_codec_record_reader.pxi"
