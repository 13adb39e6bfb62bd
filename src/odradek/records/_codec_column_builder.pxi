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

cdef struct Sheet:
    Py_ssize_t row_count
    Py_ssize_t header_count
    Growing topic_indices
    Growing partitions
    Growing offsets
    Growing timestamps
    BytesCells keys
    BytesCells values
    Growing header_ends
    BytesCells header_names
    BytesCells header_values
    bint with_headers


cdef void reuse_blocks(Sheet *sheet, Py_ssize_t value_bytes, Py_ssize_t rows) noexcept:
    """Look for kept memory for columns that are still empty. So much is at hand of one partition: values of
    others may follow, so they get the largest block there is."""
    if value_bytes >= KEPT_BYTES_MIN:
        reuse_block(&sheet.values.content, KEPT_BYTES_MAX)
    reuse_block(&sheet.offsets, 8 * rows)
    reuse_block(&sheet.timestamps, 8 * rows)
    reuse_block(&sheet.topic_indices, 4 * rows)
    reuse_block(&sheet.partitions, 4 * rows)
    reuse_block(&sheet.keys.ends, 4 * rows)
    reuse_block(&sheet.values.ends, 4 * rows)
    if sheet.with_headers:
        reuse_block(&sheet.header_ends, 4 * rows)


cdef enum Added:
    ROW_ADDED
    ROW_LOST
    # Offsets of 32 bits reach no further: the rows so far are a column of their own.
    ROW_REFUSED


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


cdef inline bint reserve_bits(Growing *bits, Py_ssize_t index) noexcept nogil:
    """Room for one more bit; a new byte of them is 0."""
    if index & 7:
        return True
    if not reserve_more(bits, 1):
        return False
    bits.start[bits.size] = 0
    bits.size += 1
    return True


cdef inline bint push_int32(Growing *area, int32_t value) noexcept nogil:
    if not reserve_more(area, 4):
        return False
    (<int32_t *>(area.start + area.size))[0] = value
    area.size += 4
    return True


cdef inline bint push_int64(Growing *area, int64_t value) noexcept nogil:
    if not reserve_more(area, 8):
        return False
    (<int64_t *>(area.start + area.size))[0] = value
    area.size += 8
    return True


cdef inline bint push_cell(BytesCells *cells, Py_ssize_t row, const uint8_t *field, int32_t size) noexcept nogil:
    if not reserve_bits(&cells.validity, row):
        return False
    if size >= 0:
        if not reserve_more(&cells.content, size):
            return False
        cells.validity.start[row >> 3] |= <uint8_t>(1 << (row & 7))
        if size > 0:
            memcpy(cells.content.start + cells.content.size, field, size)
            cells.content.size += size
    return push_int32(&cells.ends, <int32_t>cells.content.size)


cdef inline bint starts_cells(BytesCells *cells) noexcept nogil:
    return cells.ends.size > 0 or push_int32(&cells.ends, 0)


cdef Added add_row(
    Sheet *sheet, int32_t topic_index, int32_t partition, int64_t offset, int64_t timestamp, Parts *parts
) noexcept nogil:
    """Add a record whose structure has been checked; after ROW_LOST the sheet is of no more use."""
    cdef Py_ssize_t row = sheet.row_count
    # Names may grow when what is no UTF-8 in them is replaced.
    cdef Py_ssize_t most = 3 * (parts.end - parts.key)
    if (
        sheet.values.content.size + most > INT32_MAX or sheet.keys.content.size + most > INT32_MAX
        or sheet.header_names.content.size + most > INT32_MAX
        or sheet.header_values.content.size + most > INT32_MAX
        or sheet.header_count + parts.header_count > INT32_MAX
    ):
        return ROW_REFUSED
    if row == 0 and not (starts_cells(&sheet.keys) and starts_cells(&sheet.values)):
        return ROW_LOST
    if not (
        push_int32(&sheet.topic_indices, topic_index)
        and push_int32(&sheet.partitions, partition)
        and push_int64(&sheet.offsets, offset)
        and push_int64(&sheet.timestamps, timestamp)
        and push_cell(&sheet.keys, row, parts.key, parts.key_size)
        and push_cell(&sheet.values, row, parts.value, parts.value_size)
    ):
        return ROW_LOST
    if sheet.with_headers and not add_headers(sheet, parts):
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
    if sheet.row_count == 0 and not (
        starts_cells(&sheet.header_names) and starts_cells(&sheet.header_values) and push_int32(&sheet.header_ends, 0)
    ):
        return False
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
    return push_int32(&sheet.header_ends, <int32_t>sheet.header_count)


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

    def __cinit__(self, bint with_headers=True):
        self._sheet.with_headers = with_headers
        self._topics = []

    def __dealloc__(self):
        cdef Sheet *sheet = &self._sheet
        free(sheet.topic_indices.start)
        free(sheet.partitions.start)
        free(sheet.offsets.start)
        free(sheet.timestamps.start)
        free_cells(&sheet.keys)
        free_cells(&sheet.values)
        free(sheet.header_ends.start)
        free_cells(&sheet.header_names)
        free_cells(&sheet.header_values)

    @property
    def row_count(self):
        return self._sheet.row_count

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
        if not (starts_cells(&sheet.keys) and starts_cells(&sheet.values)):
            raise MemoryError
        if sheet.with_headers and sheet.row_count == 0:
            if not (
                starts_cells(&sheet.header_names) and starts_cells(&sheet.header_values)
                and push_int32(&sheet.header_ends, 0)
            ):
                raise MemoryError
        made = Columns(
            sheet.row_count,
            tuple(self._topics),
            given_away(&sheet.topic_indices),
            given_away(&sheet.partitions),
            given_away(&sheet.offsets),
            given_away(&sheet.timestamps),
            given_away(&sheet.keys.validity),
            given_away(&sheet.keys.ends),
            given_away(&sheet.keys.content),
            given_away(&sheet.values.validity),
            given_away(&sheet.values.ends),
            given_away(&sheet.values.content),
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
        self._topics = []
        return made
