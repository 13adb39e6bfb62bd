# What stays of batches when a log is compacted; ``_sifting_py`` says what every function means. Part of
# ``_codec``, after the map of keys.
#
# Records are judged and copied without the interpreter lock: what is kept goes to memory of ours, and to the
# caller's bytearray at the end. A record that stays is remembered by one bit, however many there are, and
# written when the whole batch is judged, because only then its base timestamp is known.

cdef enum:
    DELETE_HORIZON_BIT = 0x40
    KNOWN_BITS = 0x7F


cdef struct Batch:
    # As far as judging its records needs it.
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t count
    bint fixed
    bint has_horizon

cdef struct Piles:
    # Memory that serves batch after batch: which records stay, and what was made.
    uint8_t *marks
    Py_ssize_t marks_room
    uint8_t *out
    Py_ssize_t out_size
    Py_ssize_t out_room

cdef struct Time:
    int64_t now
    int64_t horizon

cdef struct Result:
    int64_t count
    int64_t tombstones
    int64_t keyless
    int64_t first_timestamp
    int64_t base_timestamp
    int64_t max_timestamp
    bint changed
    bint sets_horizon


cdef bint clear_marks(Piles *piles, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t size = (count + 7) // 8
    cdef uint8_t *moved
    if size > piles.marks_room:
        moved = <uint8_t *>realloc(piles.marks, size)
        if moved == NULL:
            return False
        piles.marks = moved
        piles.marks_room = size
    if size:
        memset(piles.marks, 0, size)
    return True


cdef bint reserve_out(Piles *piles, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t wanted = piles.out_size + more
    cdef uint8_t *moved
    if wanted <= piles.out_room:
        return True
    wanted = max(wanted, 2 * piles.out_room)
    moved = <uint8_t *>realloc(piles.out, wanted)
    if moved == NULL:
        return False
    piles.out = moved
    piles.out_room = wanted
    return True


cdef inline bint stays(
    const Table *table, const Parts *parts, int64_t offset, bint drops_tombstones, Result *result
) noexcept nogil:
    if table == NULL or offset > table.latest:
        return True
    if parts.key_size < 0:
        result.keyless += 1
        return False
    if parts.value_size < 0 and drops_tombstones:
        return False
    return offset >= newest(table, parts.key, parts.key_size)


cdef Standing judge(
    const Table *table, Cursor at, const Batch *batch, const Time *time, Piles *piles, Result *result
) noexcept nogil:
    """Mark the records that stay, and gather what their batch's new header needs."""
    cdef Parts parts
    cdef int64_t timestamp
    cdef int32_t index
    cdef int64_t given_timestamp = batch.max_timestamp if batch.fixed else batch.base_timestamp
    cdef bint drops_tombstones = batch.has_horizon and batch.base_timestamp <= time.now
    result.count = result.tombstones = result.keyless = 0
    result.first_timestamp = result.max_timestamp = -1
    # No record is smaller than a byte: a count that lies must not ask for memory.
    if batch.count < 0 or batch.count > at.end - at.p:
        return BAD_RECORDS
    if not clear_marks(piles, batch.count):
        return NO_MEMORY
    for index in range(batch.count):
        if take_record(&at, &parts) != FINE:
            return BAD_RECORDS
        if not stays(
            table, &parts, odr_wrapped_sum(batch.base_offset, parts.offset_delta), drops_tombstones, result
        ):
            continue
        piles.marks[index >> 3] |= <uint8_t>(1 << (index & 7))
        timestamp = timestamp_of(&parts, given_timestamp, batch.fixed)
        if not result.count:
            result.first_timestamp = timestamp
        result.count += 1
        result.tombstones += parts.value_size < 0
        result.max_timestamp = max(result.max_timestamp, timestamp)
    return TAKEN if at.p == at.end else BAD_RECORDS


cdef void conclude(const Batch *batch, const Time *time, bint wants_horizon, Result *result) noexcept nogil:
    """The times of the batch to be, and whether it differs from the one there is."""
    result.sets_horizon = (result.tombstones > 0 or wants_horizon) and not batch.has_horizon and result.count > 0
    result.changed = result.count != batch.count or result.sets_horizon
    if batch.fixed:
        result.max_timestamp = batch.max_timestamp
    result.base_timestamp = batch.base_timestamp
    if result.sets_horizon:
        result.base_timestamp = time.horizon
    elif not batch.has_horizon and result.count:
        result.base_timestamp = result.first_timestamp


cdef uint8_t *write_record(uint8_t *p, Cursor *at, const Batch *batch, int64_t base_timestamp) noexcept nogil:
    """Write the record that was read up to its size, with its timestamp against another base."""
    cdef uint8_t attributes = at.p[0]
    cdef int64_t delta = 0
    cdef int32_t offset_delta = 0
    cdef Py_ssize_t body
    at.p += 1
    take_int64(at, &delta)
    take_int32(at, &offset_delta)
    delta = batch.max_timestamp if batch.fixed else odr_wrapped_sum(batch.base_timestamp, delta)
    delta = odr_wrapped_difference(delta, base_timestamp)
    body = at.end - at.p
    p = put_varint(p, 1 + int64_size(delta) + int64_size(offset_delta) + body)
    p[0] = attributes
    p = put_varint(put_varint(p + 1, delta), offset_delta)
    memcpy(p, at.p, body)
    return p + body


cdef Standing write_kept(Cursor records, const Batch *batch, const Result *result, Piles *piles) noexcept nogil:
    """Write the records that stay, all of them judged, against the new base timestamp."""
    cdef Cursor at
    cdef const uint8_t *start
    cdef uint8_t *p
    cdef int32_t index
    cdef int32_t size = 0
    cdef bint verbatim = not batch.fixed and result.base_timestamp == batch.base_timestamp
    for index in range(batch.count):
        start = records.p
        take_int32(&records, &size)
        at.p = records.p
        at.end = records.p + size
        records.p = at.end
        if not piles.marks[index >> 3] >> (index & 7) & 1:
            continue
        # Size, attributes and both deltas have at most 5 + 1 + 10 + 5 bytes.
        if not reserve_out(piles, at.end - start + 21):
            return NO_MEMORY
        p = piles.out + piles.out_size
        if verbatim:
            memcpy(p, start, at.end - start)
            piles.out_size += at.end - start
        else:
            piles.out_size = write_record(p, &at, batch, result.base_timestamp) - piles.out
    return TAKEN


cdef Batch batch_of(const uint8_t *p) noexcept nogil:
    cdef Batch batch
    batch.base_offset = odr_int64(p)
    batch.base_timestamp = odr_int64(p + 27)
    batch.max_timestamp = odr_int64(p + 35)
    batch.count = odr_int32(p + 57)
    batch.fixed = bool(p[22] & APPEND_TIME_BIT)
    batch.has_horizon = bool(p[22] & DELETE_HORIZON_BIT)
    return batch


cdef bint copy_out(Piles *piles, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    if not reserve_out(piles, size):
        return False
    memcpy(piles.out + piles.out_size, p, size)
    piles.out_size += size
    return True


cdef void finish_batch(uint8_t *p, Py_ssize_t size, int attributes, const Result *result) noexcept nogil:
    """Make a copied header that of the records which now follow it."""
    odr_put(p + 8, <uint64_t>(size - LOG_OVERHEAD), 4)
    odr_put(p + 27, <uint64_t>result.base_timestamp, 8)
    odr_put(p + 57, <uint64_t>result.count, 4)
    stamp_batch(p, size, attributes & KNOWN_BITS, result.max_timestamp)


cdef Standing rewrite(
    const uint8_t *p, Cursor records, const Batch *batch, const Result *result, Piles *piles
) noexcept nogil:
    cdef Py_ssize_t start = piles.out_size
    cdef int attributes = p[22]
    if not copy_out(piles, p, BATCH_OVERHEAD) or write_kept(records, batch, result, piles) != TAKEN:
        return NO_MEMORY
    if result.sets_horizon:
        attributes |= DELETE_HORIZON_BIT
    finish_batch(piles.out + start, piles.out_size - start, attributes, result)
    return TAKEN


cdef Standing write_empty(const uint8_t *p, const Batch *batch, Piles *piles) noexcept nogil:
    """A header alone, which keeps a producer's last sequence and epoch."""
    cdef Result nothing
    nothing.count = 0
    nothing.base_timestamp = -1
    nothing.max_timestamp = batch.max_timestamp
    if not copy_out(piles, p, BATCH_OVERHEAD):
        return NO_MEMORY
    finish_batch(
        piles.out + piles.out_size - BATCH_OVERHEAD, BATCH_OVERHEAD, p[22] & ~DELETE_HORIZON_BIT, &nothing
    )
    return TAKEN


cdef struct Tally:
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

cdef struct Offsets:
    const int64_t *start
    Py_ssize_t count


cdef bint holds(const Offsets *sorted_offsets, int64_t wanted) noexcept nogil:
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = sorted_offsets.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if sorted_offsets.start[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < sorted_offsets.count and sorted_offsets.start[low] == wanted


cdef void count_batch(Tally *tally, int64_t last_offset, Py_ssize_t position, const Result *result) noexcept nogil:
    tally.batches_kept += 1
    tally.records_kept += result.count
    tally.tombstones_kept += result.tombstones
    tally.last_offset = last_offset
    tally.last_batch_position = position
    if result.max_timestamp > tally.max_timestamp:
        tally.max_timestamp = result.max_timestamp
        tally.offset_of_max_timestamp = last_offset


cdef Standing sift_plain(
    const Table *table, const uint8_t *p, const Offsets *kept_last, const Time *time, Piles *piles, Tally *tally
) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t>odr_int32(p + 8) + LOG_OVERHEAD
    cdef Batch batch = batch_of(p)
    cdef int64_t last_offset = odr_wrapped_sum(batch.base_offset, odr_int32(p + 23))
    cdef Py_ssize_t start = piles.out_size
    cdef Result result
    cdef Cursor at
    cdef Standing standing
    if not is_whole(p, size):
        return WRONG_CHECKSUM
    at.p = p + BATCH_OVERHEAD
    at.end = p + size
    standing = judge(table, at, &batch, time, piles, &result)
    if standing != TAKEN:
        return standing
    conclude(&batch, time, False, &result)
    tally.batches_read += 1
    tally.records_read += batch.count
    tally.keyless_dropped += result.keyless
    if not result.count:
        if odr_int64(p + 43) < 0 or not holds(kept_last, last_offset):
            return TAKEN
        result.max_timestamp = batch.max_timestamp
        standing = write_empty(p, &batch, piles)
    elif result.changed:
        standing = rewrite(p, at, &batch, &result, piles)
    else:
        result.max_timestamp = batch.max_timestamp
        standing = TAKEN if copy_out(piles, p, size) else NO_MEMORY
    count_batch(tally, last_offset, start, &result)
    return standing


cdef Standing sift_all(
    const Table *table, Cursor at, Py_ssize_t *taken, const Offsets *kept_last, const Time *time, Piles *piles,
    Tally *tally
) noexcept nogil:
    cdef Standing standing
    while True:
        standing = standing_at(at.p + taken[0], at.end - at.p - taken[0])
        if standing == TAKEN:
            standing = sift_plain(table, at.p + taken[0], kept_last, time, piles, tally)
        if standing != TAKEN:
            return standing
        taken[0] += <Py_ssize_t>odr_int32(at.p + taken[0] + 8) + LOG_OVERHEAD


cdef int pour(Piles *piles, object out) except -1:
    """Append what was made to a bytearray, which cannot move while it is filled."""
    cdef Py_buffer view
    cdef Py_ssize_t before = len(out)
    if not piles.out_size:
        return 0
    PyByteArray_Resize(out, before + piles.out_size)
    PyObject_GetBuffer(out, &view, PyBUF_SIMPLE)
    with nogil:
        memcpy(<uint8_t *>view.buf + before, piles.out, piles.out_size)
    PyBuffer_Release(&view)
    return 0


cdef Time time_of(int64_t now_ms, int64_t delete_retention_ms) noexcept:
    cdef Time time
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
    cdef Offsets kept_last
    cdef Time time = time_of(now_ms, delete_retention_ms)
    cdef Piles piles
    cdef Tally tally
    cdef Standing standing
    cdef Cursor at
    cdef Py_ssize_t taken = 0
    cdef Py_ssize_t before = len(out)
    if position < 0:
        raise ValueError("positions start at 0")
    memset(&piles, 0, sizeof(piles))
    memset(&tally, 0, sizeof(tally))
    tally.last_offset = tally.last_batch_position = tally.max_timestamp = tally.offset_of_max_timestamp = -1
    PyObject_GetBuffer(kept_last_offsets, &offsets_view, PyBUF_SIMPLE)
    kept_last.start = <const int64_t *>offsets_view.buf
    kept_last.count = offsets_view.len // 8
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            keys._seize()
            at.p = <const uint8_t *>view.buf + position
            at.end = <const uint8_t *>view.buf + view.len
            with nogil:
                standing = sift_all(&keys._table, at, &taken, &kept_last, &time, &piles, &tally)
            keys._busy = False
        finally:
            PyBuffer_Release(&view)
        if standing > NO_ROOM:
            raise not_taken(standing, position + taken)
        pour(&piles, out)
    finally:
        PyBuffer_Release(&offsets_view)
        free(piles.marks)
        free(piles.out)
    return FilterResult(
        position + taken,
        taken,
        tally.batches_read,
        tally.records_read,
        piles.out_size,
        tally.batches_kept,
        tally.records_kept,
        tally.tombstones_kept,
        tally.keyless_dropped,
        tally.last_offset,
        tally.last_batch_position if tally.last_batch_position < 0 else before + tally.last_batch_position,
        tally.max_timestamp,
        tally.offset_of_max_timestamp,
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
    cdef Time time = time_of(now_ms, delete_retention_ms)
    cdef Batch batch
    cdef Piles piles
    cdef Result result
    cdef Cursor at
    cdef Standing standing
    cdef const Table *table = NULL if keys is None else &keys._table
    batch.base_offset = header.base_offset
    batch.base_timestamp = header.base_timestamp
    batch.max_timestamp = header.max_timestamp
    batch.count = header.count
    batch.fixed = bool(header.attributes & APPEND_TIME_BIT)
    batch.has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
    memset(&piles, 0, sizeof(piles))
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if keys is not None:
            keys._seize()
        at.p = <const uint8_t *>view.buf
        at.end = at.p + view.len
        with nogil:
            standing = judge(table, at, &batch, &time, &piles, &result)
            if standing == TAKEN:
                conclude(&batch, &time, wants_horizon, &result)
                if result.changed:
                    standing = write_kept(at, &batch, &result, &piles)
        if keys is not None:
            keys._busy = False
        if standing != TAKEN:
            raise not_taken(standing, 0)
        made = PyBytes_FromStringAndSize(<char *>piles.out, piles.out_size) if result.changed else None
    finally:
        PyBuffer_Release(&view)
        free(piles.marks)
        free(piles.out)
    return FilteredRecords(made, result.count, result.base_timestamp, result.max_timestamp, bool(result.sets_horizon))
