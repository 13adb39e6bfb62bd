# The cleaner's map of keys and how batches fill it; ``_key_offsets_py`` says what everything means. Part of
# ``_codec``.
#
# A slot is 24 bytes, found by open addressing. Batches are read without the interpreter lock; whoever uses the
# map marks it busy meanwhile, so that its memory is not given back under a reader.

cdef extern from "_siphash.h":
    ctypedef struct Hash "odr_hash":
        uint64_t a
        uint64_t b
    Hash odr_siphash(Hash seed, const uint8_t *p, size_t n) nogil
    uint64_t odr_little(const uint8_t *p, size_t n) nogil

cdef extern from *:
    """
    /* A number below n, from a hash: the upper half of the product is as even as the hash is. */
    static uint64_t odr_share(uint64_t hash, uint64_t n) { return (uint64_t)(((unsigned __int128)hash * n) >> 64); }
    """
    uint64_t odr_share(uint64_t hash, uint64_t n) nogil

cdef enum Standing:
    # What there is at a position.
    TAKEN
    INCOMPLETE
    SPECIAL
    NO_ROOM
    TINY
    STRANGE_MAGIC
    SHORT_HEADER
    WRONG_CHECKSUM
    BAD_RECORDS
    NO_MEMORY

_WHY_NOT_TAKEN = {
    TINY: "a batch is smaller than any can be",
    STRANGE_MAGIC: "a batch has a magic that does not exist",
    SHORT_HEADER: "a batch is smaller than its header",
    WRONG_CHECKSUM: "a batch's checksum is not that of its bytes",
    BAD_RECORDS: "a batch's records are not what its header says",
}


cdef object not_taken(Standing standing, Py_ssize_t position):
    if standing == NO_MEMORY:
        return MemoryError()
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{_WHY_NOT_TAKEN[standing]}, at position {position}")


cdef Standing standing_at(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Whether a whole plain batch starts here, by its frame and header alone."""
    cdef int64_t size
    if left < LOG_OVERHEAD:
        return INCOMPLETE
    size = odr_int32(p + 8)
    if size < 14:
        return TINY
    if left <= LOG_OVERHEAD + 4:
        return INCOMPLETE
    if p[16] > 2:
        return STRANGE_MAGIC
    if left < size + LOG_OVERHEAD:
        return INCOMPLETE
    if p[16] < 2:
        return SHORT_HEADER if size < (22 if p[16] else 14) else SPECIAL
    if size < BATCH_OVERHEAD - LOG_OVERHEAD:
        return SHORT_HEADER
    return SPECIAL if p[22] & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT) else TAKEN


cdef inline bint is_whole(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    return odr_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)


def header_at(buffer, Py_ssize_t position):
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef Standing standing
    if position < 0:
        raise ValueError("positions start at 0")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf + position
        standing = standing_at(p, view.len - position)
        if standing == INCOMPLETE:
            return None
        if standing != TAKEN and standing != SPECIAL:
            raise not_taken(standing, position)
        return read_header(p, position, odr_int32(p + 8))
    finally:
        PyBuffer_Release(&view)


# ---- keys and their newest offsets ----

cdef Hash seed_of(bytes seed) except *:
    cdef Hash made
    if len(seed) != 16:
        raise ValueError("a seed has 16 bytes")
    made.a = odr_little(<const uint8_t *>PyBytes_AS_STRING(seed), 8)
    made.b = odr_little(<const uint8_t *>PyBytes_AS_STRING(seed) + 8, 8)
    return made


def siphash(bytes data not None, bytes seed not None):
    """The hash that the map uses, for tests to compare with published results."""
    cdef Hash made = odr_siphash(seed_of(seed), <const uint8_t *>PyBytes_AS_STRING(data), len(data))
    return int(made.a).to_bytes(8, "little") + int(made.b).to_bytes(8, "little")


cdef struct Slot:
    Hash hash
    # One more than the offset, so that memory of zeros is a map without keys.
    uint64_t after

cdef struct Table:
    Slot *slots
    uint64_t size
    uint64_t count
    int64_t latest
    Hash seed


cdef Slot *slot_of(const Table *table, const uint8_t *key, Py_ssize_t size, Hash *hash) noexcept nogil:
    """The slot of the key, or the free one where it would go; null if it is unknown and all are taken."""
    cdef uint64_t at, looked
    cdef Slot *slot
    hash[0] = odr_siphash(table.seed, key, size)
    at = odr_share(hash.a, table.size)
    for looked in range(table.size):
        slot = table.slots + at
        if not slot.after or (slot.hash.a == hash.a and slot.hash.b == hash.b):
            return slot
        at += 1
        if at == table.size:
            at = 0
    return NULL


cdef bint note(Table *table, const uint8_t *key, Py_ssize_t size, int64_t offset) noexcept nogil:
    """Keep the key's newest offset; False if there is no slot for it."""
    cdef Hash hash
    cdef Slot *slot = slot_of(table, key, size, &hash)
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


cdef inline int64_t newest(const Table *table, const uint8_t *key, Py_ssize_t size) noexcept nogil:
    cdef Hash hash
    cdef Slot *slot = slot_of(table, key, size, &hash)
    return -1 if slot == NULL else <int64_t>(slot.after - 1)


cdef struct Lesson:
    int64_t base_offset
    int64_t from_offset
    int64_t count_max
    int32_t count


cdef Standing learn_area(Table *table, const uint8_t *p, Py_ssize_t size, const Lesson *lesson) noexcept nogil:
    """Note the keys of records that were not looked at yet; all of them are read before one is noted."""
    cdef Cursor at
    cdef Parts parts
    cdef int64_t offset
    cdef int32_t index
    cdef bint tight = lesson.count > lesson.count_max - <int64_t>table.count
    cdef Rules rules
    cdef Found found
    rules.base_timestamp = rules.earliest = rules.latest = 0
    rules.fixed = True
    rules.compacted = False
    if lesson.count < 0 or walk_all(p, size, lesson.count, &rules, &found) != FINE:
        return BAD_RECORDS
    if tight and table.count:
        return NO_ROOM
    at.p = p
    at.end = p + size
    for index in range(lesson.count):
        take_record(&at, &parts)
        offset = odr_wrapped_sum(lesson.base_offset, parts.offset_delta)
        if parts.key_size < 0 or offset < lesson.from_offset:
            continue
        if <int64_t>table.count >= lesson.count_max:
            return NO_ROOM
        note(table, parts.key, parts.key_size, offset)
    return TAKEN


cdef Standing learn_plain(Table *table, const uint8_t *p, Lesson *lesson) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t>odr_int32(p + 8) + LOG_OVERHEAD
    cdef int64_t last_offset
    cdef Standing standing
    lesson.base_offset = odr_int64(p)
    lesson.count = odr_int32(p + 57)
    last_offset = odr_wrapped_sum(lesson.base_offset, odr_int32(p + 23))
    if last_offset < lesson.from_offset:
        return TAKEN
    if not is_whole(p, size):
        return WRONG_CHECKSUM
    standing = learn_area(table, p + BATCH_OVERHEAD, size - BATCH_OVERHEAD, lesson)
    if standing == TAKEN and last_offset > table.latest:
        table.latest = last_offset
    return standing


cdef Standing learn_all(
    Table *table, const uint8_t *start, Py_ssize_t end, Py_ssize_t *position, Lesson *lesson
) noexcept nogil:
    cdef Standing standing
    while True:
        standing = standing_at(start + position[0], end - position[0])
        if standing == TAKEN:
            standing = learn_plain(table, start + position[0], lesson)
        if standing != TAKEN:
            return standing
        position[0] += <Py_ssize_t>odr_int32(start + position[0] + 8) + LOG_OVERHEAD


cdef class OffsetMap:
    cdef Table _table
    cdef bint _busy

    def __cinit__(self, int64_t slots, bytes seed not None):
        if slots < 1:
            raise ValueError("a map needs a slot or more")
        self._table.seed = seed_of(seed)
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

    cdef int _seize(self) except -1:
        if self._busy:
            raise RuntimeError("another thread uses this map")
        self._busy = True
        return 0

    def put(self, key, int64_t offset):
        cdef Py_buffer view
        cdef bint noted
        if offset < 0:
            raise ValueError("offsets start at 0")
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        try:
            self._seize()
            noted = note(&self._table, <const uint8_t *>view.buf, view.len, offset)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if not noted:
            raise ValueError(f"all {self._table.size} slots are taken")

    def get(self, key):
        cdef Py_buffer view
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        found = newest(&self._table, <const uint8_t *>view.buf, view.len)
        PyBuffer_Release(&view)
        return found

    def update_latest_offset(self, int64_t offset):
        self._table.latest = max(self._table.latest, offset)

    def clear(self):
        # Fresh memory, not zeros written over the old: pages that are never touched cost nothing.
        cdef Slot *fresh
        self._seize()
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
        cdef Lesson lesson
        cdef Standing standing
        if position < 0:
            raise ValueError("positions start at 0")
        lesson.from_offset = max(from_offset, 0)
        lesson.count_max = min(count_max, <int64_t>self._table.size)
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            self._seize()
            with nogil:
                standing = learn_all(&self._table, <const uint8_t *>view.buf, view.len, &position, &lesson)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if standing > NO_ROOM:
            raise not_taken(standing, position)
        return position

    def put_records(self, records, int32_t count, int64_t base_offset, int64_t from_offset, int64_t count_max):
        cdef Py_buffer view
        cdef Lesson lesson
        cdef Standing standing
        lesson.base_offset = base_offset
        lesson.count = count
        lesson.from_offset = max(from_offset, 0)
        lesson.count_max = min(count_max, <int64_t>self._table.size)
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        try:
            self._seize()
            with nogil:
                standing = learn_area(&self._table, <const uint8_t *>view.buf, view.len, &lesson)
            self._busy = False
        finally:
            PyBuffer_Release(&view)
        if standing == BAD_RECORDS:
            raise not_taken(standing, 0)
        return standing == TAKEN
