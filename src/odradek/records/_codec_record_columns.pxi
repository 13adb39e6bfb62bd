# Rows that come as Arrow columns, on their way into batches; ``_record_columns_py`` says what everything means.
# Part of ``_codec``.
#
# Every position that a row names is checked once, when a column is made; from then on rows are read without a
# further look, so a column holds its buffers and nobody can shrink them. What is read twice (ends of a buffer
# that its owner still writes to) could differ: sizes are taken from the same two reads that give the position.

cdef int hold(object buffer, Py_buffer *view) except -1:
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    return 0


cdef inline bint bit_at(const uint8_t *bits, Py_ssize_t index) noexcept nogil:
    return bits[index >> 3] >> (index & 7) & 1


cdef inline int64_t end_at(const uint8_t *ends, Py_ssize_t index, bint wide) noexcept nogil:
    return (<const int64_t *>ends)[index] if wide else (<const int32_t *>ends)[index]


cdef int check_ends(const uint8_t *ends, Py_ssize_t first, Py_ssize_t length, bint wide, Py_ssize_t size) except -1:
    cdef int64_t before, after
    cdef Py_ssize_t index
    cdef bint fine = True
    with nogil:
        before = end_at(ends, first, wide)
        fine = before >= 0
        for index in range(first + 1, first + length + 1):
            after = end_at(ends, index, wide)
            if after < before or after - before > INT32_MAX:
                fine = False
            before = after
        fine = fine and before <= size
    if not fine:
        raise ValueError("a column's offsets do not rise within its content")
    return 0


cdef class BytesColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef bint _wide
    cdef Export _validity
    cdef Export _ends
    cdef Export _content
    cdef int _held

    def __init__(self, Py_ssize_t length, Py_ssize_t offset, validity, ends, content, bint wide=False):
        if self._held:
            raise ValueError("a column is made once")
        if length < 0 or offset < 0:
            raise ValueError("a column's length and offset are not negative")
        hold(ends, &self._ends.view)
        self._held |= 1
        hold(b"" if content is None else content, &self._content.view)
        self._held |= 2
        if validity is not None:
            hold(validity, &self._validity.view)
            self._held |= 4
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("a column's validity bitmap is shorter than the column")
        if length:
            if self._ends.view.len // (8 if wide else 4) < offset + length + 1:
                raise ValueError("a column has fewer offsets than rows")
            check_ends(<const uint8_t *>self._ends.view.buf, offset, length, wide, self._content.view.len)
        self._first = offset
        self._wide = wide
        self.length = length

    def __dealloc__(self):
        if self._held & 1:
            PyBuffer_Release(&self._ends.view)
        if self._held & 2:
            PyBuffer_Release(&self._content.view)
        if self._held & 4:
            PyBuffer_Release(&self._validity.view)

    cdef inline const char *cell(self, Py_ssize_t row, Py_ssize_t *size) noexcept nogil:
        """The bytes of a row; null has size -1."""
        cdef int64_t start, end
        row += self._first
        if self._held & 4 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            size[0] = -1
            return NULL
        start = end_at(<const uint8_t *>self._ends.view.buf, row, self._wide)
        end = end_at(<const uint8_t *>self._ends.view.buf, row + 1, self._wide)
        if start < 0 or end < start or end > self._content.view.len:
            size[0] = -1
            return NULL
        size[0] = end - start
        return <const char *>self._content.view.buf + start


cdef class NumbersColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef int _width
    cdef Export _validity
    cdef Export _values
    cdef int _held

    def __init__(self, Py_ssize_t length, Py_ssize_t offset, validity, values, int width):
        if self._held:
            raise ValueError("a column is made once")
        if length < 0 or offset < 0 or width not in (4, 8):
            raise ValueError("a column of numbers has int32 or int64, and a length and an offset from 0 on")
        hold(values, &self._values.view)
        self._held |= 1
        if self._values.view.len // width < offset + length:
            raise ValueError("a column has fewer numbers than rows")
        if validity is not None:
            hold(validity, &self._validity.view)
            self._held |= 2
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("a column's validity bitmap is shorter than the column")
        self._first = offset
        self._width = width
        self.length = length

    def __dealloc__(self):
        if self._held & 1:
            PyBuffer_Release(&self._values.view)
        if self._held & 2:
            PyBuffer_Release(&self._validity.view)

    cdef inline bint number(self, Py_ssize_t row, int64_t *out) noexcept nogil:
        """Whether the row has a number, and which."""
        row += self._first
        if self._held & 2 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            return False
        out[0] = end_at(<const uint8_t *>self._values.view.buf, row, self._width == 8)
        return True


cdef class HeadersColumn:
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t _first
    cdef bint _wide
    cdef Export _validity
    cdef Export _ends
    cdef BytesColumn _names
    cdef BytesColumn _values
    cdef int _held

    def __init__(
        self, Py_ssize_t length, Py_ssize_t offset, validity, ends, BytesColumn names not None,
        BytesColumn values not None, bint wide=False
    ):
        if self._held:
            raise ValueError("a column is made once")
        if length < 0 or offset < 0:
            raise ValueError("a column's length and offset are not negative")
        hold(ends, &self._ends.view)
        self._held |= 1
        if validity is not None:
            hold(validity, &self._validity.view)
            self._held |= 2
            if self._validity.view.len * 8 < offset + length:
                raise ValueError("a column's validity bitmap is shorter than the column")
        if length:
            if self._ends.view.len // (8 if wide else 4) < offset + length + 1:
                raise ValueError("a column has fewer offsets than rows")
            check_ends(<const uint8_t *>self._ends.view.buf, offset, length, wide, min(names.length, values.length))
        self._first = offset
        self._wide = wide
        self._names = names
        self._values = values
        self.length = length

    def __dealloc__(self):
        if self._held & 1:
            PyBuffer_Release(&self._ends.view)
        if self._held & 2:
            PyBuffer_Release(&self._validity.view)

    cdef Py_ssize_t range_of(self, Py_ssize_t row, Py_ssize_t *start) noexcept nogil:
        """How many headers a row has, and where they start."""
        cdef int64_t end
        row += self._first
        if self._held & 2 and not bit_at(<const uint8_t *>self._validity.view.buf, row):
            return 0
        start[0] = end_at(<const uint8_t *>self._ends.view.buf, row, self._wide)
        end = end_at(<const uint8_t *>self._ends.view.buf, row + 1, self._wide)
        if start[0] < 0 or end < start[0] or end > min(self._names.length, self._values.length):
            return 0
        return end - start[0]


cdef class RecordColumns:
    cdef readonly Py_ssize_t length
    cdef BytesColumn _values
    cdef BytesColumn _keys
    cdef NumbersColumn _timestamps
    cdef HeadersColumn _headers
    cdef uint8_t *_tail
    cdef Py_ssize_t _tail_room

    def __init__(
        self, Py_ssize_t length, BytesColumn values, BytesColumn keys=None, NumbersColumn timestamps=None,
        HeadersColumn headers=None
    ):
        for column in (values, keys, timestamps, headers):
            if column is not None and column.length < length:
                raise ValueError("a column is shorter than the table")
        self.length = length
        self._values = values
        self._keys = keys
        self._timestamps = timestamps
        self._headers = headers

    def __dealloc__(self):
        free(self._tail)

    cdef int check_range(self, Py_ssize_t start, Py_ssize_t stop) except -1:
        if start < 0 or stop > self.length:
            raise ValueError(f"rows {start} to {stop} are not among {self.length}")
        return 0

    cdef bint load(self, Py_ssize_t row, Piece *piece, int64_t *timestamp, int64_t now_ms) except -1:
        """Point at a row's fields; False if no batch can take it as it is. Runs no Python code."""
        piece.key = piece.value = NULL
        piece.key_size = piece.value_size = -1
        piece.tail = b"\0"
        piece.tail_size = 1
        timestamp[0] = now_ms
        if self._values is not None:
            piece.value = self._values.cell(row, &piece.value_size)
        if self._keys is not None:
            piece.key = self._keys.cell(row, &piece.key_size)
        if self._timestamps is not None:
            self._timestamps.number(row, timestamp)
        if timestamp[0] < 0:
            return False
        return self._headers is None or self._load_headers(row, piece)

    cdef bint _load_headers(self, Py_ssize_t row, Piece *piece) except -1:
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
        piece.tail = <const char *>self._tail
        piece.tail_size = size
        return True

    cdef int _reserve(self, Py_ssize_t wanted) except -1:
        cdef uint8_t *moved
        if wanted > self._tail_room:
            moved = <uint8_t *>realloc(self._tail, 2 * wanted)
            if moved == NULL:
                raise MemoryError
            self._tail = moved
            self._tail_room = 2 * wanted
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


def partitions_for_keys(BytesColumn keys, int32_t partition_count, NumbersColumn given=None, bint ignore_keys=False):
    cdef Py_ssize_t length, row, size
    cdef int64_t number
    cdef const char *key
    cdef int32_t *out
    if partition_count < 1:
        raise ValueError("a topic has a partition or more")
    if keys is None and given is None:
        raise ValueError("keys or partitions must be given")
    length = given.length if keys is None else keys.length if given is None else min(keys.length, given.length)
    made = new_bytes(4 * length)
    out = <int32_t *>PyByteArray_AS_STRING(made)
    with nogil:
        for row in range(length):
            out[row] = -1
            if given is not None and given.number(row, &number):
                out[row] = <int32_t>number if 0 <= number <= INT32_MAX else INT32_MAX
            elif keys is not None and not ignore_keys:
                key = keys.cell(row, &size)
                if size >= 0:
                    out[row] = (odr_murmur2(<const uint8_t *>key, size) & 0x7FFFFFFF) % partition_count
    return made
