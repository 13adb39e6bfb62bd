# Records as columns, gathered from one reader or several; ``_column_builder_py`` says what everything means.
# Part of ``_codec``.
#
# The columns are memory of ours, filled without the interpreter lock, and become the owner's as they are.

cdef enum:
    # Memory that comes fresh from the system costs more, page by page, than the bytes that are copied into it:
    # blocks that columns had are kept for the next ones, those of two batches' columns at most.
    KEPT_BLOCKS = 24
    KEPT_BYTES_MIN = 65536
    KEPT_BYTES_MAX = 16777216
    KEPT_BYTES_IN_ALL = 50331648

cdef struct Growing:
    uint8_t *start
    Py_ssize_t size
    Py_ssize_t room

cdef int _POLLED = int(POLL_COLUMNS)

# Touched with the interpreter lock held, only.
cdef Growing kept_blocks[KEPT_BLOCKS]
cdef Py_ssize_t kept_bytes = 0
memset(kept_blocks, 0, sizeof(kept_blocks))


cdef void keep_block(uint8_t *start, Py_ssize_t room) noexcept:
    """Keep a block in a free place or in place of the smallest one, if that is smaller; else free it."""
    global kept_bytes
    cdef Growing *place = &kept_blocks[0]
    cdef uint8_t *freed = start
    cdef int index
    for index in range(1, KEPT_BLOCKS):
        if kept_blocks[index].room < place.room:
            place = &kept_blocks[index]
    if (
        KEPT_BYTES_MIN <= room <= KEPT_BYTES_MAX and place.room < room
        and kept_bytes - place.room + room <= KEPT_BYTES_IN_ALL
    ):
        freed = place.start
        kept_bytes += room - place.room
        place.start = start
        place.room = room
    free(freed)


cdef void reuse_block(Growing *area, Py_ssize_t wanted) noexcept:
    """Give an area that is still empty the smallest block that holds what it is to hold, else the largest."""
    global kept_bytes
    cdef Growing *best = NULL
    cdef Growing *block
    cdef int index
    if area.start != NULL or wanted < KEPT_BYTES_MIN:
        return
    for index in range(KEPT_BLOCKS):
        block = &kept_blocks[index]
        if block.start != NULL and (best == NULL or fits_better(block.room, best.room, wanted)):
            best = block
    if best != NULL:
        area.start = best.start
        area.room = best.room
        kept_bytes -= best.room
        best.start = NULL
        best.room = 0


cdef inline bint fits_better(Py_ssize_t room, Py_ssize_t best, Py_ssize_t wanted) noexcept:
    return best < room if best < wanted else wanted <= room < best


cdef class ColumnMemory:
    """A column's bytes, given away without copying them."""

    cdef uint8_t *_start
    cdef Py_ssize_t _size
    cdef Py_ssize_t _room

    def __dealloc__(self):
        keep_block(self._start, self._room)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._start if self._start != NULL else <void *>b"", self._size, 1, flags)


cdef struct BytesCells:
    # Arrow's layout of nullable bytes; ``ends`` has one more than there are rows.
    Growing validity
    Growing ends
    Growing content

cdef enum:
    # ``layout.ColumnSet``
    WANTS_PLACES = 1
    WANTS_OFFSETS = 2
    WANTS_TIMESTAMPS = 4
    WANTS_TIMESTAMPS_US = 8
    WANTS_TIMESTAMP_TYPES = 16
    WANTS_KEYS = 32
    WANTS_VALUES = 64
    WANTS_HEADERS = 128
    # The least that a record has: a byte for each of its fields.
    RECORD_BYTES_MIN = 7

cdef struct Sheet:
    int wanted
    int64_t bytes_max
    bint has_refused
    Py_ssize_t row_count
    Py_ssize_t header_count
    Growing topic_indices
    Growing partitions
    Growing offsets
    Growing timestamps
    Growing timestamp_types
    BytesCells keys
    BytesCells values
    Growing header_validity
    Growing header_ends
    BytesCells header_names
    BytesCells header_values

# What the rows of one batch have in common.
cdef struct Shared:
    int32_t topic_index
    int32_t partition
    int32_t timestamp_type


cdef void reuse_blocks(Sheet *sheet, Py_ssize_t value_bytes, Py_ssize_t rows) noexcept:
    """Look for kept memory for columns that are still empty. So much is at hand of one partition: values of
    others may follow, so they get the largest block there is."""
    cdef int wanted = sheet.wanted
    if wanted & WANTS_VALUES:
        if value_bytes >= KEPT_BYTES_MIN:
            reuse_block(&sheet.values.content, KEPT_BYTES_MAX)
        reuse_block(&sheet.values.ends, 4 * rows)
    if wanted & WANTS_OFFSETS:
        reuse_block(&sheet.offsets, 8 * rows)
    if wanted & (WANTS_TIMESTAMPS | WANTS_TIMESTAMPS_US):
        reuse_block(&sheet.timestamps, 8 * rows)
    if wanted & WANTS_TIMESTAMP_TYPES:
        reuse_block(&sheet.timestamp_types, 4 * rows)
    if wanted & WANTS_PLACES:
        reuse_block(&sheet.topic_indices, 4 * rows)
        reuse_block(&sheet.partitions, 4 * rows)
    if wanted & WANTS_KEYS:
        reuse_block(&sheet.keys.ends, 4 * rows)
    if wanted & WANTS_HEADERS:
        reuse_block(&sheet.header_ends, 4 * rows)


cdef enum Added:
    ROW_ADDED
    ROW_LOST
    # Enough bytes, or offsets of 32 bits reach no further: the rows so far are a column of their own.
    ROW_REFUSED
    # It is where reading shall stop, or beyond.
    ROW_BEYOND


cdef inline bint reserve_more(Growing *area, Py_ssize_t more) noexcept nogil:
    return area.size + more <= area.room or enlarge(area, more)


cdef bint enlarge(Growing *area, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t wanted = area.size + more
    cdef uint8_t *moved
    if wanted < 2 * area.room:
        wanted = 2 * area.room
    if wanted < 512:
        wanted = 512
    moved = <uint8_t *>realloc(area.start, wanted)
    if moved == NULL:
        return False
    area.start = moved
    area.room = wanted
    return True


cdef bint reserve_rows(Sheet *sheet, Py_ssize_t rows) noexcept nogil:
    """Room for so many more rows in all that has a fixed size per row; and for what comes before the first."""
    cdef int wanted = sheet.wanted
    cdef bint fits = True
    if wanted & WANTS_PLACES:
        fits = reserve_more(&sheet.topic_indices, 4 * rows) and reserve_more(&sheet.partitions, 4 * rows)
    if wanted & WANTS_OFFSETS:
        fits = fits and reserve_more(&sheet.offsets, 8 * rows)
    if wanted & (WANTS_TIMESTAMPS | WANTS_TIMESTAMPS_US):
        fits = fits and reserve_more(&sheet.timestamps, 8 * rows)
    if wanted & WANTS_TIMESTAMP_TYPES:
        fits = fits and reserve_more(&sheet.timestamp_types, 4 * rows)
    if wanted & WANTS_KEYS:
        fits = fits and reserve_cells(&sheet.keys, rows)
    if wanted & WANTS_VALUES:
        fits = fits and reserve_cells(&sheet.values, rows)
    if wanted & WANTS_HEADERS:
        fits = (
            fits and starts_ends(&sheet.header_ends) and reserve_more(&sheet.header_ends, 4 * rows)
            and reserve_more(&sheet.header_validity, rows // 8 + 1)
            and starts_ends(&sheet.header_names.ends) and starts_ends(&sheet.header_values.ends)
        )
    return fits


cdef inline bint reserve_cells(BytesCells *cells, Py_ssize_t rows) noexcept nogil:
    return (
        starts_ends(&cells.ends) and reserve_more(&cells.ends, 4 * rows)
        and reserve_more(&cells.validity, rows // 8 + 1)
    )


cdef inline bint starts_ends(Growing *ends) noexcept nogil:
    """Ends have a 0 before the first of them."""
    if ends.size == 0:
        if not reserve_more(ends, 4):
            return False
        put_int32(ends, 0)
    return True


cdef inline void put_int32(Growing *area, int32_t value) noexcept nogil:
    (<int32_t *>(area.start + area.size))[0] = value
    area.size += 4


cdef inline void put_int64(Growing *area, int64_t value) noexcept nogil:
    (<int64_t *>(area.start + area.size))[0] = value
    area.size += 8


cdef inline void put_bit(Growing *bits, Py_ssize_t row, bint value) noexcept nogil:
    if row & 7 == 0:
        bits.start[bits.size] = 0
        bits.size += 1
    bits.start[row >> 3] |= <uint8_t>(value << (row & 7))


cdef inline bint put_cell(BytesCells *cells, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    """A cell for which there is room, save for its bytes."""
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


cdef inline bint is_full(const Sheet *sheet, Py_ssize_t most) noexcept nogil:
    """Whether no further record fits, whose fields have so many bytes at most."""
    cdef int64_t keys = sheet.keys.content.size
    cdef int64_t values = sheet.values.content.size
    cdef int64_t names = sheet.header_names.content.size
    cdef int64_t header_values = sheet.header_values.content.size
    return (
        (sheet.row_count > 0 and keys + values + names + header_values >= sheet.bytes_max)
        or max(max(keys, values), max(names, header_values)) + most > INT32_MAX
    )


cdef inline int64_t microseconds_of(int64_t milliseconds) noexcept nogil:
    if milliseconds > INT64_MAX // 1000:
        return INT64_MAX
    if milliseconds < -(INT64_MAX // 1000):
        return -INT64_MAX - 1
    return milliseconds * 1000


cdef Added add_row(Sheet *sheet, const Shared *shared, int64_t offset, int64_t timestamp, Parts *parts) noexcept nogil:
    """Add a record whose structure has been checked, and for which there is room; after ROW_LOST the sheet is of
    no more use."""
    cdef int wanted = sheet.wanted
    # Names may grow when what is no UTF-8 in them is replaced.
    if is_full(sheet, 3 * (parts.end - parts.key)) or sheet.header_count + parts.header_count > INT32_MAX:
        sheet.has_refused = True
        return ROW_REFUSED
    if wanted & WANTS_PLACES:
        put_int32(&sheet.topic_indices, shared.topic_index)
        put_int32(&sheet.partitions, shared.partition)
    if wanted & WANTS_OFFSETS:
        put_int64(&sheet.offsets, offset)
    if wanted & WANTS_TIMESTAMPS_US:
        put_int64(&sheet.timestamps, microseconds_of(timestamp))
    elif wanted & WANTS_TIMESTAMPS:
        put_int64(&sheet.timestamps, timestamp)
    if wanted & WANTS_TIMESTAMP_TYPES:
        put_int32(&sheet.timestamp_types, shared.timestamp_type)
    if wanted & WANTS_KEYS and not put_cell(&sheet.keys, sheet.row_count, parts.key, parts.key_size):
        return ROW_LOST
    if wanted & WANTS_VALUES and not put_cell(&sheet.values, sheet.row_count, parts.value, parts.value_size):
        return ROW_LOST
    if wanted & WANTS_HEADERS and not add_headers(sheet, parts):
        return ROW_LOST
    sheet.row_count += 1
    return ROW_ADDED


cdef inline bint push_name(BytesCells *names, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    """A header's name, which Arrow will take for UTF-8."""
    cdef int32_t index
    for index in range(size):
        if field[index] >= 0x80:
            return push_text(names, row, field, size)
    return push_cell(names, row, field, size)


cdef bint push_text(BytesCells *names, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept with gil:
    """A name that is not plain ASCII; what is no UTF-8 in it is replaced."""
    try:
        text = PyUnicode_DecodeUTF8(<const char *>field, size, "replace").encode()
    except MemoryError:
        return False
    return push_cell(names, row, <const uint8_t *>PyBytes_AS_STRING(text), <int32_t>PyBytes_GET_SIZE(text))


cdef bint add_headers(Sheet *sheet, Parts *parts) noexcept nogil:
    cdef Cursor at
    cdef int32_t index
    cdef int32_t size = -1
    cdef const uint8_t *field = NULL
    put_bit(&sheet.header_validity, sheet.row_count, parts.header_count > 0)
    at.p = parts.headers
    at.end = parts.end
    for index in range(parts.header_count):
        take_field(&at, &size, &field)
        if not push_name(&sheet.header_names, sheet.header_count, field, size):
            return False
        take_field(&at, &size, &field)
        if not push_cell(&sheet.header_values, sheet.header_count, field, size):
            return False
        sheet.header_count += 1
    put_int32(&sheet.header_ends, <int32_t>sheet.header_count)
    return True


cdef object given_away(Growing *area):
    """The bytes of a column as a view that owns them; the column is empty afterwards."""
    cdef ColumnMemory memory = ColumnMemory.__new__(ColumnMemory)
    cdef uint8_t *trimmed
    memory._start = area.start
    memory._size = area.size
    memory._room = area.room
    if area.size and area.room - area.size > 4096 and area.room > 2 * area.size:
        trimmed = <uint8_t *>realloc(area.start, area.size)
        if trimmed != NULL:
            memory._start = trimmed
            memory._room = area.size
    area.start = NULL
    area.size = area.room = 0
    return memoryview(memory)


cdef void free_cells(BytesCells *cells) noexcept nogil:
    free(cells.validity.start)
    free(cells.ends.start)
    free(cells.content.start)


cdef class ColumnBuilder:
    cdef Sheet _sheet
    cdef list _topics
    cdef bint _busy

    def __cinit__(self, int wanted=_POLLED, int64_t bytes_max=INT64_MAX):
        self._sheet.wanted = wanted
        self._sheet.bytes_max = bytes_max
        self._topics = []

    def __dealloc__(self):
        cdef Sheet *sheet = &self._sheet
        free(sheet.topic_indices.start)
        free(sheet.partitions.start)
        free(sheet.offsets.start)
        free(sheet.timestamps.start)
        free(sheet.timestamp_types.start)
        free_cells(&sheet.keys)
        free_cells(&sheet.values)
        free(sheet.header_validity.start)
        free(sheet.header_ends.start)
        free_cells(&sheet.header_names)
        free_cells(&sheet.header_values)

    @property
    def row_count(self):
        return self._sheet.row_count

    @property
    def is_full(self):
        return bool(self._sheet.has_refused and self._sheet.row_count > 0)

    cdef int32_t topic_index(self, object topic) except -1:
        if topic not in self._topics:
            self._topics.append(topic)
        return self._topics.index(topic)

    cdef int keep_topics(self, Py_ssize_t count) except -1:
        """Forget a topic that no row came of."""
        del self._topics[count:]
        return 0

    def finish(self):
        cdef Sheet *sheet = &self._sheet
        if self._busy:
            raise ConcurrentUse("columns are being filled in another thread")
        if not reserve_rows(sheet, 0):
            raise MemoryError
        made = Columns(
            sheet.row_count,
            tuple(self._topics),
            given_away(&sheet.topic_indices),
            given_away(&sheet.partitions),
            given_away(&sheet.offsets),
            given_away(&sheet.timestamps),
            given_away(&sheet.timestamp_types),
            given_away(&sheet.keys.validity),
            given_away(&sheet.keys.ends),
            given_away(&sheet.keys.content),
            given_away(&sheet.values.validity),
            given_away(&sheet.values.ends),
            given_away(&sheet.values.content),
            given_away(&sheet.header_validity),
            given_away(&sheet.header_ends),
            given_away(&sheet.header_names.ends),
            given_away(&sheet.header_names.content),
            given_away(&sheet.header_values.validity),
            given_away(&sheet.header_values.ends),
            given_away(&sheet.header_values.content),
        )
        free(sheet.header_names.validity.start)
        sheet.header_names.validity.start = NULL
        sheet.header_names.validity.size = sheet.header_names.validity.room = 0
        sheet.row_count = sheet.header_count = 0
        sheet.has_refused = False
        self._topics = []
        return made
