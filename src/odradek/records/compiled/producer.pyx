# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Arrow columns, batches and deliveries of a producer, and the fast path of ``send``.

``pure.record_columns``, ``pure.producer_batch``, ``pure.delivery``, ``pure.record_appender`` and ``pure.murmur2`` are
the specification. One module, because every send crosses all of them: calls between extension modules go through
pointers, which cost 4 % of a send.

Columns: all positions are checked once, on construction; a column holds its buffers, so that they cannot shrink. An
owner may still write to a buffer: position and size of a cell come from the same two reads of its ends.

Batches: several threads append while another one seals and completes. Everything that may run Python code (the export
of a field, encoding of headers, an allocation that may start the collector) precedes any change of the batch; from then
on the interpreter lock is not released until the batch is consistent again. A sealed batch does not change.

Appender: no Python code runs between looking up an open batch and having appended to it, so that sending threads and
the thread that drains batches do not interleave there.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from odradek.records.compiled.record_batch cimport (
    BATCH_OVERHEAD, CODEC_MASK, CRC_START, LOG_OVERHEAD, Cursor, Export, Field, PyObject_GC_UnTrack, RecordFields,
    close_field, encode_headers, odr_named_tuple, odr_put, odr_wrapped_difference, odr_wrapped_sum, open_field,
    put_field, put_varint, set_item, take_record, update_crc, varint_size,
)

from odradek.model.client_errors import InvalidState
from odradek.model.errors import LocalProtocolViolation
from odradek.records.layout import RecordMetadata


cdef extern from "include/murmur2.h":
    uint32_t odr_murmur2(const uint8_t *p, size_t n) noexcept nogil

cdef extern from *:
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    # Borrowed references and numbers, for code that must not run Python code.
    PyObject *PyList_GET_ITEM(object items, Py_ssize_t index)
    PyObject *PySequence_Fast_GET_ITEM(object items, Py_ssize_t index)
    Py_ssize_t PySequence_Fast_GET_SIZE(object items)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef struct NewRecord:
    # Fields of a record to encode; ``tail`` is the encoded header count and headers.
    const char *key
    Py_ssize_t key_size
    const char *value
    Py_ssize_t value_size
    const char *tail
    Py_ssize_t tail_size


# ---- columns ----

def murmur2(key):
    cdef Py_buffer view
    cdef uint32_t hash
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    hash = odr_murmur2(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return <int32_t>hash


def partition_for_key(key, int32_t partition_count):
    if partition_count < 1:
        raise ValueError(f"partition_count must be >= 1, got {partition_count}")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


cdef int export(object buffer, Py_buffer *view) except -1:
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    return 0


cdef inline bint bit_at(const uint8_t *bits, Py_ssize_t index) noexcept nogil:
    return bits[index >> 3] >> (index & 7) & 1


cdef inline int64_t end_at(const uint8_t *ends, Py_ssize_t index, bint wide) noexcept nogil:
    return (<const int64_t *>ends)[index] if wide else (<const int32_t *>ends)[index]


cdef int check_ends(const uint8_t *ends, Py_ssize_t first, Py_ssize_t length, bint wide, Py_ssize_t size) except -1:
    cdef int64_t before, after
    cdef Py_ssize_t index
    cdef bint valid = True
    with nogil:
        before = end_at(ends, first, wide)
        valid = before >= 0
        for index in range(first + 1, first + length + 1):
            after = end_at(ends, index, wide)
            if after < before or after - before > INT32_MAX:
                valid = False
            before = after
        valid = valid and before <= size
    if not valid:
        raise ValueError("offsets of a column must not decrease or exceed its content")
    return 0


@cython.final
cdef class BytesColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef bint _wide
    cdef Export _validity
    cdef Export _ends
    cdef Export _content
    cdef int _exported

    def __init__(self, Py_ssize_t length, Py_ssize_t offset, validity, ends, content, bint wide=False):
        if self._exported:
            raise ValueError("column is already initialized")
        if length < 0 or offset < 0:
            raise ValueError(f"length and offset must be >= 0, got {length} and {offset}")
        export(ends, &self._ends.view)
        self._exported |= 1
        export(b"" if content is None else content, &self._content.view)
        self._exported |= 2
        if validity is not None:
            export(validity, &self._validity.view)
            self._exported |= 4
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("validity bitmap must cover all rows of the column")
        if length:
            if self._ends.view.len // (8 if wide else 4) < offset + length + 1:
                raise ValueError("column must have one offset more than rows")
            check_ends(<const uint8_t *>self._ends.view.buf, offset, length, wide, self._content.view.len)
        self._first = offset
        self._wide = wide
        self.length = length

    def __dealloc__(self):
        if self._exported & 1:
            PyBuffer_Release(&self._ends.view)
        if self._exported & 2:
            PyBuffer_Release(&self._content.view)
        if self._exported & 4:
            PyBuffer_Release(&self._validity.view)

    cdef inline const char *cell(self, Py_ssize_t row, Py_ssize_t *size) noexcept nogil:
        """Return the bytes of a row; null has size -1."""
        cdef int64_t start, end
        row += self._first
        if self._exported & 4 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            size[0] = -1
            return NULL
        start = end_at(<const uint8_t *>self._ends.view.buf, row, self._wide)
        end = end_at(<const uint8_t *>self._ends.view.buf, row + 1, self._wide)
        if start < 0 or end < start or end > self._content.view.len:
            size[0] = -1
            return NULL
        size[0] = end - start
        return <const char *>self._content.view.buf + start


@cython.final
cdef class NumbersColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef int _width
    cdef Export _validity
    cdef Export _values
    cdef int _exported

    def __init__(self, Py_ssize_t length, Py_ssize_t offset, validity, values, int width):
        if self._exported:
            raise ValueError("column is already initialized")
        if length < 0 or offset < 0 or width not in (4, 8):
            raise ValueError(
                f"length and offset must be >= 0 and width 4 or 8, got {length}, {offset} and {width}"
            )
        export(values, &self._values.view)
        self._exported |= 1
        if self._values.view.len // width < offset + length:
            raise ValueError("column must have a number per row")
        if validity is not None:
            export(validity, &self._validity.view)
            self._exported |= 2
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("validity bitmap must cover all rows of the column")
        self._first = offset
        self._width = width
        self.length = length

    def __dealloc__(self):
        if self._exported & 1:
            PyBuffer_Release(&self._values.view)
        if self._exported & 2:
            PyBuffer_Release(&self._validity.view)

    cdef inline bint number(self, Py_ssize_t row, int64_t *out) noexcept nogil:
        """Set ``out`` to the number of a row; False for null."""
        row += self._first
        if self._exported & 2 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            return False
        out[0] = end_at(<const uint8_t *>self._values.view.buf, row, self._width == 8)
        return True


@cython.final
cdef class HeadersColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef bint _wide
    cdef Export _validity
    cdef Export _ends
    cdef BytesColumn _names
    cdef BytesColumn _values
    cdef int _exported

    def __init__(
        self, Py_ssize_t length, Py_ssize_t offset, validity, ends, BytesColumn names not None,
        BytesColumn values not None, bint wide=False
    ):
        if self._exported:
            raise ValueError("column is already initialized")
        if length < 0 or offset < 0:
            raise ValueError(f"length and offset must be >= 0, got {length} and {offset}")
        export(ends, &self._ends.view)
        self._exported |= 1
        if validity is not None:
            export(validity, &self._validity.view)
            self._exported |= 2
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("validity bitmap must cover all rows of the column")
        if length:
            if self._ends.view.len // (8 if wide else 4) < offset + length + 1:
                raise ValueError("column must have one offset more than rows")
            check_ends(<const uint8_t *>self._ends.view.buf, offset, length, wide, min(names.length, values.length))
        self._first = offset
        self._wide = wide
        self._names = names
        self._values = values
        self.length = length

    def __dealloc__(self):
        if self._exported & 1:
            PyBuffer_Release(&self._ends.view)
        if self._exported & 2:
            PyBuffer_Release(&self._validity.view)

    cdef Py_ssize_t range_of(self, Py_ssize_t row, Py_ssize_t *start) noexcept nogil:
        """Return the header count of a row, and the index of the first."""
        cdef int64_t end
        row += self._first
        if self._exported & 2 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            return 0
        start[0] = end_at(<const uint8_t *>self._ends.view.buf, row, self._wide)
        end = end_at(<const uint8_t *>self._ends.view.buf, row + 1, self._wide)
        if start[0] < 0 or end < start[0] or end > min(self._names.length, self._values.length):
            return 0
        return end - start[0]


@cython.final
cdef class RecordColumns:
    cdef readonly Py_ssize_t length
    cdef BytesColumn _values
    cdef BytesColumn _keys
    cdef NumbersColumn _timestamps
    cdef HeadersColumn _headers
    cdef uint8_t *_tail
    cdef Py_ssize_t _tail_capacity

    def __init__(
        self, Py_ssize_t length, BytesColumn values, BytesColumn keys=None, NumbersColumn timestamps=None,
        HeadersColumn headers=None
    ):
        for column in (values, keys, timestamps, headers):
            if column is not None and column.length < length:
                raise ValueError("columns must not be shorter than the table")
        self.length = length
        self._values = values
        self._keys = keys
        self._timestamps = timestamps
        self._headers = headers

    def __dealloc__(self):
        free(self._tail)

    cdef int check_range(self, Py_ssize_t start, Py_ssize_t stop) except -1:
        if start < 0 or stop > self.length:
            raise ValueError(f"row range must be within 0..{self.length}, got {start}..{stop}")
        return 0

    cdef bint load(self, Py_ssize_t row, NewRecord *record, int64_t *timestamp, int64_t now_ms) except -1:
        """Point at the fields of a row; False if it cannot be encoded. Runs no Python code."""
        record.key = record.value = NULL
        record.key_size = record.value_size = -1
        record.tail = b"\0"
        record.tail_size = 1
        timestamp[0] = now_ms
        if self._values is not None:
            record.value = self._values.cell(row, &record.value_size)
        if self._keys is not None:
            record.key = self._keys.cell(row, &record.key_size)
        if self._timestamps is not None:
            self._timestamps.number(row, timestamp)
        if timestamp[0] < 0:
            return False
        return self._headers is None or self._load_headers(row, record)

    cdef bint _load_headers(self, Py_ssize_t row, NewRecord *record) except -1:
        cdef Py_ssize_t first = 0
        cdef Py_ssize_t count = self._headers.range_of(row, &first)
        cdef Py_ssize_t index, name_size, value_size
        cdef const char *name
        cdef const char *value
        cdef Py_ssize_t size
        if not count:
            return True
        self._reserve(10)
        size = put_varint(self._tail, count) - self._tail
        for index in range(first, first + count):
            name = self._headers._names.cell(index, &name_size)
            value = self._headers._values.cell(index, &value_size)
            if name_size < 0:
                return False
            self._reserve(size + 20 + name_size + max(value_size, 0))
            size = put_field(self._tail + size, name, name_size) - self._tail
            size = put_field(self._tail + size, value, value_size) - self._tail
        record.tail = <const char *>self._tail
        record.tail_size = size
        return True

    cdef int _reserve(self, Py_ssize_t needed) except -1:
        cdef uint8_t *resized
        if needed > self._tail_capacity:
            resized = <uint8_t *>realloc(self._tail, 2 * needed)
            if resized == NULL:
                raise MemoryError
            self._tail = resized
            self._tail_capacity = 2 * needed
        return 0

    def row(self, Py_ssize_t index):
        cdef int64_t timestamp = 0
        self.check_range(index, index + 1)
        has_time = self._timestamps is not None and self._timestamps.number(index, &timestamp)
        return (
            timestamp if has_time else None,
            cell_object(self._keys, index),
            cell_object(self._values, index),
            self._headers_of(index),
        )

    cdef object _headers_of(self, Py_ssize_t row):
        cdef Py_ssize_t first = 0
        cdef Py_ssize_t index
        cdef Py_ssize_t count = 0 if self._headers is None else self._headers.range_of(row, &first)
        headers = []
        for index in range(first, first + count):
            name = cell_object(self._headers._names, index)
            text = None if name is None else name.decode("utf-8", "replace")
            headers.append((text, cell_object(self._headers._values, index)))
        return tuple(headers)


cdef object cell_object(BytesColumn column, Py_ssize_t row):
    cdef Py_ssize_t size
    cdef const char *cell
    if column is None:
        return None
    cell = column.cell(row, &size)
    return None if size < 0 else PyBytes_FromStringAndSize(cell, size)


def partitions_for_keys(
    BytesColumn keys, int32_t partition_count, NumbersColumn partitions=None, bint ignore_keys=False
):
    cdef Py_ssize_t length, row, size
    cdef int64_t number
    cdef const char *key
    cdef int32_t *out
    if partition_count < 1:
        raise ValueError(f"partition_count must be >= 1, got {partition_count}")
    if keys is None and partitions is None:
        raise ValueError("keys or partitions are required")
    if keys is None:
        length = partitions.length
    else:
        length = keys.length if partitions is None else min(keys.length, partitions.length)
    chosen = PyByteArray_FromStringAndSize(NULL, 4 * length)
    out = <int32_t *>PyByteArray_AS_STRING(chosen)
    with nogil:
        for row in range(length):
            out[row] = -1
            if partitions is not None and partitions.number(row, &number):
                out[row] = <int32_t>number if 0 <= number <= INT32_MAX else INT32_MAX
            elif keys is not None and not ignore_keys:
                key = keys.cell(row, &size)
                if size >= 0:
                    out[row] = (odr_murmur2(<const uint8_t *>key, size) & 0x7FFFFFFF) % partition_count
    return chosen


# ---- batches ----

@cython.final
cdef class ProducerBatch:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int32_t count
    cdef readonly Py_ssize_t capacity_bytes
    cdef readonly int64_t created_ms
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time
    cdef readonly bint is_open
    cdef readonly bint done
    cdef readonly bint is_split
    cdef readonly object error
    cdef public bint in_retry
    cdef public int32_t attempts
    cdef public int32_t base_sequence
    cdef public int16_t producer_epoch
    cdef public int64_t producer_id
    cdef public int64_t last_attempt_ms
    cdef public int64_t drained_ms
    cdef public object tag
    cdef public object waiter
    cdef object _buffer
    cdef object _compressed
    cdef Export _exported
    cdef bint _is_exported
    cdef uint8_t *_start
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _size
    # Deliveries and functions alternate: a tuple per pair would be one more object for the collector.
    cdef list _callbacks
    cdef bint _callbacks_mixed
    cdef dict _errors
    cdef list _parts
    cdef list _part_starts

    def __init__(
        self, topic, int32_t partition, Py_ssize_t capacity_bytes, int64_t created_ms, buffer=None, waiter=None
    ):
        if self._is_exported:
            raise LocalProtocolViolation("batch is already initialized")
        self.topic = topic
        self.partition = partition
        self.capacity_bytes = capacity_bytes
        self.created_ms = created_ms
        self.waiter = waiter
        self.base_timestamp = self.max_timestamp = self.base_offset = self.log_append_time = -1
        self.base_sequence = self.producer_epoch = -1
        self.producer_id = -1
        self.is_open = True
        self._size = BATCH_OVERHEAD
        self._callbacks = []
        self._export(new_bytes(max(capacity_bytes, BATCH_OVERHEAD)) if buffer is None else buffer)

    def __dealloc__(self):
        if self._is_exported:
            PyBuffer_Release(&self._exported.view)

    cdef int _export(self, object buffer) except -1:
        """Use this buffer from now on; while exported it cannot be resized."""
        cdef Py_buffer view
        if not isinstance(buffer, bytearray):
            raise TypeError(f"buffer must be a bytearray, got {type(buffer).__name__}")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        if self._is_exported:
            PyBuffer_Release(&self._exported.view)
        self._exported.view = view
        self._is_exported = True
        self._buffer = buffer
        self._start = <uint8_t *>view.buf
        self._capacity = view.len
        return 0

    cdef int _grow(self, Py_ssize_t needed) except -1:
        cdef object larger
        if needed > INT32_MAX:
            raise LocalProtocolViolation("size of a batch must be <= 2 GiB")
        larger = new_bytes(max(needed, min(2 * self._capacity, self.capacity_bytes)))
        memcpy(PyByteArray_AS_STRING(larger), self._start, min(self._size, self._capacity))
        self._export(larger)
        return 0

    def extend(self, Py_ssize_t capacity_bytes, buffer=None):
        # Everything that can fail, or release the lock, precedes the checks of the batch.
        cdef object larger = new_bytes(capacity_bytes) if buffer is None else buffer
        cdef object previous
        if not isinstance(larger, bytearray):
            raise TypeError(f"buffer must be a bytearray, got {type(buffer).__name__}")
        if not self.is_open or len(<bytearray>larger) < self._size or capacity_bytes < self.capacity_bytes:
            return None
        memcpy(PyByteArray_AS_STRING(larger), self._start, self._size)
        previous = self._buffer
        self._export(larger)
        self.capacity_bytes = capacity_bytes
        return previous

    @property
    def size_bytes(self):
        return self._size

    @property
    def parts(self):
        return list(self._parts) if self.is_split else []

    cdef int put(self, int64_t timestamp, const NewRecord *record) except -1:
        """Add a record; return 0 if the batch is sealed or full. Runs no Python code."""
        cdef int64_t time_delta
        cdef Py_ssize_t body, needed
        cdef uint8_t *p
        if not self.is_open:
            return 0
        time_delta = odr_wrapped_difference(timestamp, self.base_timestamp) if self.count else 0
        body = (
            1 + varint_size(time_delta) + varint_size(self.count)
            + varint_size(record.key_size) + (record.key_size if record.key_size > 0 else 0)
            + varint_size(record.value_size) + (record.value_size if record.value_size > 0 else 0)
            + record.tail_size
        )
        needed = self._size + varint_size(body) + body
        if needed > self.capacity_bytes and self.count:
            return 0
        if needed > self._capacity:
            self._grow(needed)
        p = put_varint(self._start + self._size, body)
        p[0] = 0
        p = put_varint(put_varint(p + 1, time_delta), self.count)
        p = put_field(p, record.key, record.key_size)
        p = put_field(p, record.value, record.value_size)
        memcpy(p, record.tail, record.tail_size)
        self._size = needed
        if self.count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return 1

    def append(self, int64_t timestamp, key, value, headers=None, on_delivery=None):
        cdef Field key_field, value_field
        cdef NewRecord record
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef int is_added
        if timestamp < -1:
            raise LocalProtocolViolation(f"timestamp must be >= -1, got {timestamp}")
        encoded = b"\0" if headers is None else encode_headers(headers)
        record.tail = PyBytes_AS_STRING(encoded)
        record.tail_size = PyBytes_GET_SIZE(encoded)
        open_field(key, &key_field)
        try:
            open_field(value, &value_field)
            try:
                record.key, record.key_size = key_field.start, key_field.size
                record.value, record.value_size = value_field.start, value_field.size
                delivery.timestamp = timestamp
                is_added = self.put_delivered(&record, delivery, on_delivery)
            finally:
                close_field(&value_field)
        finally:
            close_field(&key_field)
        return delivery if is_added else None

    cdef inline int put_delivered(self, const NewRecord *record, Delivery delivery, object on_delivery) except -1:
        if not self.put(delivery.timestamp, record):
            return 0
        delivery._batch = self
        delivery.index = self.count - 1
        delivery.serialized_key_size = <int32_t>record.key_size
        delivery.serialized_value_size = <int32_t>record.value_size
        if on_delivery is not None:
            self.add_callback(delivery, on_delivery)
        return 1

    cdef inline int add_callback(self, Delivery delivery, object function) except -1:
        """Runs no Python code."""
        self._callbacks.append(delivery)
        self._callbacks.append(function)
        return 0

    def append_columns(self, RecordColumns columns, Py_ssize_t start, Py_ssize_t stop, int64_t now_ms):
        cdef NewRecord record
        cdef int64_t timestamp
        cdef Py_ssize_t row = start
        columns.check_range(start, stop)
        while row < stop:
            if not columns.load(row, &record, &timestamp, now_ms) or not self.put(timestamp, &record):
                break
            row += 1
        return row - start

    def seal(self):
        self.is_open = False

    def plain_records(self):
        return memoryview(self._buffer_in_use())[BATCH_OVERHEAD : self._size]

    cdef object _buffer_in_use(self):
        if self._buffer is None:
            raise LocalProtocolViolation("the batch's buffer was already taken")
        return self._buffer

    def finish(
        self, int16_t attributes, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, records=None
    ):
        cdef object data = self._buffer_in_use()
        cdef Py_ssize_t size = self._size
        if self.count == 0:
            raise LocalProtocolViolation("batch must have records")
        self.is_open = False
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if records is not None:
            self._compressed = with_header_space(records)
        if attributes & CODEC_MASK:
            if self._compressed is None:
                raise LocalProtocolViolation("compressed batch needs its compressed records")
            data = self._compressed
            size = len(data)
        self._write_header(<uint8_t *>PyByteArray_AS_STRING(data), size, attributes)
        return memoryview(data)[:size]

    cdef int _write_header(self, uint8_t *p, Py_ssize_t size, int16_t attributes) except -1:
        cdef uint32_t crc
        odr_put(p, 0, 8)
        odr_put(p + 8, <uint64_t>(size - LOG_OVERHEAD), 4)
        odr_put(p + 12, <uint32_t>-1, 4)
        p[16] = 2
        odr_put(p + 21, <uint16_t>attributes, 2)
        odr_put(p + 23, <uint32_t>(self.count - 1), 4)
        odr_put(p + 27, <uint64_t>self.base_timestamp, 8)
        odr_put(p + 35, <uint64_t>self.max_timestamp, 8)
        odr_put(p + 43, <uint64_t>self.producer_id, 8)
        odr_put(p + 51, <uint16_t>self.producer_epoch, 2)
        odr_put(p + 53, <uint32_t>self.base_sequence, 4)
        odr_put(p + 57, <uint32_t>self.count, 4)
        crc = update_crc(0, p + CRC_START, size - CRC_START)
        odr_put(p + 17, crc, 4)
        return 0

    def take_buffer(self):
        if not self.done:
            raise LocalProtocolViolation("the buffer can only be taken from a batch that is done")
        buffer, self._buffer = self._buffer, None
        self._compressed = None
        if self._is_exported:
            self._is_exported = False
            PyBuffer_Release(&self._exported.view)
        self._start = NULL
        self._capacity = 0
        return buffer

    # ---- completion ----

    def complete(self, int64_t base_offset, int64_t log_append_time=-1):
        if self.done:
            return False
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._finish()
        return True

    def fail(self, error):
        if self.done:
            return False
        self.error = error
        self._finish()
        return True

    def fail_records(self, errors, default):
        cdef dict errors_by_index = dict(errors)
        if self.done:
            return False
        self._errors = errors_by_index
        self.error = default
        self._finish()
        return True

    cdef int _finish(self) except -1:
        cdef list callbacks
        self.is_open = False
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        calls = calls_of(callbacks, self._callbacks_mixed)
        waiter = self.waiter
        if waiter is not None:
            waiter.deliver(self, calls)
        else:
            for function, arguments in calls:
                function(*arguments)
        return 0

    cdef object error_of(self, int32_t index):
        if self._errors is not None and index in self._errors:
            return self._errors[index]
        return self.error

    def outcome(self, Py_ssize_t first_index, Py_ssize_t count):
        cdef ProducerBatch part
        cdef Py_ssize_t low, high, start
        if self.is_split:
            acknowledged, failed, first_error = 0, 0, None
            for start, part in zip(self._part_starts, self._parts):
                low, high = max(first_index, start), min(first_index + count, start + part.count)
                if low < high:
                    part_acknowledged, part_failed, error = part.outcome(low - start, high - low)
                    acknowledged += part_acknowledged
                    failed += part_failed
                    first_error = error if first_error is None else first_error
            return acknowledged, failed, first_error
        if not self.done:
            return 0, 0, None
        if self.error is None:
            return count, 0, None
        return 0, count, self.error_of(<int32_t>first_index)

    # ---- splitting ----

    def split(self, Py_ssize_t capacity_bytes):
        cdef list parts, starts
        if self.done:
            raise LocalProtocolViolation("batch must not be done")
        self.is_open = False
        parts, starts = self._split_records(capacity_bytes)
        self._parts, self._part_starts = parts, starts
        self.is_split = True
        callbacks, self._callbacks = self._callbacks, []
        move_callbacks(callbacks, self._callbacks_mixed)
        self._finish()
        return list(parts)

    cdef tuple _split_records(self, Py_ssize_t capacity_bytes):
        cdef Cursor cursor
        cdef RecordFields fields
        cdef NewRecord record
        cdef int32_t index
        cdef int64_t timestamp
        cdef ProducerBatch part = None
        cdef list parts = [], starts = []
        self._buffer_in_use()
        cursor.p = self._start + BATCH_OVERHEAD
        cursor.end = self._start + self._size
        for index in range(self.count):
            take_record(&cursor, &fields)
            timestamp = odr_wrapped_sum(self.base_timestamp, fields.timestamp_delta)
            record.key, record.key_size = <const char *>fields.key, fields.key_size
            record.value, record.value_size = <const char *>fields.value, fields.value_size
            record.tail = <const char *>fields.value + max(fields.value_size, 0)
            record.tail_size = <const char *>fields.end - record.tail
            if part is None or not part.put(timestamp, &record):
                part = self._new_part(capacity_bytes)
                part.put(timestamp, &record)
                parts.append(part)
                starts.append(index)
        for part in parts:
            part.is_open = False
        return parts, starts

    cdef ProducerBatch _new_part(self, Py_ssize_t capacity_bytes):
        cdef ProducerBatch part = ProducerBatch(
            self.topic, self.partition, capacity_bytes, self.created_ms, None, self.waiter
        )
        part.in_retry = self.in_retry
        part.attempts = self.attempts
        part.last_attempt_ms = self.last_attempt_ms
        part.drained_ms = self.drained_ms
        part.tag = self.tag
        return part

    cdef ProducerBatch find_part(self, int32_t *index):
        """Return the batch that has the record after any splits, and set its index there."""
        cdef ProducerBatch batch = self
        cdef Py_ssize_t number
        while batch.is_split:
            number = len(batch._part_starts) - 1
            while batch._part_starts[number] > index[0]:
                number -= 1
            index[0] -= batch._part_starts[number]
            batch = batch._parts[number]
        return batch


cdef object new_bytes(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef object with_header_space(object records):
    """Return a buffer with space for the header, then the compressed records."""
    cdef Py_buffer view
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("size of a batch must be <= 2 GiB")
        buffer = new_bytes(BATCH_OVERHEAD + view.len)
        memcpy(PyByteArray_AS_STRING(buffer) + BATCH_OVERHEAD, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return buffer


def record_size_upper_bound(key, value, headers=None):
    cdef Py_ssize_t size = 1 + 5 + 10 + 5 + 5 + 5
    encoded = b"\0" if headers is None else encode_headers(headers)
    if key is not None:
        size += memoryview(key).nbytes
    if value is not None:
        size += memoryview(value).nbytes
    return size + PyBytes_GET_SIZE(encoded)


# ---- deliveries ----

# Not tracked by the collector: an application may hold a million of these. A batch drops its callbacks when it is done,
# so that no cycle outlives it.
@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Delivery:
    cdef ProducerBatch _batch
    cdef readonly int64_t timestamp
    cdef readonly int32_t index
    cdef readonly int32_t serialized_key_size
    cdef readonly int32_t serialized_value_size

    def __init__(self):
        raise TypeError("deliveries are created by send()")

    def __reduce__(self):
        raise TypeError("deliveries cannot be pickled")

    @property
    def batch(self):
        cdef int32_t index = self.index
        return self._batch.find_part(&index)

    @property
    def topic(self):
        return self._batch.topic

    @property
    def partition(self):
        return self._batch.partition

    def done(self):
        cdef int32_t index = self.index
        return self._batch.find_part(&index).done

    cdef tuple metadata_and_error(self):
        cdef int32_t index = self.index
        cdef ProducerBatch batch = self._batch.find_part(&index)
        cdef object error = batch.error_of(index)
        if error is not None:
            return None, error
        metadata = odr_named_tuple(RecordMetadata, 6)
        set_item(metadata, 0, batch.topic)
        set_item(metadata, 1, batch.partition)
        set_item(metadata, 2, -1 if batch.base_offset < 0 else batch.base_offset + index)
        set_item(metadata, 3, self.timestamp if batch.log_append_time == -1 else batch.log_append_time)
        set_item(metadata, 4, self.serialized_key_size)
        set_item(metadata, 5, self.serialized_value_size)
        PyObject_GC_UnTrack(metadata)
        return metadata, None

    cdef int _wait(self, timeout_s) except -1:
        cdef int32_t index = self.index
        cdef ProducerBatch batch = self._batch.find_part(&index)
        while not batch.done:
            waiter_of(batch).wait(batch, timeout_s)
            index = self.index
            batch = self._batch.find_part(&index)
        return 0

    def result(self, timeout_s=None):
        self._wait(timeout_s)
        return result_of(self)

    def exception(self, timeout_s=None):
        self._wait(timeout_s)
        return self.metadata_and_error()[1]

    def add_done_callback(self, function):
        cdef int32_t index = self.index
        cdef ProducerBatch batch
        cdef DoneCallback wrapped = DoneCallback.__new__(DoneCallback)
        wrapped.function = function
        batch = self._batch.find_part(&index)
        if batch.done:
            function(self)
            return
        batch._callbacks_mixed = True
        batch.add_callback(self, wrapped)

    def __await__(self):
        return awaited(self).__await__()

    def __repr__(self):
        state = "pending"
        if self.done():
            state = "failed" if self.metadata_and_error()[1] is not None else "delivered"
        return f"<Delivery to {self.topic}-{self.partition}, {state}>"


async def awaited(Delivery delivery):
    while not delivery.done():
        await waiter_of(delivery.batch).future(delivery.batch)
    return result_of(delivery)


cdef object waiter_of(ProducerBatch batch):
    if batch.waiter is None:
        raise InvalidState("batch has no client to wait for its completion")
    return batch.waiter


cdef object result_of(Delivery delivery):
    metadata, error = delivery.metadata_and_error()
    if error is not None:
        raise error
    return metadata


@cython.final
cdef class DoneCallback:
    # A callback that takes the delivery instead of metadata and error.
    cdef object function


cdef int64_t index_in(list callbacks, Py_ssize_t position):
    return (<Delivery>callbacks[position]).index


cdef list calls_of(list callbacks, bint mixed):
    """Return the callbacks with their arguments, in record order."""
    cdef Py_ssize_t position
    cdef Delivery delivery
    cdef list calls = []
    positions = range(0, len(callbacks), 2)
    if mixed:
        positions = sorted(positions, key=lambda position: index_in(callbacks, position))
    for position in positions:
        delivery = callbacks[position]
        function = callbacks[position + 1]
        if type(function) is DoneCallback:
            calls.append(((<DoneCallback>function).function, (delivery,)))
        else:
            calls.append((function, delivery.metadata_and_error()))
    return calls


cdef int move_callbacks(list callbacks, bint mixed) except -1:
    """Move callbacks to the parts that have their records."""
    cdef Py_ssize_t position
    cdef Delivery delivery
    cdef int32_t index
    cdef ProducerBatch part
    for position in range(0, len(callbacks), 2):
        delivery = callbacks[position]
        index = delivery.index
        part = delivery._batch.find_part(&index)
        part._callbacks_mixed = mixed
        part.add_callback(delivery, callbacks[position + 1])
    return 0


# ---- appender ----

cdef int64_t system_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef struct AppendedRange:
    # A batch that a call appended to; the reference is owned until the result of the call is created.
    PyObject *batch
    int32_t partition
    int32_t first
    int32_t count


cdef enum:
    SCHEDULE_MAX = 16


cdef class TopicSlot:
    # Open batches of a topic by partition, its sticky partition and the schedule of the next ones.
    cdef list batches
    cdef int32_t partition_count
    cdef int32_t sticky
    cdef int64_t sticky_bytes
    cdef int64_t bytes_each
    cdef int32_t schedule[SCHEDULE_MAX]
    cdef int schedule_count
    cdef int schedule_next
    cdef int32_t *marks

    def __cinit__(self):
        self.batches = []
        self.sticky = -1

    def __dealloc__(self):
        free(self.marks)

    cdef int resize(self, int32_t partition_count) except -1:
        cdef int32_t *resized = <int32_t *>realloc(self.marks, sizeof(int32_t) * max(partition_count, 1))
        if resized == NULL:
            raise MemoryError
        memset(resized, 0, sizeof(int32_t) * max(partition_count, 1))
        self.marks = resized
        kept = self.batches[:partition_count]
        self.batches = kept + [None] * (partition_count - len(kept))
        self.partition_count = partition_count
        self.schedule_count = 0
        if self.sticky >= partition_count:
            self.sticky = -1
        return 0

    cdef inline int32_t advance_sticky(self) noexcept:
        """Advance to the next scheduled sticky partition; -1, and no change, after the last."""
        if self.schedule_next >= self.schedule_count:
            return -1
        self.sticky = self.schedule[self.schedule_next]
        self.sticky_bytes = 0
        self.schedule_next += 1
        return self.sticky

    cdef inline int32_t sticky_now(self) noexcept:
        if self.schedule_count and self.sticky_bytes >= self.bytes_each:
            self.advance_sticky()
        return self.sticky

    cdef inline PyObject *open_batch(self, int32_t partition) noexcept:
        """Return the open batch of a partition, borrowed; NULL if there is none."""
        cdef PyObject *batch
        if partition < 0 or partition >= self.partition_count:
            return NULL
        batch = PyList_GET_ITEM(self.batches, partition)
        return NULL if batch == <PyObject *>None else batch


cdef struct AppendedRanges:
    AppendedRange *items
    Py_ssize_t count
    Py_ssize_t capacity


cdef int open_range(AppendedRanges *ranges, TopicSlot slot, int32_t partition, PyObject *batch) except -1:
    """Record the count of a batch before the first record of this call; runs no Python code."""
    cdef AppendedRange *resized
    if ranges.count == ranges.capacity:
        resized = <AppendedRange *>realloc(ranges.items, sizeof(AppendedRange) * max(2 * ranges.capacity, 8))
        if resized == NULL:
            raise MemoryError
        ranges.items = resized
        ranges.capacity = max(2 * ranges.capacity, 8)
    ranges.items[ranges.count].batch = batch
    ranges.items[ranges.count].partition = partition
    ranges.items[ranges.count].first = (<ProducerBatch>batch).count
    Py_INCREF(<object>batch)
    ranges.count += 1
    slot.marks[partition] = 1
    return 0


cdef void close_ranges(AppendedRanges *ranges, TopicSlot slot) noexcept:
    """Compute the counts before another thread can append; runs no Python code."""
    cdef Py_ssize_t index
    cdef AppendedRange *row
    for index in range(ranges.count):
        row = &ranges.items[index]
        slot.marks[row.partition] = 0
        row.count = (<ProducerBatch>row.batch).count - row.first


cdef list range_list(AppendedRanges *ranges):
    cdef Py_ssize_t index
    cdef AppendedRange *row
    cdef list batches = []
    try:
        for index in range(ranges.count):
            row = &ranges.items[index]
            if row.count:
                batches.append((<object>row.batch, row.first, row.count))
    finally:
        for index in range(ranges.count):
            Py_DECREF(<object>ranges.items[index].batch)
        free(ranges.items)
    return batches


cdef class RecordAppender:
    cdef public bint paused
    cdef bint _ignore_keys
    cdef bint _explicit_partitions_only
    cdef object _fallback
    cdef object _wall_ms
    cdef dict _topics

    def __init__(self, fallback, wall_ms=None, *, bint ignore_keys=False, bint explicit_partitions_only=False):
        self._fallback = fallback
        self._wall_ms = wall_ms
        self._ignore_keys = ignore_keys
        self._explicit_partitions_only = explicit_partitions_only
        self._topics = {}

    # ---- open batches ----

    def set_topic(self, str topic not None, int32_t partition_count):
        cdef TopicSlot slot
        if partition_count < 0:
            raise ValueError(f"partition_count must be >= 0, got {partition_count}")
        slot = self._topics.get(topic)
        if slot is None:
            slot = TopicSlot()
            slot.resize(partition_count)
            self._topics[topic] = slot
        elif slot.partition_count != partition_count:
            slot.resize(partition_count)

    def forget_topic(self, topic):
        self._topics.pop(topic, None)

    cdef TopicSlot _slot(self, topic):
        cdef TopicSlot slot = self._topics.get(topic)
        if slot is None:
            raise KeyError(topic)
        return slot

    def set_sticky(self, topic, int32_t partition):
        cdef TopicSlot slot = self._slot(topic)
        if partition >= slot.partition_count:
            raise ValueError(f"partition of {topic} must be < {slot.partition_count}, got {partition}")
        slot.sticky = max(partition, -1)
        slot.sticky_bytes = 0
        slot.schedule_count = 0

    def set_sticky_schedule(self, topic, partitions, int64_t bytes_each):
        cdef TopicSlot slot = self._slot(topic)
        cdef int32_t number
        cdef tuple schedule = tuple(partitions)[:SCHEDULE_MAX]
        for number in schedule:
            if number < 0 or number >= slot.partition_count:
                raise ValueError(f"partition of {topic} must be in 0..{slot.partition_count - 1}, got {number}")
        for index, number in enumerate(schedule):
            slot.schedule[index] = number
        slot.schedule_next = 0
        slot.schedule_count = <int>len(schedule)
        slot.bytes_each = bytes_each

    def advance_sticky(self, topic):
        return self._slot(topic).advance_sticky()

    def sticky(self, topic):
        return self._slot(topic).sticky

    def sticky_bytes(self, topic):
        return self._slot(topic).sticky_bytes

    def add_sticky_bytes(self, topic, int64_t added):
        cdef TopicSlot slot = self._slot(topic)
        slot.sticky_bytes += added

    def set_open_batch(self, ProducerBatch batch not None):
        cdef TopicSlot slot = self._slot(batch.topic)
        if batch.partition < 0 or batch.partition >= slot.partition_count:
            raise ValueError(
                f"partition of {batch.topic} must be in 0..{slot.partition_count - 1}, got {batch.partition}"
            )
        slot.batches[batch.partition] = batch

    def clear_open_batch(self, topic, int32_t partition):
        cdef TopicSlot slot = self._topics.get(topic)
        if slot is not None and 0 <= partition < slot.partition_count:
            slot.batches[partition] = None

    def open_batch(self, topic, int32_t partition):
        cdef TopicSlot slot = self._topics.get(topic)
        cdef PyObject *batch = NULL if slot is None else slot.open_batch(partition)
        return None if batch == NULL else <object>batch

    # ---- sending ----

    cdef int _timestamp(self, object timestamp, int64_t *out) except -1:
        """Set the record's timestamp, by default now; return 0 if it is invalid. May run Python code."""
        cdef int overflow = 0
        if timestamp is None:
            out[0] = system_ms() if self._wall_ms is None else self._wall_ms()
        elif PyLong_CheckExact(timestamp):
            out[0] = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
        else:
            return 0
        return not overflow and out[0] >= 0

    cdef inline PyObject *_choose(self, object topic, object partition, Py_ssize_t *chosen) except? NULL:
        """Return the topic's slot, borrowed, and set the explicit partition, -1 if there is none."""
        cdef int overflow = 0
        cdef PyObject *slot_ref
        if self.paused or not PyUnicode_CheckExact(topic):
            return NULL
        slot_ref = PyDict_GetItemWithError(self._topics, topic)
        if slot_ref == NULL:
            return NULL
        if partition is None:
            chosen[0] = -1
            return NULL if self._explicit_partitions_only else slot_ref
        if not PyLong_CheckExact(partition):
            return NULL
        chosen[0] = PyLong_AsLongLongAndOverflow(partition, &overflow)
        return NULL if overflow or chosen[0] < 0 else slot_ref

    cdef inline int32_t _partition(
        self, TopicSlot slot, Py_ssize_t chosen, const NewRecord *record, bint *is_sticky
    ) noexcept:
        is_sticky[0] = False
        if chosen >= 0:
            return <int32_t>chosen if chosen <= INT32_MAX else -1
        if record.key_size >= 0 and not self._ignore_keys:
            if slot.partition_count == 0:
                return -1
            return (odr_murmur2(<const uint8_t *>record.key, record.key_size) & 0x7FFFFFFF) % slot.partition_count
        is_sticky[0] = True
        return slot.sticky_now()

    def send(self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None):
        cdef NewRecord record
        cdef object encoded = None
        cdef Delivery delivery
        cdef int64_t timestamp
        if load_plain(key, &record.key, &record.key_size) and load_plain(value, &record.value, &record.value_size):
            record.tail = b"\0"
            record.tail_size = 1
            if headers is not None:
                encoded = encode_plain_headers(headers)
                if encoded is not None:
                    record.tail = PyBytes_AS_STRING(encoded)
                    record.tail_size = PyBytes_GET_SIZE(encoded)
            if (headers is None or encoded is not None) and self._timestamp(timestamp_ms, &timestamp):
                delivery = Delivery.__new__(Delivery)
                delivery.timestamp = timestamp
                if self._append(topic, partition, &record, delivery, on_delivery):
                    return delivery
        return self._fallback(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    cdef inline bint _append(
        self, object topic, object partition, const NewRecord *record, Delivery delivery, object on_delivery
    ) except -1:
        cdef Py_ssize_t chosen
        cdef PyObject *slot_ref
        cdef PyObject *batch
        cdef Py_ssize_t before
        cdef bint is_sticky
        slot_ref = self._choose(topic, partition, &chosen)
        if slot_ref == NULL:
            return False
        batch = (<TopicSlot>slot_ref).open_batch(self._partition(<TopicSlot>slot_ref, chosen, record, &is_sticky))
        if batch == NULL:
            return False
        before = (<ProducerBatch>batch)._size
        if not (<ProducerBatch>batch).put_delivered(record, delivery, on_delivery):
            return False
        if is_sticky:
            (<TopicSlot>slot_ref).sticky_bytes += (<ProducerBatch>batch)._size - before
        return True

    def send_many(self, topic, values, keys=None, partition=None, timestamp_ms=None, Py_ssize_t start=0):
        cdef object seen_values = values if isinstance(values, (list, tuple)) else tuple(values)
        cdef object seen_keys = keys if keys is None or isinstance(keys, (list, tuple)) else tuple(keys)
        cdef int64_t timestamp
        cdef AppendedRanges ranges
        cdef Py_ssize_t row
        if seen_keys is not None and len(seen_keys) != len(seen_values):
            raise ValueError(f"keys must be as many as values ({len(seen_values)}), got {len(seen_keys)}")
        if start < 0:
            raise ValueError(f"start must be >= 0, got {start}")
        ranges.items = NULL
        ranges.count = ranges.capacity = 0
        row = start
        if self._timestamp(timestamp_ms, &timestamp):
            try:
                row = self._append_rows(topic, partition, seen_values, seen_keys, timestamp, start, &ranges)
            except:
                range_list(&ranges)
                raise
        return row, range_list(&ranges)

    cdef Py_ssize_t _append_rows(
        self, object topic, object partition, object values, object keys, int64_t timestamp, Py_ssize_t row,
        AppendedRanges *ranges
    ) except -1:
        cdef Py_ssize_t chosen
        cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(values)
        cdef PyObject *slot_ref = self._choose(topic, partition, &chosen)
        cdef TopicSlot slot
        cdef NewRecord record
        cdef int32_t target
        cdef bint is_sticky
        if slot_ref == NULL:
            return row
        slot = <TopicSlot>slot_ref
        record.key = NULL
        record.key_size = -1
        record.tail = b"\0"
        record.tail_size = 1
        try:
            while row < count:
                if not load_plain(<object>PySequence_Fast_GET_ITEM(values, row), &record.value, &record.value_size):
                    break
                if keys is not None and not load_plain(
                    <object>PySequence_Fast_GET_ITEM(keys, row), &record.key, &record.key_size
                ):
                    break
                target = self._partition(slot, chosen, &record, &is_sticky)
                if not self._append_row(slot, target, is_sticky, timestamp, &record, ranges):
                    break
                row += 1
        finally:
            close_ranges(ranges, slot)
        return row

    cdef inline bint _append_row(
        self, TopicSlot slot, int32_t partition, bint is_sticky, int64_t timestamp, const NewRecord *record,
        AppendedRanges *ranges
    ) except -1:
        cdef PyObject *batch = slot.open_batch(partition)
        cdef Py_ssize_t before
        if batch == NULL:
            return False
        if not slot.marks[partition]:
            open_range(ranges, slot, partition, batch)
        before = (<ProducerBatch>batch)._size
        if not (<ProducerBatch>batch).put(timestamp, record):
            return False
        if is_sticky:
            slot.sticky_bytes += (<ProducerBatch>batch)._size - before
        return True

    def append_columns(self, topic, RecordColumns columns not None, partitions, Py_ssize_t start, Py_ssize_t stop):
        cdef AppendedRanges ranges
        cdef Py_ssize_t row = start
        cdef Py_buffer view
        cdef const int32_t *chosen = NULL
        cdef int64_t now_ms
        columns.check_range(start, stop)
        ranges.items = NULL
        ranges.count = ranges.capacity = 0
        if partitions is not None:
            PyObject_GetBuffer(partitions, &view, PyBUF_SIMPLE)
            chosen = <const int32_t *>view.buf
        try:
            if chosen != NULL and view.len // 4 < stop:
                raise ValueError(f"partitions must cover {stop} rows, got {view.len // 4}")
            if self._timestamp(None, &now_ms):
                row = self._append_table(topic, columns, chosen, start, stop, now_ms, &ranges)
        except:
            range_list(&ranges)
            raise
        finally:
            if partitions is not None:
                PyBuffer_Release(&view)
        return row, range_list(&ranges)

    cdef Py_ssize_t _append_table(
        self, object topic, RecordColumns columns, const int32_t *partitions, Py_ssize_t row, Py_ssize_t stop,
        int64_t now_ms, AppendedRanges *ranges
    ) except -1:
        cdef Py_ssize_t chosen
        # Rows have their own partitions; 0 only satisfies the check for an explicit partition.
        cdef PyObject *slot_ref = self._choose(topic, 0, &chosen)
        cdef TopicSlot slot
        cdef NewRecord record
        cdef int64_t timestamp
        cdef int32_t target
        cdef bint is_sticky
        if slot_ref == NULL:
            return row
        slot = <TopicSlot>slot_ref
        try:
            while row < stop:
                if not columns.load(row, &record, &timestamp, now_ms):
                    break
                is_sticky = partitions == NULL or partitions[row] < 0
                target = slot.sticky_now() if is_sticky else partitions[row]
                if not self._append_row(slot, target, is_sticky, timestamp, &record, ranges):
                    break
                row += 1
        finally:
            close_ranges(ranges, slot)
        return row


cdef inline bint load_plain(object value, const char **start, Py_ssize_t *size) noexcept:
    """Point at the bytes of a field; False if it is neither bytes nor None."""
    if value is None:
        start[0] = NULL
        size[0] = -1
        return True
    if not PyBytes_CheckExact(value):
        return False
    start[0] = PyBytes_AS_STRING(value)
    size[0] = PyBytes_GET_SIZE(value)
    return True


cdef object encode_plain_headers(object headers):
    """Encode headers; None if they are not plain pairs of str and bytes."""
    cdef object pair
    if type(headers) is not list and type(headers) is not tuple:
        return None
    # A copy: another thread may change the list between checking and encoding.
    cdef tuple pairs = tuple(headers)
    cdef Py_ssize_t size = 10
    cdef Py_ssize_t name_size
    cdef const char *name
    cdef const char *value = NULL
    cdef Py_ssize_t value_size = -1
    for pair in pairs:
        if type(pair) is not tuple or PyTuple_GET_SIZE(pair) != 2 or type((<tuple>pair)[0]) is not str:
            return None
        if not load_plain((<tuple>pair)[1], &value, &value_size):
            return None
        try:
            PyUnicode_AsUTF8AndSize((<tuple>pair)[0], &name_size)
        except UnicodeEncodeError:
            return None
        size += 20 + name_size + max(value_size, 0)
    encoded = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *start = <uint8_t *>PyBytes_AS_STRING(encoded)
    cdef uint8_t *p = put_varint(start, PyTuple_GET_SIZE(pairs))
    for pair in pairs:
        name = PyUnicode_AsUTF8AndSize((<tuple>pair)[0], &name_size)
        load_plain((<tuple>pair)[1], &value, &value_size)
        p = put_field(put_field(p, name, name_size), value, value_size)
    return PyBytes_FromStringAndSize(<const char *>start, p - start)
