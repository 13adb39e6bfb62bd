# Records of magic 2 batches: cursor, varints and fields, inlined into every module that scans or encodes records.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from "include/numbers.h":
    int64_t odr_int64(const uint8_t *p) nogil
    int32_t odr_int32(const uint8_t *p) nogil
    int16_t odr_int16(const uint8_t *p) nogil
    void odr_put(uint8_t *p, uint64_t value, int n) nogil
    int64_t odr_wrapped_sum(int64_t a, int64_t b) nogil
    int64_t odr_wrapped_difference(int64_t a, int64_t b) nogil
    int64_t odr_saturated_sum(int64_t a, int64_t b) nogil

cdef extern from "include/named_tuple.h":
    object odr_named_tuple(object type, Py_ssize_t n)

cdef extern from *:
    void PyObject_GC_UnTrack(object tuple)


cdef enum:
    LOG_OVERHEAD = 12
    BATCH_OVERHEAD = 61
    CRC_START = 21
    CODEC_MASK = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    # Below this size releasing the interpreter lock costs more than the work.
    UNLOCKED_BYTES_MIN = 16384

cdef enum RecordStatus:
    RECORD_OK
    TRUNCATED_VARINT
    OVERLONG_VARINT
    FIELD_OUT_OF_BOUNDS
    BAD_HEADER_COUNT
    NULL_HEADER_KEY
    BAD_RECORD_SIZE
    SIZE_MISMATCH
    TRAILING_BYTES
    OFFSET_OUT_OF_RANGE

cdef struct Cursor:
    const uint8_t *p
    const uint8_t *end

cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size
    int32_t value_size
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    const uint8_t *end

cdef struct RecordRules:
    int64_t base_timestamp
    int64_t earliest
    int64_t latest
    bint fixed
    bint compacted

cdef struct ScanResult:
    int64_t max_timestamp
    bint consecutive
    int64_t invalid

# A struct around the view: the collector would clear the object of a plain ``Py_buffer`` attribute without releasing
# the export.
cdef struct Export:
    Py_buffer view

cdef struct Field:
    Py_buffer view
    bint exported
    const char *start
    Py_ssize_t size


cdef uint32_t update_crc(uint32_t value, const uint8_t *p, size_t n) noexcept nogil
cdef str status_message(RecordStatus status)
cdef object message_header(const uint8_t *p, Py_ssize_t position)
cdef object read_header(const uint8_t *p, Py_ssize_t position, int64_t size)
cdef RecordStatus scan_all(
    const uint8_t *p, Py_ssize_t size, int32_t count, const RecordRules *rules, ScanResult *result
) noexcept nogil
cdef void write_max_timestamp(
    uint8_t *p, Py_ssize_t size, int16_t attributes, int64_t max_timestamp
) noexcept nogil
cdef object read_record_headers(RecordFields *fields)
cdef bytes encode_headers(object headers)


cdef inline RecordStatus take_int32(Cursor *cursor, int32_t *out) noexcept nogil:
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    if cursor.p < cursor.end and cursor.p[0] < 0x80:
        value = cursor.p[0]
        cursor.p += 1
        out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
        return RECORD_OK
    while shift < 35:
        if cursor.p >= cursor.end:
            return TRUNCATED_VARINT
        byte = cursor.p[0]
        cursor.p += 1
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
            return RECORD_OK
        shift += 7
    return OVERLONG_VARINT


cdef inline RecordStatus take_int64(Cursor *cursor, int64_t *out) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70:
        if cursor.p >= cursor.end:
            return TRUNCATED_VARINT
        byte = cursor.p[0]
        cursor.p += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            return RECORD_OK
        shift += 7
    return OVERLONG_VARINT


cdef inline RecordStatus take_field(Cursor *cursor, int32_t *size, const uint8_t **field) noexcept nogil:
    cdef RecordStatus status = take_int32(cursor, size)
    if status != RECORD_OK:
        return status
    field[0] = cursor.p
    if size[0] > 0:
        if size[0] > cursor.end - cursor.p:
            return FIELD_OUT_OF_BOUNDS
        cursor.p += size[0]
    return RECORD_OK


cdef inline RecordStatus skip_headers(Cursor *cursor, int32_t count) noexcept nogil:
    cdef int32_t size
    cdef const uint8_t *field
    cdef RecordStatus status
    cdef int32_t index
    for index in range(count):
        status = take_field(cursor, &size, &field)
        if status != RECORD_OK:
            return status
        if size < 0:
            return NULL_HEADER_KEY
        status = take_field(cursor, &size, &field)
        if status != RECORD_OK:
            return status
    return RECORD_OK


cdef inline RecordStatus take_record(Cursor *cursor, RecordFields *fields) noexcept nogil:
    """Read the fields of one record and check its structure."""
    cdef int32_t size
    cdef const uint8_t *expected
    cdef RecordStatus status = take_int32(cursor, &size)
    if status != RECORD_OK:
        return status
    if size < 1 or size > cursor.end - cursor.p:
        return BAD_RECORD_SIZE
    expected = cursor.p + size
    fields.end = expected
    cursor.p += 1
    status = take_int64(cursor, &fields.timestamp_delta)
    if status != RECORD_OK:
        return status
    status = take_int32(cursor, &fields.offset_delta)
    if status != RECORD_OK:
        return status
    status = take_field(cursor, &fields.key_size, &fields.key)
    if status != RECORD_OK:
        return status
    status = take_field(cursor, &fields.value_size, &fields.value)
    if status != RECORD_OK:
        return status
    status = take_int32(cursor, &fields.header_count)
    if status != RECORD_OK:
        return status
    if fields.header_count < 0 or fields.header_count > cursor.end - cursor.p:
        return BAD_HEADER_COUNT
    fields.headers = cursor.p
    if fields.header_count:
        status = skip_headers(cursor, fields.header_count)
        if status != RECORD_OK:
            return status
    return RECORD_OK if cursor.p == expected else SIZE_MISMATCH


cdef inline int64_t timestamp_of(RecordFields *fields, int64_t base_timestamp, bint fixed) noexcept nogil:
    return base_timestamp if fixed else odr_wrapped_sum(base_timestamp, fields.timestamp_delta)


cdef inline int varint_size(int64_t value) noexcept nogil:
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


cdef inline object field_bytes(const uint8_t *field, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>field, size)


cdef inline void set_item(object tuple, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(tuple, index, item)


cdef inline int open_field(object value, Field *field) except -1:
    """Borrow the bytes of a field; null has size -1, and bytes objects need no export."""
    field.exported = False
    field.start = NULL
    field.size = -1
    if value is None:
        return 0
    if PyBytes_CheckExact(value):
        field.start = PyBytes_AS_STRING(value)
        field.size = PyBytes_GET_SIZE(value)
        return 0
    PyObject_GetBuffer(value, &field.view, PyBUF_SIMPLE)
    field.exported = True
    field.start = <const char *>field.view.buf
    field.size = field.view.len
    return 0


cdef inline void close_field(Field *field) noexcept:
    if field.exported:
        PyBuffer_Release(&field.view)
