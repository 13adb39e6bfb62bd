# A batch that a producer fills; ``_producer_batch_py`` says what every method means. Part of ``_codec``.
#
# Several threads append while another seals and completes. Whatever may run Python code (a field's export,
# header encoding, an allocation that may start the collector) comes before the batch is touched; from then on
# the interpreter lock is not let go until the batch is whole again. A sealed batch changes no more.

cdef struct Piece:
    # A record's fields as they go into a batch; ``tail`` is the header count and the headers, encoded.
    const char *key
    Py_ssize_t key_size
    const char *value
    Py_ssize_t value_size
    const char *tail
    Py_ssize_t tail_size


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
    cdef public bint split_from
    cdef public int32_t attempts
    cdef public int32_t base_sequence
    cdef public int16_t producer_epoch
    cdef public int64_t producer_id
    cdef public int64_t last_attempt_ms
    cdef public int64_t drained_ms
    cdef public object tag
    cdef public object waiting
    cdef object _buffer
    cdef object _packed
    cdef Export _held
    cdef bint _holds
    cdef uint8_t *_start
    cdef Py_ssize_t _room
    cdef Py_ssize_t _size
    # deliveries and functions in turn: a pair of them would be one more object for the collector
    cdef list _callbacks
    cdef bint _callbacks_mixed
    cdef dict _errors
    cdef list _parts
    cdef list _part_starts

    def __init__(
        self, topic, int32_t partition, Py_ssize_t capacity_bytes, int64_t created_ms, buffer=None, waiting=None
    ):
        if self._holds:
            raise LocalProtocolViolation("a batch is made once")
        self.topic = topic
        self.partition = partition
        self.capacity_bytes = capacity_bytes
        self.created_ms = created_ms
        self.waiting = waiting
        self.base_timestamp = self.max_timestamp = self.base_offset = self.log_append_time = -1
        self.base_sequence = self.producer_epoch = -1
        self.producer_id = -1
        self.is_open = True
        self._size = BATCH_OVERHEAD
        self._callbacks = []
        self._hold(new_bytes(max(capacity_bytes, BATCH_OVERHEAD)) if buffer is None else buffer)

    def __dealloc__(self):
        if self._holds:
            PyBuffer_Release(&self._held.view)

    cdef int _hold(self, object buffer) except -1:
        """Write to this buffer from now on; while it is held nobody can resize it."""
        cdef Py_buffer view
        if not isinstance(buffer, bytearray):
            raise TypeError("a batch is written into a bytearray")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        if self._holds:
            PyBuffer_Release(&self._held.view)
        self._held.view = view
        self._holds = True
        self._buffer = buffer
        self._start = <uint8_t *>view.buf
        self._room = view.len
        return 0

    cdef int _grow(self, Py_ssize_t wanted) except -1:
        cdef object larger
        if wanted > INT32_MAX:
            raise LocalProtocolViolation("a batch cannot pass 2 GiB")
        larger = new_bytes(max(wanted, min(2 * self._room, self.capacity_bytes)))
        memcpy(PyByteArray_AS_STRING(larger), self._start, min(self._size, self._room))
        self._hold(larger)
        return 0

    def extend(self, Py_ssize_t capacity_bytes, buffer=None):
        # Everything that can fail, or let another thread in, comes before the batch is looked at.
        cdef object larger = new_bytes(capacity_bytes) if buffer is None else buffer
        cdef object left
        if not isinstance(larger, bytearray):
            raise TypeError("a batch is written into a bytearray")
        if not self.is_open or len(<bytearray>larger) < self._size or capacity_bytes < self.capacity_bytes:
            return None
        memcpy(PyByteArray_AS_STRING(larger), self._start, self._size)
        left = self._buffer
        self._hold(larger)
        self.capacity_bytes = capacity_bytes
        return left

    @property
    def size_bytes(self):
        return self._size

    @property
    def parts(self):
        return list(self._parts) if self.is_split else []

    cdef int put(self, int64_t timestamp, const Piece *piece) except -1:
        """Add a record if the batch takes it; runs no Python code. Says whether it did."""
        cdef int64_t time_delta
        cdef Py_ssize_t body, needed
        cdef uint8_t *p
        if not self.is_open:
            return 0
        time_delta = odr_wrapped_difference(timestamp, self.base_timestamp) if self.count else 0
        body = (
            1 + int64_size(time_delta) + int64_size(self.count)
            + int64_size(piece.key_size) + (piece.key_size if piece.key_size > 0 else 0)
            + int64_size(piece.value_size) + (piece.value_size if piece.value_size > 0 else 0)
            + piece.tail_size
        )
        needed = self._size + int64_size(body) + body
        if needed > self.capacity_bytes and self.count:
            return 0
        if needed > self._room:
            self._grow(needed)
        p = put_varint(self._start + self._size, body)
        p[0] = 0
        p = put_varint(put_varint(p + 1, time_delta), self.count)
        p = put_field(p, piece.key, piece.key_size)
        p = put_field(p, piece.value, piece.value_size)
        memcpy(p, piece.tail, piece.tail_size)
        self._size = needed
        if self.count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return 1

    def append(self, int64_t timestamp, key, value, headers=None, on_delivery=None):
        cdef Field key_field, value_field
        cdef Piece piece
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef int taken
        if timestamp < -1:
            raise LocalProtocolViolation(f"no record can have timestamp {timestamp}")
        encoded = b"\0" if headers is None else encode_headers(headers)
        piece.tail = PyBytes_AS_STRING(encoded)
        piece.tail_size = PyBytes_GET_SIZE(encoded)
        open_field(key, &key_field)
        try:
            open_field(value, &value_field)
            try:
                piece.key, piece.key_size = key_field.start, key_field.size
                piece.value, piece.value_size = value_field.start, value_field.size
                delivery.timestamp = timestamp
                taken = self.put_delivered(&piece, delivery, on_delivery)
            finally:
                close_field(&value_field)
        finally:
            close_field(&key_field)
        return delivery if taken else None

    cdef inline int put_delivered(self, const Piece *piece, Delivery delivery, object on_delivery) except -1:
        if not self.put(delivery.timestamp, piece):
            return 0
        delivery._batch = self
        delivery.index = self.count - 1
        delivery.serialized_key_size = <int32_t>piece.key_size
        delivery.serialized_value_size = <int32_t>piece.value_size
        if on_delivery is not None:
            self.add_callback(delivery, on_delivery)
        return 1

    cdef inline int add_callback(self, Delivery delivery, object function) except -1:
        """Runs no Python code."""
        self._callbacks.append(delivery)
        self._callbacks.append(function)
        return 0

    def append_columns(self, RecordColumns columns, Py_ssize_t start, Py_ssize_t stop, int64_t now_ms):
        cdef Piece piece
        cdef int64_t timestamp
        cdef Py_ssize_t row = start
        columns.check_range(start, stop)
        while row < stop:
            if not columns.load(row, &piece, &timestamp, now_ms) or not self.put(timestamp, &piece):
                break
            row += 1
        return row - start

    def seal(self):
        self.is_open = False

    def plain_records(self):
        return memoryview(self._buffer_in_use())[BATCH_OVERHEAD : self._size]

    cdef object _buffer_in_use(self):
        if self._buffer is None:
            raise LocalProtocolViolation("the buffer of this batch has been given back")
        return self._buffer

    def finish(
        self, int16_t attributes, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, records=None
    ):
        cdef object whole = self._buffer_in_use()
        cdef Py_ssize_t size = self._size
        if self.count == 0:
            raise LocalProtocolViolation("a batch without records is not sent")
        self.is_open = False
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if records is not None:
            self._packed = packed_after_header(records)
        if attributes & CODEC_MASK:
            if self._packed is None:
                raise LocalProtocolViolation("a compressed batch needs its compressed records")
            whole = self._packed
            size = len(whole)
        self._write_header(<uint8_t *>PyByteArray_AS_STRING(whole), size, attributes)
        return memoryview(whole)[:size]

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
        crc = odr_crc(0, p + CRC_START, size - CRC_START)
        odr_put(p + 17, crc, 4)
        return 0

    def take_buffer(self):
        if not self.done:
            raise LocalProtocolViolation("a batch keeps its buffer until it is done")
        buffer, self._buffer = self._buffer, None
        self._packed = None
        if self._holds:
            self._holds = False
            PyBuffer_Release(&self._held.view)
        self._start = NULL
        self._room = 0
        return buffer

    # ---- what became of it ----

    def complete(self, int64_t base_offset, int64_t log_append_time=-1):
        if self.done:
            return False
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._settle()
        return True

    def fail(self, error):
        if self.done:
            return False
        self.error = error
        self._settle()
        return True

    def fail_records(self, errors, otherwise):
        cdef dict known = dict(errors)
        if self.done:
            return False
        self._errors = known
        self.error = otherwise
        self._settle()
        return True

    cdef int _settle(self) except -1:
        cdef list callbacks
        self.is_open = False
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        calls = calls_of(callbacks, self._callbacks_mixed)
        waiting = self.waiting
        if waiting is not None:
            waiting.deliver(self, calls)
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
        cdef Py_ssize_t low, high, begins
        if self.is_split:
            acknowledged, failed, first_error = 0, 0, None
            for begins, part in zip(self._part_starts, self._parts):
                low, high = max(first_index, begins), min(first_index + count, begins + part.count)
                if low < high:
                    good, bad, error = part.outcome(low - begins, high - low)
                    acknowledged += good
                    failed += bad
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
            raise LocalProtocolViolation("a batch that is done has nothing to split")
        self.is_open = False
        parts, starts = self._cut(capacity_bytes)
        self._parts, self._part_starts = parts, starts
        self.is_split = True
        callbacks, self._callbacks = self._callbacks, []
        move_callbacks(callbacks, self._callbacks_mixed)
        self._settle()
        return list(parts)

    cdef tuple _cut(self, Py_ssize_t capacity_bytes):
        cdef Cursor at
        cdef Parts found
        cdef Piece piece
        cdef int32_t index
        cdef int64_t timestamp
        cdef ProducerBatch part = None
        cdef list parts = [], starts = []
        self._buffer_in_use()
        at.p = self._start + BATCH_OVERHEAD
        at.end = self._start + self._size
        for index in range(self.count):
            take_record(&at, &found)
            timestamp = odr_wrapped_sum(self.base_timestamp, found.timestamp_delta)
            piece.key, piece.key_size = <const char *>found.key, found.key_size
            piece.value, piece.value_size = <const char *>found.value, found.value_size
            piece.tail = <const char *>found.value + max(found.value_size, 0)
            piece.tail_size = <const char *>found.end - piece.tail
            if part is None or not part.put(timestamp, &piece):
                part = self._part(capacity_bytes)
                part.put(timestamp, &piece)
                parts.append(part)
                starts.append(index)
        for part in parts:
            part.is_open = False
        return parts, starts

    cdef ProducerBatch _part(self, Py_ssize_t capacity_bytes):
        cdef ProducerBatch part = ProducerBatch(
            self.topic, self.partition, capacity_bytes, self.created_ms, None, self.waiting
        )
        part.split_from = True
        part.in_retry = self.in_retry
        part.attempts = self.attempts
        part.last_attempt_ms = self.last_attempt_ms
        part.drained_ms = self.drained_ms
        part.tag = self.tag
        return part

    cdef ProducerBatch part_with(self, int32_t *index):
        """The batch that holds the record now, and its index there."""
        cdef ProducerBatch batch = self
        cdef Py_ssize_t at
        while batch.is_split:
            at = len(batch._part_starts) - 1
            while batch._part_starts[at] > index[0]:
                at -= 1
            index[0] -= batch._part_starts[at]
            batch = batch._parts[at]
        return batch


cdef object new_bytes(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef object packed_after_header(object records):
    """A buffer with room for the header, then compressed records."""
    cdef Py_buffer view
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len > INT32_MAX - BATCH_OVERHEAD:
            raise LocalProtocolViolation("a batch cannot pass 2 GiB")
        packed = new_bytes(BATCH_OVERHEAD + view.len)
        memcpy(PyByteArray_AS_STRING(packed) + BATCH_OVERHEAD, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return packed


def record_size_upper_bound(key, value, headers=None):
    cdef Py_ssize_t size = 1 + 5 + 10 + 5 + 5 + 5
    encoded = b"\0" if headers is None else encode_headers(headers)
    if key is not None:
        size += memoryview(key).nbytes
    if value is not None:
        size += memoryview(value).nbytes
    return size + PyBytes_GET_SIZE(encoded)


def refused_delivery(topic, int32_t partition, int64_t timestamp, error):
    cdef Delivery delivery = Delivery.__new__(Delivery)
    cdef ProducerBatch batch = ProducerBatch(topic, partition, 0, timestamp)
    batch.error = error
    batch.is_open = False
    batch.done = True
    batch.take_buffer()
    delivery._batch = batch
    delivery.timestamp = timestamp
    delivery.serialized_key_size = delivery.serialized_value_size = -1
    return delivery
