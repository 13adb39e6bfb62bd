# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records, columns and fetch buffers of a consumer, and the reader of fetched records.

``pure.consumer_record``, ``pure.column_builder`` and ``pure.record_reader`` are the specification. One module, because
the reader creates a record or fills a row at a time: calls between extension modules go through pointers, which cost
2 % of a row.

The fetched bytes stay exported while the reader lives, and so do the decompressed ones of the batch being read. Columns
are memory of this module, filled without the interpreter lock and handed over without a copy. The lock is also released
while CRCs are computed; a second thread gets ``ConcurrentUse`` meanwhile.

New memory from the system costs more, page by page, than copying or receiving into it. So a few blocks of columns and
of fetch buffers are kept when their last view is gone, and reused.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from odradek.records.compiled.record_batch cimport (
    APPEND_TIME_BIT, BATCH_OVERHEAD, CODEC_MASK, CONTROL_BIT, CRC_START, LOG_OVERHEAD, OFFSET_OUT_OF_RANGE, RECORD_OK,
    TRAILING_BYTES, TRANSACTIONAL_BIT, UNLOCKED_BYTES_MIN, Cursor, Export, RecordFields, RecordStatus, field_bytes,
    message_header, odr_int16, odr_int32, odr_int64, read_record_headers, status_message, take_field, take_record,
    timestamp_of, update_crc,
)

from types import GenericAlias

from odradek.model.client_errors import ConcurrentUse, RecordCorrupt
from odradek.model.errors import BrokerError, ErrorCode, LocalProtocolViolation
from odradek.model.protocol_enums import TimestampType
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from odradek.records.layout import POLL_COLUMNS, Columns
from odradek.records.message_set import read_message


# ---- columns ----

cdef struct GrowingBuffer:
    uint8_t *start
    Py_ssize_t size
    Py_ssize_t capacity

cdef struct BytesCells:
    # Nullable bytes in Arrow's layout; ``ends`` has one more than rows.
    GrowingBuffer validity
    GrowingBuffer ends
    GrowingBuffer content

cdef enum:
    # ``layout.ColumnSet``
    COLUMN_PARTITIONS = 1
    COLUMN_OFFSETS = 2
    COLUMN_TIMESTAMPS = 4
    COLUMN_TIMESTAMPS_US = 8
    COLUMN_TIMESTAMP_TYPES = 16
    COLUMN_KEYS = 32
    COLUMN_VALUES = 64
    COLUMN_HEADERS = 128
    # Minimum size of a record: one byte per field.
    RECORD_BYTES_MIN = 7

cdef struct ColumnBuffers:
    int columns
    int64_t bytes_max
    bint has_rejected
    Py_ssize_t row_count
    Py_ssize_t header_count
    GrowingBuffer topic_indices
    GrowingBuffer partitions
    GrowingBuffer offsets
    GrowingBuffer timestamps
    GrowingBuffer timestamp_types
    BytesCells keys
    BytesCells values
    GrowingBuffer header_validity
    GrowingBuffer header_ends
    BytesCells header_names
    BytesCells header_values

# Values shared by all rows of a batch.
cdef struct RowOrigin:
    int32_t topic_index
    int32_t partition
    int32_t timestamp_type

cdef enum RowStatus:
    ROW_ADDED
    ROW_LOST
    # The builder has enough bytes, or 32-bit offsets would overflow: ``finish`` first.
    ROW_REJECTED
    # At or after the stop offset.
    ROW_BEYOND

cdef enum:
    # New memory from the system costs more, page by page, than the copy into it: blocks of freed columns are kept
    # for reuse, at most those of the columns of two batches.
    KEPT_BLOCKS = 24
    KEPT_BYTES_MIN = 65536
    KEPT_BYTES_MAX = 16777216
    KEPT_BYTES_TOTAL_MAX = 50331648

cdef int _POLL_COLUMNS = int(POLL_COLUMNS)

# Used with the interpreter lock held only.
cdef GrowingBuffer kept_blocks[KEPT_BLOCKS]
cdef Py_ssize_t kept_bytes = 0
memset(kept_blocks, 0, sizeof(kept_blocks))


cdef void keep_block(uint8_t *start, Py_ssize_t capacity) noexcept:
    """Keep a block in a free slot, or instead of a smaller one; else free it."""
    global kept_bytes
    cdef GrowingBuffer *slot = &kept_blocks[0]
    cdef uint8_t *freed = start
    cdef int index
    for index in range(1, KEPT_BLOCKS):
        if kept_blocks[index].capacity < slot.capacity:
            slot = &kept_blocks[index]
    if (
        KEPT_BYTES_MIN <= capacity <= KEPT_BYTES_MAX and slot.capacity < capacity
        and kept_bytes - slot.capacity + capacity <= KEPT_BYTES_TOTAL_MAX
    ):
        freed = slot.start
        kept_bytes += capacity - slot.capacity
        slot.start = start
        slot.capacity = capacity
    free(freed)


cdef void reuse_block(GrowingBuffer *buffer, Py_ssize_t needed) noexcept:
    """Give an empty buffer the smallest kept block of the needed size, else the largest."""
    global kept_bytes
    cdef GrowingBuffer *best = NULL
    cdef GrowingBuffer *block
    cdef int index
    if buffer.start != NULL or needed < KEPT_BYTES_MIN:
        return
    for index in range(KEPT_BLOCKS):
        block = &kept_blocks[index]
        if block.start != NULL and (best == NULL or fits_better(block.capacity, best.capacity, needed)):
            best = block
    if best != NULL:
        buffer.start = best.start
        buffer.capacity = best.capacity
        kept_bytes -= best.capacity
        best.start = NULL
        best.capacity = 0


cdef inline bint fits_better(Py_ssize_t capacity, Py_ssize_t best, Py_ssize_t needed) noexcept:
    return best < capacity if best < needed else needed <= capacity < best


cdef class ColumnMemory:
    """Memory of a finished column."""

    cdef uint8_t *_start
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity

    def __dealloc__(self):
        keep_block(self._start, self._capacity)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._start if self._start != NULL else <void *>b"", self._size, 1, flags)


cdef void reuse_blocks(ColumnBuffers *buffers, Py_ssize_t value_bytes, Py_ssize_t rows) noexcept:
    """Reuse kept blocks for empty columns. The sizes are those of one partition; values of other partitions may follow,
    so that values get the largest block."""
    cdef int columns = buffers.columns
    if columns & COLUMN_VALUES:
        if value_bytes >= KEPT_BYTES_MIN:
            reuse_block(&buffers.values.content, KEPT_BYTES_MAX)
        reuse_block(&buffers.values.ends, 4 * rows)
    if columns & COLUMN_OFFSETS:
        reuse_block(&buffers.offsets, 8 * rows)
    if columns & (COLUMN_TIMESTAMPS | COLUMN_TIMESTAMPS_US):
        reuse_block(&buffers.timestamps, 8 * rows)
    if columns & COLUMN_TIMESTAMP_TYPES:
        reuse_block(&buffers.timestamp_types, 4 * rows)
    if columns & COLUMN_PARTITIONS:
        reuse_block(&buffers.topic_indices, 4 * rows)
        reuse_block(&buffers.partitions, 4 * rows)
    if columns & COLUMN_KEYS:
        reuse_block(&buffers.keys.ends, 4 * rows)
    if columns & COLUMN_HEADERS:
        reuse_block(&buffers.header_ends, 4 * rows)


cdef inline bint reserve_more(GrowingBuffer *buffer, Py_ssize_t more) noexcept nogil:
    return buffer.size + more <= buffer.capacity or enlarge(buffer, more)


cdef bint enlarge(GrowingBuffer *buffer, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t needed = buffer.size + more
    cdef uint8_t *resized
    if needed < 2 * buffer.capacity:
        needed = 2 * buffer.capacity
    if needed < 512:
        needed = 512
    resized = <uint8_t *>realloc(buffer.start, needed)
    if resized == NULL:
        return False
    buffer.start = resized
    buffer.capacity = needed
    return True


cdef bint reserve_rows(ColumnBuffers *buffers, Py_ssize_t rows) noexcept nogil:
    """Reserve memory for rows in all fixed-size buffers, and write the first end of each."""
    cdef int columns = buffers.columns
    cdef bint fits = True
    if columns & COLUMN_PARTITIONS:
        fits = reserve_more(&buffers.topic_indices, 4 * rows) and reserve_more(&buffers.partitions, 4 * rows)
    if columns & COLUMN_OFFSETS:
        fits = fits and reserve_more(&buffers.offsets, 8 * rows)
    if columns & (COLUMN_TIMESTAMPS | COLUMN_TIMESTAMPS_US):
        fits = fits and reserve_more(&buffers.timestamps, 8 * rows)
    if columns & COLUMN_TIMESTAMP_TYPES:
        fits = fits and reserve_more(&buffers.timestamp_types, 4 * rows)
    if columns & COLUMN_KEYS:
        fits = fits and reserve_cells(&buffers.keys, rows)
    if columns & COLUMN_VALUES:
        fits = fits and reserve_cells(&buffers.values, rows)
    if columns & COLUMN_HEADERS:
        fits = (
            fits and start_ends(&buffers.header_ends) and reserve_more(&buffers.header_ends, 4 * rows)
            and reserve_more(&buffers.header_validity, rows // 8 + 1)
            and start_ends(&buffers.header_names.ends) and start_ends(&buffers.header_values.ends)
        )
    return fits


cdef inline bint reserve_cells(BytesCells *cells, Py_ssize_t rows) noexcept nogil:
    return (
        start_ends(&cells.ends) and reserve_more(&cells.ends, 4 * rows)
        and reserve_more(&cells.validity, rows // 8 + 1)
    )


cdef inline bint start_ends(GrowingBuffer *ends) noexcept nogil:
    """Write the leading 0 of the ends."""
    if ends.size == 0:
        if not reserve_more(ends, 4):
            return False
        put_int32(ends, 0)
    return True


cdef inline void put_int32(GrowingBuffer *buffer, int32_t value) noexcept nogil:
    (<int32_t *>(buffer.start + buffer.size))[0] = value
    buffer.size += 4


cdef inline void put_int64(GrowingBuffer *buffer, int64_t value) noexcept nogil:
    (<int64_t *>(buffer.start + buffer.size))[0] = value
    buffer.size += 8


cdef inline void put_bit(GrowingBuffer *bits, Py_ssize_t row, bint value) noexcept nogil:
    if row & 7 == 0:
        bits.start[bits.size] = 0
        bits.size += 1
    bits.start[row >> 3] |= <uint8_t>(value << (row & 7))


cdef inline bint put_cell(BytesCells *cells, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    """Add a cell; validity and end are reserved, its bytes are not."""
    if size > 0:
        if not reserve_more(&cells.content, size):
            return False
        memcpy(cells.content.start + cells.content.size, field, size)
        cells.content.size += size
    put_bit(&cells.validity, row, size >= 0)
    put_int32(&cells.ends, <int32_t>cells.content.size)
    return True


cdef inline bint push_cell(BytesCells *cells, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    return (
        reserve_more(&cells.ends, 4) and reserve_more(&cells.validity, 1) and put_cell(cells, row, field, size)
    )


cdef inline bint is_full(const ColumnBuffers *buffers, Py_ssize_t size_max) noexcept nogil:
    """Return whether a record with fields of at most ``size_max`` bytes does not fit."""
    cdef int64_t keys = buffers.keys.content.size
    cdef int64_t values = buffers.values.content.size
    cdef int64_t names = buffers.header_names.content.size
    cdef int64_t header_values = buffers.header_values.content.size
    return (
        (buffers.row_count > 0 and keys + values + names + header_values >= buffers.bytes_max)
        or max(max(keys, values), max(names, header_values)) + size_max > INT32_MAX
    )


cdef inline int64_t microseconds_of(int64_t milliseconds) noexcept nogil:
    if milliseconds > INT64_MAX // 1000:
        return INT64_MAX
    if milliseconds < -(INT64_MAX // 1000):
        return -INT64_MAX - 1
    return milliseconds * 1000


cdef RowStatus add_row(
    ColumnBuffers *buffers, const RowOrigin *origin, int64_t offset, int64_t timestamp, RecordFields *fields
) noexcept nogil:
    """Add a checked record; fixed-size buffers are reserved. After ROW_LOST the columns are unusable."""
    cdef int columns = buffers.columns
    # Names may grow when invalid UTF-8 is replaced.
    if is_full(buffers, 3 * (fields.end - fields.key)) or buffers.header_count + fields.header_count > INT32_MAX:
        buffers.has_rejected = True
        return ROW_REJECTED
    if columns & COLUMN_PARTITIONS:
        put_int32(&buffers.topic_indices, origin.topic_index)
        put_int32(&buffers.partitions, origin.partition)
    if columns & COLUMN_OFFSETS:
        put_int64(&buffers.offsets, offset)
    if columns & COLUMN_TIMESTAMPS_US:
        put_int64(&buffers.timestamps, microseconds_of(timestamp))
    elif columns & COLUMN_TIMESTAMPS:
        put_int64(&buffers.timestamps, timestamp)
    if columns & COLUMN_TIMESTAMP_TYPES:
        put_int32(&buffers.timestamp_types, origin.timestamp_type)
    if columns & COLUMN_KEYS and not put_cell(&buffers.keys, buffers.row_count, fields.key, fields.key_size):
        return ROW_LOST
    if columns & COLUMN_VALUES and not put_cell(&buffers.values, buffers.row_count, fields.value, fields.value_size):
        return ROW_LOST
    if columns & COLUMN_HEADERS and not add_headers(buffers, fields):
        return ROW_LOST
    buffers.row_count += 1
    return ROW_ADDED


cdef inline bint push_name(BytesCells *names, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    """Add a header name, which must be UTF-8 in Arrow."""
    cdef int32_t index
    for index in range(size):
        if field[index] >= 0x80:
            return push_text(names, row, field, size)
    return push_cell(names, row, field, size)


cdef bint push_text(BytesCells *names, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept with gil:
    """Add a name that is not ASCII, with invalid UTF-8 replaced."""
    try:
        text = PyUnicode_DecodeUTF8(<const char *>field, size, "replace").encode()
    except MemoryError:
        return False
    return push_cell(names, row, <const uint8_t *>PyBytes_AS_STRING(text), <int32_t>PyBytes_GET_SIZE(text))


cdef bint add_headers(ColumnBuffers *buffers, RecordFields *fields) noexcept nogil:
    cdef Cursor cursor
    cdef int32_t index
    cdef int32_t size = -1
    cdef const uint8_t *field = NULL
    put_bit(&buffers.header_validity, buffers.row_count, fields.header_count > 0)
    cursor.p = fields.headers
    cursor.end = fields.end
    for index in range(fields.header_count):
        take_field(&cursor, &size, &field)
        if not push_name(&buffers.header_names, buffers.header_count, field, size):
            return False
        take_field(&cursor, &size, &field)
        if not push_cell(&buffers.header_values, buffers.header_count, field, size):
            return False
        buffers.header_count += 1
    put_int32(&buffers.header_ends, <int32_t>buffers.header_count)
    return True


cdef object hand_over(GrowingBuffer *buffer):
    """Return the bytes of a buffer as a view that owns them; the buffer is empty afterwards."""
    cdef ColumnMemory memory = ColumnMemory.__new__(ColumnMemory)
    cdef uint8_t *trimmed
    memory._start = buffer.start
    memory._size = buffer.size
    memory._capacity = buffer.capacity
    if buffer.size and buffer.capacity - buffer.size > 4096 and buffer.capacity > 2 * buffer.size:
        trimmed = <uint8_t *>realloc(buffer.start, buffer.size)
        if trimmed != NULL:
            memory._start = trimmed
            memory._capacity = buffer.size
    buffer.start = NULL
    buffer.size = buffer.capacity = 0
    return memoryview(memory)


cdef void free_cells(BytesCells *cells) noexcept nogil:
    free(cells.validity.start)
    free(cells.ends.start)
    free(cells.content.start)


cdef class ColumnBuilder:
    cdef ColumnBuffers _buffers
    cdef list _topics
    cdef bint _busy

    def __cinit__(self, int columns=_POLL_COLUMNS, int64_t bytes_max=INT64_MAX):
        self._buffers.columns = columns
        self._buffers.bytes_max = bytes_max
        self._topics = []

    def __dealloc__(self):
        cdef ColumnBuffers *buffers = &self._buffers
        free(buffers.topic_indices.start)
        free(buffers.partitions.start)
        free(buffers.offsets.start)
        free(buffers.timestamps.start)
        free(buffers.timestamp_types.start)
        free_cells(&buffers.keys)
        free_cells(&buffers.values)
        free(buffers.header_validity.start)
        free(buffers.header_ends.start)
        free_cells(&buffers.header_names)
        free_cells(&buffers.header_values)

    @property
    def row_count(self):
        return self._buffers.row_count

    @property
    def is_full(self):
        return bool(self._buffers.has_rejected and self._buffers.row_count > 0)

    cdef int32_t topic_index(self, object topic) except -1:
        if topic not in self._topics:
            self._topics.append(topic)
        return self._topics.index(topic)

    cdef int keep_topics(self, Py_ssize_t count) except -1:
        """Remove topics without rows."""
        del self._topics[count:]
        return 0

    def finish(self):
        cdef ColumnBuffers *buffers = &self._buffers
        if self._busy:
            raise ConcurrentUse("columns are in use by another thread")
        if not reserve_rows(buffers, 0):
            raise MemoryError
        columns = Columns(
            buffers.row_count,
            tuple(self._topics),
            hand_over(&buffers.topic_indices),
            hand_over(&buffers.partitions),
            hand_over(&buffers.offsets),
            hand_over(&buffers.timestamps),
            hand_over(&buffers.timestamp_types),
            hand_over(&buffers.keys.validity),
            hand_over(&buffers.keys.ends),
            hand_over(&buffers.keys.content),
            hand_over(&buffers.values.validity),
            hand_over(&buffers.values.ends),
            hand_over(&buffers.values.content),
            hand_over(&buffers.header_validity),
            hand_over(&buffers.header_ends),
            hand_over(&buffers.header_names.ends),
            hand_over(&buffers.header_names.content),
            hand_over(&buffers.header_values.validity),
            hand_over(&buffers.header_values.ends),
            hand_over(&buffers.header_values.content),
        )
        free(buffers.header_names.validity.start)
        buffers.header_names.validity.start = NULL
        buffers.header_names.validity.size = buffers.header_names.validity.capacity = 0
        buffers.row_count = buffers.header_count = 0
        buffers.has_rejected = False
        self._topics = []
        return columns


# ---- records ----

cdef tuple NO_HEADERS = ()
cdef tuple TIMESTAMP_TYPES = (None, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


# Not tracked by the collector: bytes, text and numbers form no cycles, and a poll returns thousands of records.
@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class ConsumerRecord:
    cdef readonly object topic
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly int32_t partition
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t serialized_key_size
    cdef readonly int32_t serialized_value_size
    # -1 none, 0 CreateTime, 1 LogAppendTime
    cdef int _timestamp_type

    __match_args__ = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

    def __init__(
        self, topic, int32_t partition, int64_t offset, int64_t timestamp, timestamp_type, key, value, headers=(),
        int32_t leader_epoch=-1, int32_t serialized_key_size=-1, int32_t serialized_value_size=-1
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self._timestamp_type = -1 if timestamp_type is None else 1 if timestamp_type else 0
        self.key = key
        self.value = value
        self.headers = headers
        self.leader_epoch = leader_epoch
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    # For annotations such as ConsumerRecord[str, bytes].
    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[self._timestamp_type + 1]

    def deserialized(self, key, value):
        cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
        record.topic = self.topic
        record.key = key
        record.value = value
        record.headers = self.headers
        record.offset = self.offset
        record.timestamp = self.timestamp
        record.partition = self.partition
        record.leader_epoch = self.leader_epoch
        record.serialized_key_size = self.serialized_key_size
        record.serialized_value_size = self.serialized_value_size
        record._timestamp_type = self._timestamp_type
        return record

    cdef tuple _fields(self):
        return (
            self.topic, self.partition, self.offset, self.timestamp, self.timestamp_type, self.key, self.value,
            self.headers, self.leader_epoch, self.serialized_key_size, self.serialized_value_size,
        )

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._fields() == (<ConsumerRecord>other)._fields()

    def __hash__(self):
        return hash(self._fields())

    def __reduce__(self):
        return ConsumerRecord, self._fields()

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


# ---- fetch buffers ----

cdef enum:
    KEPT_FETCH_BUFFERS = 3
    FETCH_BYTES_MIN = 65536
    FETCH_BYTES_MAX = 16777216
    # Maximum ratio of a reused block to the requested size.
    REUSE_RATIO_MAX = 4

cdef struct Block:
    uint8_t *start
    Py_ssize_t capacity

# Used with the interpreter lock held only.
cdef Block kept_fetch_buffers[KEPT_FETCH_BUFFERS]
memset(kept_fetch_buffers, 0, sizeof(kept_fetch_buffers))


# The C library adapts the amount of free memory it retains to the large blocks that are freed. Blocks kept here are not
# freed, so that it would return the pages of all records to the system after each poll: with records of 1 KB that took
# half of a consumer's time. So a block of each larger size is allocated and freed once.
cdef Py_ssize_t largest_freed = 0


cdef void free_once(Py_ssize_t size) noexcept:
    global largest_freed
    cdef uint8_t *block
    if size > largest_freed:
        largest_freed = size
        block = <uint8_t *>malloc(size)
        if block != NULL:
            # Prevents the compiler from removing the allocation.
            (<volatile uint8_t *>block)[0] = 0
            free(block)


cdef class FetchBuffer:
    """Memory of a fetch buffer, alive as long as a view of it."""

    cdef Block _block
    cdef Py_ssize_t _size

    def __cinit__(self, Py_ssize_t size):
        cdef int index
        self._size = size
        for index in range(KEPT_FETCH_BUFFERS):
            if size <= kept_fetch_buffers[index].capacity <= REUSE_RATIO_MAX * size:
                self._block = kept_fetch_buffers[index]
                memset(&kept_fetch_buffers[index], 0, sizeof(Block))
                return
        self._block.capacity = (size | 0xFFFF) + 1 if size >= FETCH_BYTES_MIN else size
        free_once(self._block.capacity)
        self._block.start = <uint8_t *>malloc(self._block.capacity if self._block.capacity else 1)
        if self._block.start == NULL:
            raise MemoryError

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._block.start, self._size, 0, flags)

    def __dealloc__(self):
        cdef Block block = self._block
        cdef Block other
        cdef int index
        if FETCH_BYTES_MIN <= block.capacity <= FETCH_BYTES_MAX:
            # Keep the largest blocks: each slot takes the larger of two and passes the smaller on.
            for index in range(KEPT_FETCH_BUFFERS):
                if kept_fetch_buffers[index].capacity < block.capacity:
                    other = kept_fetch_buffers[index]
                    kept_fetch_buffers[index] = block
                    block = other
        free(block.start)


def allocate_fetch_buffer(Py_ssize_t size):
    if size < 0:
        raise ValueError(f"size must be >= 0, got {size}")
    return memoryview(FetchBuffer(size))


# ---- reader ----

cdef enum:
    BATCHES_SCANNED_MAX = 1024


cdef class RecordReader:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int32_t leader_epoch
    cdef readonly int64_t next_offset
    cdef readonly bint exhausted
    cdef readonly bint has_partial_batch
    cdef Export _fetched
    cdef bint _is_exported
    cdef bint _busy
    cdef bint _check_crcs
    cdef Py_ssize_t _bytes_max
    cdef Py_ssize_t _position
    cdef object _buffer
    # Batch being read.
    cdef bint _in_batch
    cdef Py_ssize_t _batch_position
    cdef int64_t _base_offset
    cdef int64_t _last_offset
    cdef int64_t _timestamp
    cdef bint _fixed
    cdef int _timestamp_type
    cdef int32_t _left
    cdef Cursor _cursor
    cdef Export _content
    cdef bint _content_exported
    cdef object _messages
    cdef object _pending
    cdef object _failure
    # Aborted transactions, the earliest last; None reads uncommitted records too.
    cdef list _aborted
    cdef set _aborted_ids

    def __init__(
        self, buffer, topic, int32_t partition, int64_t start_offset, *, aborted=None, bint check_crcs=True,
        Py_ssize_t decompressed_bytes_max=DECOMPRESSED_BYTES_MAX
    ):
        if self._is_exported:
            raise LocalProtocolViolation("reader is already initialized")
        if aborted is not None:
            self._aborted = sorted(((first, producer) for producer, first in aborted), reverse=True)
            self._aborted_ids = set()
        self.topic = topic
        self.partition = partition
        self.next_offset = start_offset
        self.leader_epoch = -1
        self._check_crcs = check_crcs
        self._bytes_max = decompressed_bytes_max
        PyObject_GetBuffer(buffer, &self._fetched.view, PyBUF_SIMPLE)
        self._is_exported = True
        self._buffer = buffer
        self._look_ahead()

    def __dealloc__(self):
        self._release_content()
        if self._is_exported:
            PyBuffer_Release(&self._fetched.view)

    @property
    def bytes_left(self):
        return self._fetched.view.len - self._position

    def end_offset(self):
        cdef const uint8_t *p = <const uint8_t *>self._fetched.view.buf
        cdef Py_ssize_t left = self._fetched.view.len
        cdef int64_t size
        cdef int64_t base
        cdef int32_t last_delta
        end_offset = None
        for _ in range(BATCHES_SCANNED_MAX):
            if left < BATCH_OVERHEAD:
                return end_offset
            size = odr_int32(p + 8)
            if size <= 0 or p[16] != 2:
                return None
            size += LOG_OVERHEAD
            if size > left:
                return end_offset
            base = odr_int64(p)
            last_delta = odr_int32(p + 23)
            if base < 0 or last_delta < 0 or base > INT64_MAX - 1 - last_delta:
                return None
            end_offset = base + last_delta + 1
            p += size
            left -= size
        return None

    # ---- from batch to batch ----

    cdef void _release_content(self) noexcept:
        if self._content_exported:
            self._content_exported = False
            PyBuffer_Release(&self._content.view)

    cdef int _fail(self, object code, str reason) except -1:
        """Store the error of the current batch, which every later call raises."""
        cdef const uint8_t *p = <const uint8_t *>self._fetched.view.buf + self._batch_position
        offset = odr_int64(p) if self._fetched.view.len - self._batch_position >= 8 else -1
        self._in_batch = False
        self._messages = None
        self._failure = (code, (
            f"{self.topic}-{self.partition}: batch at offset {offset} (byte {self._batch_position} of the fetched "
            f"records) is corrupt: {reason}"
        ))
        return 0

    cdef bint _look_ahead(self) noexcept:
        """Return whether a complete batch, or an invalid one, follows."""
        cdef Py_ssize_t left = self._fetched.view.len - self._position
        cdef const uint8_t *p = <const uint8_t *>self._fetched.view.buf + self._position
        cdef int64_t size
        if left >= LOG_OVERHEAD:
            size = odr_int32(p + 8)
            if size < 14 or (left > LOG_OVERHEAD + 4 and (p[16] > 2 or left >= size + LOG_OVERHEAD)):
                return True
        self.has_partial_batch = left > 0
        self.exhausted = True
        return False

    cdef bint _open_next(self, int64_t stop_offset) except -1:
        """Open the next batch with records to deliver; False at the end, at ``stop_offset``, or if it is corrupt."""
        cdef const uint8_t *p
        cdef int64_t size, smallest
        while self._failure is None and self.next_offset < stop_offset and self._look_ahead():
            self._batch_position = self._position
            p = <const uint8_t *>self._fetched.view.buf + self._position
            size = odr_int32(p + 8)
            if size < 14:
                self._fail(ErrorCode.CORRUPT_MESSAGE, f"size must be >= 14, got {size}")
            elif p[16] > 2:
                self._fail(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {p[16]}")
            else:
                smallest = 14 if p[16] == 0 else 22 if p[16] == 1 else BATCH_OVERHEAD - LOG_OVERHEAD
                if size < smallest:
                    self._fail(
                        ErrorCode.CORRUPT_MESSAGE, f"size of a magic {p[16]} batch must be >= {smallest}, got {size}"
                    )
                elif self._open_batch(p, size + LOG_OVERHEAD) if p[16] == 2 else self._open_message(p, size):
                    self._in_batch = True
                    return True
        return False

    cdef int _leave(self, int64_t last_offset) except -1:
        """Leave the current batch."""
        self._in_batch = False
        self._messages = None
        self._release_content()
        if last_offset < INT64_MAX and last_offset >= self.next_offset:
            self.next_offset = last_offset + 1
        return 0

    cdef bint _has_valid_crc(self, const uint8_t *p, int64_t size) noexcept:
        cdef bint fits
        if size < UNLOCKED_BYTES_MIN:
            return update_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)
        with nogil:
            fits = update_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)
        return fits

    cdef bint _open_batch(self, const uint8_t *p, int64_t size) except -1:
        cdef int64_t base = odr_int64(p)
        cdef int32_t last_delta = odr_int32(p + 23)
        cdef int32_t count = odr_int32(p + 57)
        cdef int attributes = p[22]
        if self._check_crcs and not self._has_valid_crc(p, size):
            self._fail(ErrorCode.CORRUPT_MESSAGE, "CRC does not match its bytes")
            return False
        if base < 0 or last_delta < 0 or count < 0 or base > INT64_MAX - 1 - last_delta:
            self._fail(
                ErrorCode.CORRUPT_MESSAGE,
                f"invalid header: base offset {base}, last offset delta {last_delta}, {count} records",
            )
            return False
        self.leader_epoch = odr_int32(p + 12)
        self._base_offset = base
        self._last_offset = base + last_delta
        self._fixed = attributes & APPEND_TIME_BIT
        self._timestamp_type = 1 if self._fixed else 0
        self._timestamp = odr_int64(p + 35) if self._fixed else odr_int64(p + 27)
        self._left = count
        self._position += size
        self._cursor.p = p + BATCH_OVERHEAD
        self._cursor.end = p + size
        if self._aborted is not None and odr_int64(p + 43) >= 0 and self._is_aborted(p, attributes):
            self._leave(self._last_offset)
            return False
        if self._failure is not None:
            return False
        if attributes & CONTROL_BIT or self._last_offset < self.next_offset:
            self._leave(self._last_offset)
            return False
        return self._open_content(attributes & CODEC_MASK)

    cdef bint _open_content(self, int codec_id) except -1:
        """Locate the records, decompressed if necessary."""
        if not codec_id:
            return True
        try:
            start = self._cursor.p - <const uint8_t *>self._fetched.view.buf
            content = decompress(codec_id, memoryview(self._buffer)[start : self._position], self._bytes_max)
        except BrokerError as error:
            self._fail(error.code, error.message)
            return False
        self._release_content()
        PyObject_GetBuffer(content, &self._content.view, PyBUF_SIMPLE)
        self._content_exported = True
        self._cursor.p = <const uint8_t *>self._content.view.buf
        self._cursor.end = self._cursor.p + self._content.view.len
        return True

    cdef bint _is_aborted(self, const uint8_t *p, int attributes) except -1:
        """Return whether a producer's batch belongs to an aborted transaction."""
        producer_id = odr_int64(p + 43)
        while self._aborted and self._aborted[len(self._aborted) - 1][0] <= self._last_offset:
            self._aborted_ids.add(self._aborted.pop()[1])
        if attributes & CONTROL_BIT:
            if self._is_abort_marker(attributes & CODEC_MASK):
                self._aborted_ids.discard(producer_id)
            return False
        return attributes & TRANSACTIONAL_BIT and producer_id in self._aborted_ids

    cdef bint _is_abort_marker(self, int codec_id) except -1:
        cdef RecordFields fields
        cdef RecordStatus status
        if not self._left or not self._open_content(codec_id):
            return False
        status = take_record(&self._cursor, &fields)
        if status != RECORD_OK:
            self._fail(ErrorCode.INVALID_RECORD, status_message(status))
        elif fields.key_size < 4 or odr_int16(fields.key) < 0:
            self._fail(ErrorCode.INVALID_RECORD, "malformed key of a control record")
        else:
            return odr_int16(fields.key + 2) == 0
        return False

    cdef bint _open_message(self, const uint8_t *p, int64_t size) except -1:
        """Open a message of magic 0 or 1, or a wrapper."""
        header = message_header(p, self._position)
        self.leader_epoch = -1
        self._timestamp_type = -1 if p[16] == 0 else 1 if p[17] & APPEND_TIME_BIT else 0
        self._last_offset = odr_int64(p)
        self._position += size + LOG_OVERHEAD
        if self._last_offset < 0 or self._last_offset == INT64_MAX:
            self._fail(ErrorCode.CORRUPT_MESSAGE, f"invalid message offset {self._last_offset}")
            return False
        self._messages = read_message(self._buffer, header, self._bytes_max)
        return True

    # ---- records ----

    cdef int _begin(self) except -1:
        if self._busy:
            raise ConcurrentUse("records are in use by another thread")
        self._busy = True
        return 0

    cdef int _raise_failure(self) except -1:
        code, message = self._failure
        raise RecordCorrupt(message, code=code, retriable=False)

    def take(self, Py_ssize_t records_max):
        cdef list records = []
        self._begin()
        try:
            while len(records) < records_max and (self._in_batch or self._open_next(INT64_MAX)):
                if self._messages is None:
                    self._take_records(records, records_max)
                else:
                    self._take_messages(records, records_max)
                if self._failure is not None:
                    break
            if self._failure is None and not self._in_batch:
                self._look_ahead()
        finally:
            self._busy = False
        if self._failure is not None and records_max > 0 and not records:
            self._raise_failure()
        return records

    cdef inline bint _is_out_of_range(self, const RecordFields *fields) noexcept nogil:
        return fields.offset_delta < 0 or fields.offset_delta > self._last_offset - self._base_offset

    cdef int _end_batch(self, RecordStatus status) except -1:
        """Leave a batch after its last record, or store its error."""
        if status != RECORD_OK:
            self._fail(ErrorCode.INVALID_RECORD, status_message(status))
        elif self._left == 0:
            if self._cursor.p != self._cursor.end:
                self._fail(ErrorCode.INVALID_RECORD, status_message(TRAILING_BYTES))
            else:
                self._leave(self._last_offset)
        return 0

    cdef int _take_records(self, list records, Py_ssize_t records_max) except -1:
        cdef Cursor cursor
        cdef RecordFields fields
        cdef RecordStatus status = RECORD_OK
        cdef int64_t offset
        cdef Py_ssize_t remaining = records_max - len(records)
        while self._left and remaining > 0:
            cursor = self._cursor
            status = take_record(&cursor, &fields)
            if status == RECORD_OK and self._is_out_of_range(&fields):
                status = OFFSET_OUT_OF_RANGE
            if status != RECORD_OK:
                break
            offset = self._base_offset + fields.offset_delta
            if offset >= self.next_offset:
                records.append(self._record(&fields, offset))
                self.next_offset = offset + 1
                remaining -= 1
            self._cursor = cursor
            self._left -= 1
        return self._end_batch(status)

    cdef ConsumerRecord _record(self, RecordFields *fields, int64_t offset):
        cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
        record.topic = self.topic
        record.key = field_bytes(fields.key, fields.key_size)
        record.value = field_bytes(fields.value, fields.value_size)
        record.headers = read_record_headers(fields) if fields.header_count else NO_HEADERS
        record.offset = offset
        record.timestamp = timestamp_of(fields, self._timestamp, self._fixed)
        record.partition = self.partition
        record.leader_epoch = self.leader_epoch
        record.serialized_key_size = fields.key_size if fields.key_size >= 0 else -1
        record.serialized_value_size = fields.value_size if fields.value_size >= 0 else -1
        record._timestamp_type = self._timestamp_type
        return record

    cdef object _next_message(self):
        """Return the next record of a message to deliver; None at its end or if it is corrupt."""
        record, self._pending = self._pending, None
        if record is not None:
            return record
        try:
            for message in self._messages:
                record = message.record
                # Some producers leave the wrapper offset at 0; inner offsets are then unrelated to it.
                if record.offset > (self._last_offset or INT64_MAX - 1):
                    reason = f"inner offset {record.offset} exceeds the wrapper's {self._last_offset}"
                    self._fail(ErrorCode.CORRUPT_MESSAGE, reason)
                    return None
                if record.offset >= self.next_offset:
                    return record
        except BrokerError as error:
            self._fail(error.code, error.message)
            return None
        self._leave(self._last_offset)
        return None

    cdef int _take_messages(self, list records, Py_ssize_t records_max) except -1:
        while len(records) < records_max:
            record = self._next_message()
            if record is None:
                return 0
            offset, timestamp, key, value, headers = record
            records.append(ConsumerRecord(
                self.topic, self.partition, offset, timestamp, TIMESTAMP_TYPES[self._timestamp_type + 1], key, value,
                headers, -1, -1 if key is None else len(key), -1 if value is None else len(value),
            ))
            self.next_offset = offset + 1
        return 0

    # ---- columns ----

    def take_columns(self, Py_ssize_t records_max, ColumnBuilder into not None, int64_t stop_offset=INT64_MAX):
        cdef Py_ssize_t before = into._buffers.row_count
        cdef Py_ssize_t remaining = records_max
        cdef RowStatus row_status = ROW_ADDED
        cdef int32_t topic_index
        cdef Py_ssize_t topic_count = len(into._topics)
        self._begin()
        try:
            if into._busy:
                raise ConcurrentUse("columns are in use by another thread")
            into._busy = True
            try:
                while (
                    remaining > 0 and row_status == ROW_ADDED and self.next_offset < stop_offset
                    and (self._in_batch or self._open_next(stop_offset))
                ):
                    topic_index = into.topic_index(self.topic)
                    if self._messages is None:
                        row_status = self._fill_records(&into._buffers, topic_index, remaining, stop_offset)
                    else:
                        row_status = self._fill_messages(&into._buffers, topic_index, remaining, stop_offset)
                    remaining = records_max - (into._buffers.row_count - before)
                    if self._failure is not None:
                        break
                if self._failure is None and not self._in_batch:
                    self._look_ahead()
            finally:
                into._busy = False
                if into._buffers.row_count == before:
                    into.keep_topics(topic_count)
        finally:
            self._busy = False
        if row_status == ROW_LOST:
            raise MemoryError
        if self._failure is not None and records_max > 0 and into._buffers.row_count == before:
            self._raise_failure()
        return into._buffers.row_count - before

    cdef RowStatus _fill_records(
        self, ColumnBuffers *buffers, int32_t topic_index, Py_ssize_t remaining, int64_t stop_offset
    ) except? ROW_LOST:
        cdef RecordStatus status = RECORD_OK
        cdef RowStatus row_status
        cdef RowOrigin origin
        cdef Py_ssize_t content_bytes = self._cursor.end - self._cursor.p
        cdef Py_ssize_t bytes_left = self._fetched.view.len - self._position + content_bytes
        # Estimated from the records of this batch.
        cdef Py_ssize_t record_bytes = max(content_bytes / max(self._left, 1), 1)
        cdef Py_ssize_t rows_max = min(min(remaining, self._left), content_bytes // RECORD_BYTES_MIN + 1)
        origin.topic_index = topic_index
        origin.partition = self.partition
        origin.timestamp_type = self._timestamp_type
        reuse_blocks(buffers, min(bytes_left, record_bytes * remaining), min(bytes_left / record_bytes, remaining))
        with nogil:
            row_status = ROW_LOST
            if reserve_rows(buffers, rows_max):
                row_status = self._fill(buffers, &origin, rows_max, stop_offset, &status)
        self._end_batch(status)
        return row_status

    cdef RowStatus _fill(
        self, ColumnBuffers *buffers, const RowOrigin *origin, Py_ssize_t remaining, int64_t stop_offset,
        RecordStatus *status
    ) noexcept nogil:
        cdef Cursor cursor
        cdef RecordFields fields
        cdef int64_t offset, timestamp
        cdef RowStatus row_status = ROW_ADDED
        while self._left and remaining > 0 and self.next_offset < stop_offset:
            cursor = self._cursor
            status[0] = take_record(&cursor, &fields)
            if status[0] == RECORD_OK and self._is_out_of_range(&fields):
                status[0] = OFFSET_OUT_OF_RANGE
            if status[0] != RECORD_OK:
                break
            offset = self._base_offset + fields.offset_delta
            if offset >= stop_offset:
                # No record is left before ``stop_offset``.
                self.next_offset = stop_offset
                return ROW_BEYOND
            if offset >= self.next_offset:
                timestamp = timestamp_of(&fields, self._timestamp, self._fixed)
                row_status = add_row(buffers, origin, offset, timestamp, &fields)
                if row_status != ROW_ADDED:
                    break
                self.next_offset = offset + 1
                remaining -= 1
            self._cursor = cursor
            self._left -= 1
        return row_status

    cdef RowStatus _fill_messages(
        self, ColumnBuffers *buffers, int32_t topic_index, Py_ssize_t remaining, int64_t stop_offset
    ) except? ROW_LOST:
        cdef RecordFields fields
        cdef RowStatus row_status = ROW_ADDED
        cdef RowOrigin origin
        origin.topic_index = topic_index
        origin.partition = self.partition
        origin.timestamp_type = self._timestamp_type
        while remaining > 0 and self.next_offset < stop_offset:
            record = self._next_message()
            if record is None:
                return ROW_ADDED
            offset, timestamp, key, value, _ = record
            if offset >= stop_offset:
                self._pending = record
                self.next_offset = stop_offset
                return ROW_BEYOND
            fields.header_count = 0
            fields.key = <const uint8_t *>PyBytes_AS_STRING(key or b"")
            fields.key_size = -1 if key is None else <int32_t>len(key)
            fields.value = <const uint8_t *>PyBytes_AS_STRING(value or b"")
            fields.value_size = -1 if value is None else <int32_t>len(value)
            # Size only: fields of messages are not adjacent.
            fields.end = fields.key + max(fields.key_size, fields.value_size, 0)
            fields.headers = fields.end
            row_status = add_row(buffers, &origin, offset, timestamp, &fields) if reserve_rows(buffers, 1) else ROW_LOST
            if row_status != ROW_ADDED:
                self._pending = record
                return row_status
            self.next_offset = offset + 1
            remaining -= 1
        return ROW_ADDED
