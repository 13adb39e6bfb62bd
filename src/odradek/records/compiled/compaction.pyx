# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Offset map of the cleaner and compaction of plain batches; ``pure.offset_map`` and ``pure.batch_filter`` are the
specification.

The map has slots of 24 bytes with open addressing. Batches are read without the interpreter lock; a map in use is
marked busy, so that its memory is not freed meanwhile. Retained records are copied to memory of this module and
appended to the caller's bytearray at the end. They are marked by one bit each and written after the whole batch was
examined, because only then its base timestamp is known.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from odradek.records.compiled.record_batch cimport (
    APPEND_TIME_BIT, BATCH_OVERHEAD, CODEC_MASK, CONTROL_BIT, CRC_START, LOG_OVERHEAD, RECORD_OK, TRANSACTIONAL_BIT,
    Cursor, RecordFields, RecordRules, ScanResult, odr_int32, odr_int64, odr_put, odr_saturated_sum,
    odr_wrapped_difference, odr_wrapped_sum, put_varint, read_header, scan_all, take_int32, take_int64, take_record,
    timestamp_of, update_crc, varint_size, write_max_timestamp,
)

from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.layout import FilteredRecords, FilterResult


cdef extern from "include/siphash.h":
    ctypedef struct Hash "odr_hash":
        uint64_t a
        uint64_t b
    Hash odr_siphash(Hash seed, const uint8_t *p, size_t n) nogil
    uint64_t odr_little(const uint8_t *p, size_t n) nogil

cdef extern from *:
    """
    /* Maps a hash to a number below n: the upper half of the product is as uniform as the hash. */
    static uint64_t odr_share(uint64_t hash, uint64_t n) { return (uint64_t)(((unsigned __int128)hash * n) >> 64); }
    """
    uint64_t odr_share(uint64_t hash, uint64_t n) nogil

cdef enum BatchStatus:
    BATCH_OK
    INCOMPLETE
    NOT_PLAIN
    MAP_FULL
    TOO_SMALL
    UNKNOWN_MAGIC
    SHORT_HEADER
    BAD_CRC
    BAD_RECORDS
    NO_MEMORY

_STATUS_MESSAGES = {
    TOO_SMALL: "size of a batch is below the minimum",
    UNKNOWN_MAGIC: "unknown magic",
    SHORT_HEADER: "size of a batch is below that of its header",
    BAD_CRC: "CRC of a batch does not match its bytes",
    BAD_RECORDS: "records of a batch do not match its header",
}


cdef object batch_error(BatchStatus status, Py_ssize_t position):
    if status == NO_MEMORY:
        return MemoryError()
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{_STATUS_MESSAGES[status]}, at position {position}")


cdef BatchStatus batch_status(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Check by size and header whether a complete plain batch starts here."""
    cdef int64_t size
    if left < LOG_OVERHEAD:
        return INCOMPLETE
    size = odr_int32(p + 8)
    if size < 14:
        return TOO_SMALL
    if left <= LOG_OVERHEAD + 4:
        return INCOMPLETE
    if p[16] > 2:
        return UNKNOWN_MAGIC
    if left < size + LOG_OVERHEAD:
        return INCOMPLETE
    if p[16] < 2:
        return SHORT_HEADER if size < (22 if p[16] else 14) else NOT_PLAIN
    if size < BATCH_OVERHEAD - LOG_OVERHEAD:
        return SHORT_HEADER
    return NOT_PLAIN if p[22] & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT) else BATCH_OK


cdef inline bint has_valid_crc(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    return update_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)


def header_at(buffer, Py_ssize_t position):
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef BatchStatus status
    if position < 0:
        raise ValueError(f"position must be >= 0, got {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf + position
        status = batch_status(p, view.len - position)
        if status == INCOMPLETE:
            return None
        if status != BATCH_OK and status != NOT_PLAIN:
            raise batch_error(status, position)
        return read_header(p, position, odr_int32(p + 8))
    finally:
        PyBuffer_Release(&view)


# ---- offset map ----

cdef Hash read_seed(bytes seed) except *:
    cdef Hash hash
    if len(seed) != 16:
        raise ValueError(f"seed must have 16 bytes, got {len(seed)}")
    hash.a = odr_little(<const uint8_t *>PyBytes_AS_STRING(seed), 8)
    hash.b = odr_little(<const uint8_t *>PyBytes_AS_STRING(seed) + 8, 8)
    return hash


def siphash(bytes data not None, bytes seed not None):
    """Hash of the map, for tests against published vectors."""
    cdef Hash hash = odr_siphash(read_seed(seed), <const uint8_t *>PyBytes_AS_STRING(data), len(data))
    return int(hash.a).to_bytes(8, "little") + int(hash.b).to_bytes(8, "little")


cdef struct Slot:
    Hash hash
    # Offset + 1, so that zeroed memory is an empty map.
    uint64_t after

cdef struct MapTable:
    Slot *slots
    uint64_t size
    uint64_t count
    int64_t latest
    Hash seed


cdef Slot *find_slot(const MapTable *table, const uint8_t *key, Py_ssize_t size, Hash *hash) noexcept nogil:
    """Return the slot of the key, or the free slot for it; NULL if the key is unknown and the map full."""
    cdef uint64_t index, probed
    cdef Slot *slot
    hash[0] = odr_siphash(table.seed, key, size)
    index = odr_share(hash.a, table.size)
    for probed in range(table.size):
        slot = table.slots + index
        if not slot.after or (slot.hash.a == hash.a and slot.hash.b == hash.b):
            return slot
        index += 1
        if index == table.size:
            index = 0
    return NULL


cdef bint put_key(MapTable *table, const uint8_t *key, Py_ssize_t size, int64_t offset) noexcept nogil:
    """Store the offset unless the key has a later one; False if the map is full."""
    cdef Hash hash
    cdef Slot *slot = find_slot(table, key, size, &hash)
    if slot == NULL:
        return False
    if not slot.after:
        slot.hash = hash
        table.count += 1
    if <uint64_t>offset + 1 > slot.after:
        slot.after = <uint64_t>offset + 1
    if offset > table.latest:
        table.latest = offset
    return True


cdef inline int64_t latest_offset_of(const MapTable *table, const uint8_t *key, Py_ssize_t size) noexcept nogil:
    cdef Hash hash
    cdef Slot *slot = find_slot(table, key, size, &hash)
    return -1 if slot == NULL else <int64_t>(slot.after - 1)


cdef struct PutRange:
    int64_t base_offset
    int64_t from_offset
    int64_t count_max
    int32_t count


cdef BatchStatus put_batch_records(
    MapTable *table, const uint8_t *p, Py_ssize_t size, const PutRange *put_range
) noexcept nogil:
    """Put the keys of records from ``from_offset`` on, after checking all of them."""
    cdef Cursor cursor
    cdef RecordFields fields
    cdef int64_t offset
    cdef int32_t index
    cdef bint may_overflow = put_range.count > put_range.count_max - <int64_t>table.count
    cdef RecordRules rules
    cdef ScanResult scan
    rules.base_timestamp = rules.earliest = rules.latest = 0
    rules.fixed = True
    rules.compacted = False
    if put_range.count < 0 or scan_all(p, size, put_range.count, &rules, &scan) != RECORD_OK:
        return BAD_RECORDS
    if may_overflow and table.count:
        return MAP_FULL
    cursor.p = p
    cursor.end = p + size
    for index in range(put_range.count):
        take_record(&cursor, &fields)
        offset = odr_wrapped_sum(put_range.base_offset, fields.offset_delta)
        if fields.key_size < 0 or offset < put_range.from_offset:
            continue
        if <int64_t>table.count >= put_range.count_max:
            return MAP_FULL
        put_key(table, fields.key, fields.key_size, offset)
    return BATCH_OK


cdef BatchStatus put_plain_batch(MapTable *table, const uint8_t *p, PutRange *put_range) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t>odr_int32(p + 8) + LOG_OVERHEAD
    cdef int64_t last_offset
    cdef BatchStatus status
    put_range.base_offset = odr_int64(p)
    put_range.count = odr_int32(p + 57)
    last_offset = odr_wrapped_sum(put_range.base_offset, odr_int32(p + 23))
    if last_offset < put_range.from_offset:
        return BATCH_OK
    if not has_valid_crc(p, size):
        return BAD_CRC
    status = put_batch_records(table, p + BATCH_OVERHEAD, size - BATCH_OVERHEAD, put_range)
    if status == BATCH_OK and last_offset > table.latest:
        table.latest = last_offset
    return status


cdef BatchStatus put_all(
    MapTable *table, const uint8_t *start, Py_ssize_t end, Py_ssize_t *position, PutRange *put_range
) noexcept nogil:
    cdef BatchStatus status
    while True:
        status = batch_status(start + position[0], end - position[0])
        if status == BATCH_OK:
            status = put_plain_batch(table, start + position[0], put_range)
        if status != BATCH_OK:
            return status
        position[0] += <Py_ssize_t>odr_int32(start + position[0] + 8) + LOG_OVERHEAD


cdef class OffsetMap:
    cdef MapTable _table
    cdef bint _busy

    def __cinit__(self, int64_t slots, bytes seed not None):
        if slots < 1:
            raise ValueError(f"slots must be >= 1, got {slots}")
        self._table.seed = read_seed(seed)
        self._table.size = slots
        self._table.latest = -1
        self._table.slots = <Slot *>calloc(slots, sizeof(Slot))
        if self._table.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._table.slots)

    @property
    def slots(self):
        return self._table.size

    @property
    def count(self):
        return self._table.count

    @property
    def latest_offset(self):
        return self._table.latest

    cdef int _acquire(self) except -1:
        if self._busy:
            raise RuntimeError("the map is in use by another thread")
        self._busy = True
        return 0

    def put(self, key, int64_t offset):
        cdef Py_buffer view
        cdef bint was_put
        if offset < 0:
            raise ValueError(f"offset must be >= 0, got {offset}")
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        try:
            self._acquire()
            was_put = put_key(&self._table, <const uint8_t *>view.buf, view.len, offset)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if not was_put:
            raise ValueError(f"map is full: all {self._table.size} slots are used")

    def get(self, key):
        cdef Py_buffer view
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        offset = latest_offset_of(&self._table, <const uint8_t *>view.buf, view.len)
        PyBuffer_Release(&view)
        return offset

    def update_latest_offset(self, int64_t offset):
        self._table.latest = max(self._table.latest, offset)

    def clear(self):
        # New memory instead of zeroing: untouched pages cost nothing.
        cdef Slot *fresh
        self._acquire()
        fresh = <Slot *>calloc(self._table.size, sizeof(Slot))
        self._busy = False
        if fresh == NULL:
            raise MemoryError
        free(self._table.slots)
        self._table.slots = fresh
        self._table.count = 0
        self._table.latest = -1

    def put_batches(self, buffer, Py_ssize_t position, int64_t from_offset, int64_t count_max):
        cdef Py_buffer view
        cdef PutRange put_range
        cdef BatchStatus status
        if position < 0:
            raise ValueError(f"position must be >= 0, got {position}")
        put_range.from_offset = max(from_offset, 0)
        put_range.count_max = min(count_max, <int64_t>self._table.size)
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            self._acquire()
            with nogil:
                status = put_all(&self._table, <const uint8_t *>view.buf, view.len, &position, &put_range)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if status > MAP_FULL:
            raise batch_error(status, position)
        return position

    def put_records(self, records, int32_t count, int64_t base_offset, int64_t from_offset, int64_t count_max):
        cdef Py_buffer view
        cdef PutRange put_range
        cdef BatchStatus status
        put_range.base_offset = base_offset
        put_range.count = count
        put_range.from_offset = max(from_offset, 0)
        put_range.count_max = min(count_max, <int64_t>self._table.size)
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        try:
            self._acquire()
            with nogil:
                status = put_batch_records(&self._table, <const uint8_t *>view.buf, view.len, &put_range)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if status == BAD_RECORDS:
            raise batch_error(status, 0)
        return status == BATCH_OK


# ---- filtering batches ----

cdef enum:
    DELETE_HORIZON_BIT = 0x40
    DEFINED_ATTRIBUTES = 0x7F


cdef struct Batch:
    # Header fields used to select records.
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t count
    bint fixed
    bint has_horizon

cdef struct FilterBuffers:
    # Memory reused for all batches: marks of retained records, and the output.
    uint8_t *marks
    Py_ssize_t marks_capacity
    uint8_t *out
    Py_ssize_t out_size
    Py_ssize_t out_capacity

cdef struct FilterTime:
    int64_t now
    int64_t horizon

cdef struct BatchResult:
    int64_t count
    int64_t tombstones
    int64_t keyless
    int64_t first_timestamp
    int64_t base_timestamp
    int64_t max_timestamp
    bint changed
    bint sets_delete_horizon


cdef bint clear_marks(FilterBuffers *buffers, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t size = (count + 7) // 8
    cdef uint8_t *resized
    if size > buffers.marks_capacity:
        resized = <uint8_t *>realloc(buffers.marks, size)
        if resized == NULL:
            return False
        buffers.marks = resized
        buffers.marks_capacity = size
    if size:
        memset(buffers.marks, 0, size)
    return True


cdef bint reserve_out(FilterBuffers *buffers, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t needed = buffers.out_size + more
    cdef uint8_t *resized
    if needed <= buffers.out_capacity:
        return True
    needed = max(needed, 2 * buffers.out_capacity)
    resized = <uint8_t *>realloc(buffers.out, needed)
    if resized == NULL:
        return False
    buffers.out = resized
    buffers.out_capacity = needed
    return True


cdef inline bint is_retained(
    const MapTable *table, const RecordFields *fields, int64_t offset, bint drops_tombstones, BatchResult *result
) noexcept nogil:
    if table == NULL or offset > table.latest:
        return True
    if fields.key_size < 0:
        result.keyless += 1
        return False
    if fields.value_size < 0 and drops_tombstones:
        return False
    return offset >= latest_offset_of(table, fields.key, fields.key_size)


cdef BatchStatus select_records(
    const MapTable *table, Cursor cursor, const Batch *batch, const FilterTime *time, FilterBuffers *buffers,
    BatchResult *result
) noexcept nogil:
    """Mark the retained records, and collect the fields of the new header."""
    cdef RecordFields fields
    cdef int64_t timestamp
    cdef int32_t index
    cdef int64_t timestamp_base = batch.max_timestamp if batch.fixed else batch.base_timestamp
    cdef bint drops_tombstones = batch.has_horizon and batch.base_timestamp <= time.now
    result.count = result.tombstones = result.keyless = 0
    result.first_timestamp = result.max_timestamp = -1
    # A record has at least one byte: a wrong count must not allocate memory.
    if batch.count < 0 or batch.count > cursor.end - cursor.p:
        return BAD_RECORDS
    if not clear_marks(buffers, batch.count):
        return NO_MEMORY
    for index in range(batch.count):
        if take_record(&cursor, &fields) != RECORD_OK:
            return BAD_RECORDS
        if not is_retained(
            table, &fields, odr_wrapped_sum(batch.base_offset, fields.offset_delta), drops_tombstones, result
        ):
            continue
        buffers.marks[index >> 3] |= <uint8_t>(1 << (index & 7))
        timestamp = timestamp_of(&fields, timestamp_base, batch.fixed)
        if not result.count:
            result.first_timestamp = timestamp
        result.count += 1
        result.tombstones += fields.value_size < 0
        result.max_timestamp = max(result.max_timestamp, timestamp)
    return BATCH_OK if cursor.p == cursor.end else BAD_RECORDS


cdef void finish_result(
    const Batch *batch, const FilterTime *time, bint wants_horizon, BatchResult *result
) noexcept nogil:
    """Set the timestamps of the new batch, and whether it differs from the old one."""
    result.sets_delete_horizon = (result.tombstones > 0 or wants_horizon) and not batch.has_horizon and result.count > 0
    result.changed = result.count != batch.count or result.sets_delete_horizon
    if batch.fixed:
        result.max_timestamp = batch.max_timestamp
    result.base_timestamp = batch.base_timestamp
    if result.sets_delete_horizon:
        result.base_timestamp = time.horizon
    elif not batch.has_horizon and result.count:
        result.base_timestamp = result.first_timestamp


cdef uint8_t *write_record(uint8_t *p, Cursor *cursor, const Batch *batch, int64_t base_timestamp) noexcept nogil:
    """Write a record read up to its size, with its timestamp relative to another base."""
    cdef uint8_t attributes = cursor.p[0]
    cdef int64_t delta = 0
    cdef int32_t offset_delta = 0
    cdef Py_ssize_t body
    cursor.p += 1
    take_int64(cursor, &delta)
    take_int32(cursor, &offset_delta)
    delta = batch.max_timestamp if batch.fixed else odr_wrapped_sum(batch.base_timestamp, delta)
    delta = odr_wrapped_difference(delta, base_timestamp)
    body = cursor.end - cursor.p
    p = put_varint(p, 1 + varint_size(delta) + varint_size(offset_delta) + body)
    p[0] = attributes
    p = put_varint(put_varint(p + 1, delta), offset_delta)
    memcpy(p, cursor.p, body)
    return p + body


cdef BatchStatus write_retained(
    Cursor records, const Batch *batch, const BatchResult *result, FilterBuffers *buffers
) noexcept nogil:
    """Write the marked records relative to the new base timestamp."""
    cdef Cursor cursor
    cdef const uint8_t *start
    cdef uint8_t *p
    cdef int32_t index
    cdef int32_t size = 0
    cdef bint unchanged = not batch.fixed and result.base_timestamp == batch.base_timestamp
    for index in range(batch.count):
        start = records.p
        take_int32(&records, &size)
        cursor.p = records.p
        cursor.end = records.p + size
        records.p = cursor.end
        if not buffers.marks[index >> 3] >> (index & 7) & 1:
            continue
        # Size, attributes and both deltas have at most 5 + 1 + 10 + 5 bytes.
        if not reserve_out(buffers, cursor.end - start + 21):
            return NO_MEMORY
        p = buffers.out + buffers.out_size
        if unchanged:
            memcpy(p, start, cursor.end - start)
            buffers.out_size += cursor.end - start
        else:
            buffers.out_size = write_record(p, &cursor, batch, result.base_timestamp) - buffers.out
    return BATCH_OK


cdef Batch read_batch(const uint8_t *p) noexcept nogil:
    cdef Batch batch
    batch.base_offset = odr_int64(p)
    batch.base_timestamp = odr_int64(p + 27)
    batch.max_timestamp = odr_int64(p + 35)
    batch.count = odr_int32(p + 57)
    batch.fixed = bool(p[22] & APPEND_TIME_BIT)
    batch.has_horizon = bool(p[22] & DELETE_HORIZON_BIT)
    return batch


cdef bint copy_out(FilterBuffers *buffers, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    if not reserve_out(buffers, size):
        return False
    memcpy(buffers.out + buffers.out_size, p, size)
    buffers.out_size += size
    return True


cdef void finish_batch(uint8_t *p, Py_ssize_t size, int attributes, const BatchResult *result) noexcept nogil:
    """Update a copied header for the records that follow it."""
    odr_put(p + 8, <uint64_t>(size - LOG_OVERHEAD), 4)
    odr_put(p + 27, <uint64_t>result.base_timestamp, 8)
    odr_put(p + 57, <uint64_t>result.count, 4)
    write_max_timestamp(p, size, attributes & DEFINED_ATTRIBUTES, result.max_timestamp)


cdef BatchStatus write_batch(
    const uint8_t *p, Cursor records, const Batch *batch, const BatchResult *result, FilterBuffers *buffers
) noexcept nogil:
    cdef Py_ssize_t start = buffers.out_size
    cdef int attributes = p[22]
    if not copy_out(buffers, p, BATCH_OVERHEAD) or write_retained(records, batch, result, buffers) != BATCH_OK:
        return NO_MEMORY
    if result.sets_delete_horizon:
        attributes |= DELETE_HORIZON_BIT
    finish_batch(buffers.out + start, buffers.out_size - start, attributes, result)
    return BATCH_OK


cdef BatchStatus write_empty(const uint8_t *p, const Batch *batch, FilterBuffers *buffers) noexcept nogil:
    """Write a header without records, which keeps the producer's last sequence and epoch."""
    cdef BatchResult empty
    empty.count = 0
    empty.base_timestamp = -1
    empty.max_timestamp = batch.max_timestamp
    if not copy_out(buffers, p, BATCH_OVERHEAD):
        return NO_MEMORY
    finish_batch(
        buffers.out + buffers.out_size - BATCH_OVERHEAD, BATCH_OVERHEAD, p[22] & ~DELETE_HORIZON_BIT, &empty
    )
    return BATCH_OK


cdef struct FilterCounts:
    int64_t batches_read
    int64_t records_read
    int64_t batches_kept
    int64_t records_kept
    int64_t tombstones_kept
    int64_t keyless_dropped
    int64_t last_offset
    Py_ssize_t last_batch_position
    int64_t max_timestamp
    int64_t offset_of_max_timestamp

cdef struct SortedOffsets:
    const int64_t *start
    Py_ssize_t count


cdef bint contains(const SortedOffsets *sorted_offsets, int64_t needed) noexcept nogil:
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = sorted_offsets.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if sorted_offsets.start[middle] < needed:
            low = middle + 1
        else:
            high = middle
    return low < sorted_offsets.count and sorted_offsets.start[low] == needed


cdef void count_batch(
    FilterCounts *counts, int64_t last_offset, Py_ssize_t position, const BatchResult *result
) noexcept nogil:
    counts.batches_kept += 1
    counts.records_kept += result.count
    counts.tombstones_kept += result.tombstones
    counts.last_offset = last_offset
    counts.last_batch_position = position
    if result.max_timestamp > counts.max_timestamp:
        counts.max_timestamp = result.max_timestamp
        counts.offset_of_max_timestamp = last_offset


cdef BatchStatus filter_plain_batch(
    const MapTable *table, const uint8_t *p, const SortedOffsets *kept_last, const FilterTime *time,
    FilterBuffers *buffers, FilterCounts *counts
) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t>odr_int32(p + 8) + LOG_OVERHEAD
    cdef Batch batch = read_batch(p)
    cdef int64_t last_offset = odr_wrapped_sum(batch.base_offset, odr_int32(p + 23))
    cdef Py_ssize_t start = buffers.out_size
    cdef BatchResult result
    cdef Cursor cursor
    cdef BatchStatus status
    if not has_valid_crc(p, size):
        return BAD_CRC
    cursor.p = p + BATCH_OVERHEAD
    cursor.end = p + size
    status = select_records(table, cursor, &batch, time, buffers, &result)
    if status != BATCH_OK:
        return status
    finish_result(&batch, time, False, &result)
    counts.batches_read += 1
    counts.records_read += batch.count
    counts.keyless_dropped += result.keyless
    if not result.count:
        if odr_int64(p + 43) < 0 or not contains(kept_last, last_offset):
            return BATCH_OK
        result.max_timestamp = batch.max_timestamp
        status = write_empty(p, &batch, buffers)
    elif result.changed:
        status = write_batch(p, cursor, &batch, &result, buffers)
    else:
        result.max_timestamp = batch.max_timestamp
        status = BATCH_OK if copy_out(buffers, p, size) else NO_MEMORY
    count_batch(counts, last_offset, start, &result)
    return status


cdef BatchStatus filter_all(
    const MapTable *table, Cursor cursor, Py_ssize_t *bytes_read, const SortedOffsets *kept_last,
    const FilterTime *time, FilterBuffers *buffers,
    FilterCounts *counts
) noexcept nogil:
    cdef BatchStatus status
    while True:
        status = batch_status(cursor.p + bytes_read[0], cursor.end - cursor.p - bytes_read[0])
        if status == BATCH_OK:
            status = filter_plain_batch(table, cursor.p + bytes_read[0], kept_last, time, buffers, counts)
        if status != BATCH_OK:
            return status
        bytes_read[0] += <Py_ssize_t>odr_int32(cursor.p + bytes_read[0] + 8) + LOG_OVERHEAD


cdef int append_output(FilterBuffers *buffers, object out) except -1:
    """Append the output to a bytearray."""
    cdef Py_buffer view
    cdef Py_ssize_t before = len(out)
    if not buffers.out_size:
        return 0
    PyByteArray_Resize(out, before + buffers.out_size)
    PyObject_GetBuffer(out, &view, PyBUF_SIMPLE)
    with nogil:
        memcpy(<uint8_t *>view.buf + before, buffers.out, buffers.out_size)
    PyBuffer_Release(&view)
    return 0


cdef FilterTime filter_time(int64_t now_ms, int64_t delete_retention_ms) noexcept:
    cdef FilterTime time
    time.now = now_ms
    time.horizon = odr_saturated_sum(now_ms, delete_retention_ms)
    return time


def filter_batches(
    buffer,
    Py_ssize_t position,
    OffsetMap keys not None,
    kept_last_offsets,
    int64_t now_ms,
    int64_t delete_retention_ms,
    bytearray out not None,
):
    cdef Py_buffer view, offsets_view
    cdef SortedOffsets kept_last
    cdef FilterTime time = filter_time(now_ms, delete_retention_ms)
    cdef FilterBuffers buffers
    cdef FilterCounts counts
    cdef BatchStatus status
    cdef Cursor cursor
    cdef Py_ssize_t bytes_read = 0
    cdef Py_ssize_t before = len(out)
    if position < 0:
        raise ValueError(f"position must be >= 0, got {position}")
    memset(&buffers, 0, sizeof(buffers))
    memset(&counts, 0, sizeof(counts))
    counts.last_offset = counts.last_batch_position = counts.max_timestamp = counts.offset_of_max_timestamp = -1
    PyObject_GetBuffer(kept_last_offsets, &offsets_view, PyBUF_SIMPLE)
    kept_last.start = <const int64_t *>offsets_view.buf
    kept_last.count = offsets_view.len // 8
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            keys._acquire()
            cursor.p = <const uint8_t *>view.buf + position
            cursor.end = <const uint8_t *>view.buf + view.len
            with nogil:
                status = filter_all(&keys._table, cursor, &bytes_read, &kept_last, &time, &buffers, &counts)
            keys._busy = False
        finally:
            PyBuffer_Release(&view)
        if status > MAP_FULL:
            raise batch_error(status, position + bytes_read)
        append_output(&buffers, out)
    finally:
        PyBuffer_Release(&offsets_view)
        free(buffers.marks)
        free(buffers.out)
    return FilterResult(
        position + bytes_read,
        bytes_read,
        counts.batches_read,
        counts.records_read,
        buffers.out_size,
        counts.batches_kept,
        counts.records_kept,
        counts.tombstones_kept,
        counts.keyless_dropped,
        counts.last_offset,
        counts.last_batch_position if counts.last_batch_position < 0 else before + counts.last_batch_position,
        counts.max_timestamp,
        counts.offset_of_max_timestamp,
    )


def filter_records(
    records,
    header,
    OffsetMap keys,
    int64_t now_ms,
    int64_t delete_retention_ms,
    bint wants_horizon,
):
    cdef Py_buffer view
    cdef FilterTime time = filter_time(now_ms, delete_retention_ms)
    cdef Batch batch
    cdef FilterBuffers buffers
    cdef BatchResult result
    cdef Cursor cursor
    cdef BatchStatus status
    cdef const MapTable *table = NULL if keys is None else &keys._table
    batch.base_offset = header.base_offset
    batch.base_timestamp = header.base_timestamp
    batch.max_timestamp = header.max_timestamp
    batch.count = header.count
    batch.fixed = bool(header.attributes & APPEND_TIME_BIT)
    batch.has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
    memset(&buffers, 0, sizeof(buffers))
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if keys is not None:
            keys._acquire()
        cursor.p = <const uint8_t *>view.buf
        cursor.end = cursor.p + view.len
        with nogil:
            status = select_records(table, cursor, &batch, &time, &buffers, &result)
            if status == BATCH_OK:
                finish_result(&batch, &time, wants_horizon, &result)
                if result.changed:
                    status = write_retained(cursor, &batch, &result, &buffers)
        if keys is not None:
            keys._busy = False
        if status != BATCH_OK:
            raise batch_error(status, 0)
        encoded = PyBytes_FromStringAndSize(<char *>buffers.out, buffers.out_size) if result.changed else None
    finally:
        PyBuffer_Release(&view)
        free(buffers.marks)
        free(buffers.out)
    return FilteredRecords(
        encoded, result.count, result.base_timestamp, result.max_timestamp, bool(result.sets_delete_horizon)
    )
