# The records of one partition in a fetch answer; ``_record_reader_py`` says what every method means. Part of
# ``_codec``.
#
# The fetched bytes stay exported while the reader lives, and so do the decompressed ones of the batch that is
# being read. The lock is let go while checksums are taken and columns filled; a second thread that comes
# meanwhile is told so.

cdef enum:
    BATCHES_WALKED_MAX = 1024


cdef class RecordReader:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int32_t leader_epoch
    cdef readonly int64_t next_offset
    cdef readonly bint exhausted
    cdef readonly bint cut_off
    cdef Export _fetched
    cdef bint _held
    cdef bint _busy
    cdef bint _check_crcs
    cdef Py_ssize_t _bytes_max
    cdef Py_ssize_t _position
    cdef object _buffer
    # the batch being read
    cdef bint _inside
    cdef Py_ssize_t _batch_position
    cdef int64_t _base_offset
    cdef int64_t _last_offset
    cdef int64_t _timestamp
    cdef bint _fixed
    cdef int _timestamp_type
    cdef int32_t _left
    cdef Cursor _at
    cdef Export _content
    cdef bint _content_held
    cdef object _messages
    cdef object _pending
    cdef object _failure
    # aborted transactions, the earliest last; None reads uncommitted records too
    cdef list _aborted
    cdef set _aborted_ids

    def __init__(
        self, buffer, topic, int32_t partition, int64_t start_offset, *, aborted=None, bint check_crcs=True,
        Py_ssize_t decompressed_bytes_max=DECOMPRESSED_BYTES_MAX
    ):
        if self._held:
            raise LocalProtocolViolation("a reader is made once")
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
        self._held = True
        self._buffer = buffer
        self._look_ahead()

    def __dealloc__(self):
        self._release_content()
        if self._held:
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
        found = None
        for _ in range(BATCHES_WALKED_MAX):
            if left < BATCH_OVERHEAD:
                return found
            size = odr_int32(p + 8)
            if size <= 0 or p[16] != 2:
                return None
            size += LOG_OVERHEAD
            if size > left:
                return found
            base = odr_int64(p)
            last_delta = odr_int32(p + 23)
            if base < 0 or last_delta < 0 or base > INT64_MAX - 1 - last_delta:
                return None
            found = base + last_delta + 1
            p += size
            left -= size
        return None

    # ---- from batch to batch ----

    cdef void _release_content(self) noexcept:
        if self._content_held:
            self._content_held = False
            PyBuffer_Release(&self._content.view)

    cdef int _fail(self, object code, str why) except -1:
        """Remember what is wrong with the batch at hand; whoever asks for records is told, every time."""
        cdef const uint8_t *p = <const uint8_t *>self._fetched.view.buf + self._batch_position
        offset = odr_int64(p) if self._fetched.view.len - self._batch_position >= 8 else -1
        self._inside = False
        self._messages = None
        self._failure = (code, (
            f"{self.topic}-{self.partition}: the batch at offset {offset} (byte {self._batch_position} of what was "
            f"fetched) cannot be read: {why}"
        ))
        return 0

    cdef bint _look_ahead(self) noexcept:
        """Whether something follows that is more than a batch that was cut off."""
        cdef Py_ssize_t left = self._fetched.view.len - self._position
        cdef const uint8_t *p = <const uint8_t *>self._fetched.view.buf + self._position
        cdef int64_t size
        if left >= LOG_OVERHEAD:
            size = odr_int32(p + 8)
            if size < 14 or (left > LOG_OVERHEAD + 4 and (p[16] > 2 or left >= size + LOG_OVERHEAD)):
                return True
        self.cut_off = left > 0
        self.exhausted = True
        return False

    cdef bint _enter(self, int64_t stop_offset) except -1:
        """Go into the next batch that has records for us; False at the end, at ``stop_offset``, or if it cannot be
        read."""
        cdef const uint8_t *p
        cdef int64_t size, smallest
        while self._failure is None and self.next_offset < stop_offset and self._look_ahead():
            self._batch_position = self._position
            p = <const uint8_t *>self._fetched.view.buf + self._position
            size = odr_int32(p + 8)
            if size < 14:
                self._fail(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than any batch has")
            elif p[16] > 2:
                self._fail(ErrorCode.CORRUPT_MESSAGE, f"there is no magic {p[16]}")
            else:
                smallest = 14 if p[16] == 0 else 22 if p[16] == 1 else BATCH_OVERHEAD - LOG_OVERHEAD
                if size < smallest:
                    self._fail(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a header of magic {p[16]} has")
                elif self._enter_batch(p, size + LOG_OVERHEAD) if p[16] == 2 else self._enter_message(p, size):
                    self._inside = True
                    return True
        return False

    cdef int _pass(self, int64_t last_offset) except -1:
        """Go on after the batch at hand."""
        self._inside = False
        self._messages = None
        self._release_content()
        if last_offset < INT64_MAX and last_offset >= self.next_offset:
            self.next_offset = last_offset + 1
        return 0

    cdef bint _crc_fits(self, const uint8_t *p, int64_t size) noexcept:
        cdef bint fits
        if size < UNLOCKED_BYTES_MIN:
            return odr_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)
        with nogil:
            fits = odr_crc(0, p + CRC_START, size - CRC_START) == <uint32_t>odr_int32(p + 17)
        return fits

    cdef bint _enter_batch(self, const uint8_t *p, int64_t size) except -1:
        cdef int64_t base = odr_int64(p)
        cdef int32_t last_delta = odr_int32(p + 23)
        cdef int32_t count = odr_int32(p + 57)
        cdef int attributes = p[22]
        if self._check_crcs and not self._crc_fits(p, size):
            self._fail(ErrorCode.CORRUPT_MESSAGE, "its checksum is not that of its bytes")
            return False
        if base < 0 or last_delta < 0 or count < 0 or base > INT64_MAX - 1 - last_delta:
            self._fail(
                ErrorCode.CORRUPT_MESSAGE, f"no batch has {count} records in {last_delta} and 1 offsets from {base} on"
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
        self._at.p = p + BATCH_OVERHEAD
        self._at.end = p + size
        if self._aborted is not None and odr_int64(p + 43) >= 0 and self._is_aborted(p, attributes):
            self._pass(self._last_offset)
            return False
        if self._failure is not None:
            return False
        if attributes & CONTROL_BIT or self._last_offset < self.next_offset:
            self._pass(self._last_offset)
            return False
        return self._open_content(attributes & CODEC_MASK)

    cdef bint _open_content(self, int codec_id) except -1:
        """Find the records, decompressed if need be."""
        if not codec_id:
            return True
        try:
            start = self._at.p - <const uint8_t *>self._fetched.view.buf
            content = decompress(codec_id, memoryview(self._buffer)[start : self._position], self._bytes_max)
        except BrokerError as refusal:
            self._fail(refusal.code, refusal.message)
            return False
        self._release_content()
        PyObject_GetBuffer(content, &self._content.view, PyBUF_SIMPLE)
        self._content_held = True
        self._at.p = <const uint8_t *>self._content.view.buf
        self._at.end = self._at.p + self._content.view.len
        return True

    cdef bint _is_aborted(self, const uint8_t *p, int attributes) except -1:
        """Whether the records of a producer's batch belong to an aborted transaction."""
        producer_id = odr_int64(p + 43)
        while self._aborted and self._aborted[len(self._aborted) - 1][0] <= self._last_offset:
            self._aborted_ids.add(self._aborted.pop()[1])
        if attributes & CONTROL_BIT:
            if self._is_abort_marker(attributes & CODEC_MASK):
                self._aborted_ids.discard(producer_id)
            return False
        return attributes & TRANSACTIONAL_BIT and producer_id in self._aborted_ids

    cdef bint _is_abort_marker(self, int codec_id) except -1:
        cdef Parts parts
        cdef Verdict verdict
        if not self._left or not self._open_content(codec_id):
            return False
        verdict = take_record(&self._at, &parts)
        if verdict != FINE:
            self._fail(ErrorCode.INVALID_RECORD, _WHY[verdict])
        elif parts.key_size < 4 or odr_int16(parts.key) < 0:
            self._fail(ErrorCode.INVALID_RECORD, "a control record's key is none")
        else:
            return odr_int16(parts.key + 2) == 0
        return False

    cdef bint _enter_message(self, const uint8_t *p, int64_t size) except -1:
        """Go into a message of magic 0 or 1, or into what it wraps."""
        header = message_header(p, self._position)
        self.leader_epoch = -1
        self._timestamp_type = -1 if p[16] == 0 else 1 if p[17] & APPEND_TIME_BIT else 0
        self._last_offset = odr_int64(p)
        self._position += size + LOG_OVERHEAD
        if self._last_offset < 0 or self._last_offset == INT64_MAX:
            self._fail(ErrorCode.CORRUPT_MESSAGE, f"no message has offset {self._last_offset}")
            return False
        self._messages = read_message(self._buffer, header, self._bytes_max)
        return True

    # ---- records ----

    cdef int _begin(self) except -1:
        if self._busy:
            raise ConcurrentUse("these records are being read in another thread")
        self._busy = True
        return 0

    cdef int _raise_failure(self) except -1:
        code, words = self._failure
        raise RecordCorrupt(words, code=code, retriable=False)

    def take(self, Py_ssize_t records_max):
        cdef list taken = []
        self._begin()
        try:
            while len(taken) < records_max and (self._inside or self._enter(INT64_MAX)):
                if self._messages is None:
                    self._take_records(taken, records_max)
                else:
                    self._take_messages(taken, records_max)
                if self._failure is not None:
                    break
            if self._failure is None and not self._inside:
                self._look_ahead()
        finally:
            self._busy = False
        if self._failure is not None and records_max > 0 and not taken:
            self._raise_failure()
        return taken

    cdef inline bint _is_misplaced(self, const Parts *parts) noexcept nogil:
        return parts.offset_delta < 0 or parts.offset_delta > self._last_offset - self._base_offset

    cdef int _end_batch(self, Verdict verdict) except -1:
        """After a run over records: go on, or remember what is wrong."""
        if verdict != FINE:
            self._fail(ErrorCode.INVALID_RECORD, _WHY[verdict])
        elif self._left == 0:
            if self._at.p != self._at.end:
                self._fail(ErrorCode.INVALID_RECORD, _WHY[SURPLUS])
            else:
                self._pass(self._last_offset)
        return 0

    cdef int _take_records(self, list taken, Py_ssize_t records_max) except -1:
        cdef Cursor at
        cdef Parts parts
        cdef Verdict verdict = FINE
        cdef int64_t offset
        cdef Py_ssize_t room = records_max - len(taken)
        while self._left and room > 0:
            at = self._at
            verdict = take_record(&at, &parts)
            if verdict == FINE and self._is_misplaced(&parts):
                verdict = OUTSIDE
            if verdict != FINE:
                break
            offset = self._base_offset + parts.offset_delta
            if offset >= self.next_offset:
                taken.append(self._record(&parts, offset))
                self.next_offset = offset + 1
                room -= 1
            self._at = at
            self._left -= 1
        return self._end_batch(verdict)

    cdef ConsumerRecord _record(self, Parts *parts, int64_t offset):
        cdef ConsumerRecord made = ConsumerRecord.__new__(ConsumerRecord)
        made.topic = self.topic
        made.key = field_bytes(parts.key, parts.key_size)
        made.value = field_bytes(parts.value, parts.value_size)
        made.headers = read_record_headers(parts) if parts.header_count else NO_HEADERS
        made.offset = offset
        made.timestamp = timestamp_of(parts, self._timestamp, self._fixed)
        made.partition = self.partition
        made.leader_epoch = self.leader_epoch
        made.serialized_key_size = parts.key_size if parts.key_size >= 0 else -1
        made.serialized_value_size = parts.value_size if parts.value_size >= 0 else -1
        made._timestamp_type = self._timestamp_type
        return made

    cdef object _next_message(self):
        """The next record of an old message that is for us; None at its end or if it cannot be read."""
        record, self._pending = self._pending, None
        if record is not None:
            return record
        try:
            for message in self._messages:
                record = message.record
                # The wrapper of a producer that did not care has offset 0, and says nothing about those inside.
                if record.offset > (self._last_offset or INT64_MAX - 1):
                    why = f"offset {record.offset} is inside a message that ends before"
                    self._fail(ErrorCode.CORRUPT_MESSAGE, why)
                    return None
                if record.offset >= self.next_offset:
                    return record
        except BrokerError as refusal:
            self._fail(refusal.code, refusal.message)
            return None
        self._pass(self._last_offset)
        return None

    cdef int _take_messages(self, list taken, Py_ssize_t records_max) except -1:
        while len(taken) < records_max:
            record = self._next_message()
            if record is None:
                return 0
            offset, timestamp, key, value, headers = record
            taken.append(ConsumerRecord(
                self.topic, self.partition, offset, timestamp, TIMESTAMP_TYPES[self._timestamp_type + 1], key, value,
                headers, -1, -1 if key is None else len(key), -1 if value is None else len(value),
            ))
            self.next_offset = offset + 1
        return 0

    # ---- columns ----

    def take_columns(self, Py_ssize_t records_max, ColumnBuilder into not None, int64_t stop_offset=INT64_MAX):
        cdef Py_ssize_t before = into._sheet.row_count
        cdef Py_ssize_t room = records_max
        cdef Added added = ROW_ADDED
        cdef int32_t topic_index
        cdef Py_ssize_t topic_count = len(into._topics)
        self._begin()
        try:
            if into._busy:
                raise ConcurrentUse("columns are being filled in another thread")
            into._busy = True
            try:
                while (
                    room > 0 and added == ROW_ADDED and self.next_offset < stop_offset
                    and (self._inside or self._enter(stop_offset))
                ):
                    topic_index = into.topic_index(self.topic)
                    if self._messages is None:
                        added = self._fill_records(&into._sheet, topic_index, room, stop_offset)
                    else:
                        added = self._fill_messages(&into._sheet, topic_index, room, stop_offset)
                    room = records_max - (into._sheet.row_count - before)
                    if self._failure is not None:
                        break
                if self._failure is None and not self._inside:
                    self._look_ahead()
            finally:
                into._busy = False
                if into._sheet.row_count == before:
                    into.keep_topics(topic_count)
        finally:
            self._busy = False
        if added == ROW_LOST:
            raise MemoryError
        if self._failure is not None and records_max > 0 and into._sheet.row_count == before:
            self._raise_failure()
        return into._sheet.row_count - before

    cdef Added _fill_records(
        self, Sheet *sheet, int32_t topic_index, Py_ssize_t room, int64_t stop_offset
    ) except? ROW_LOST:
        cdef Verdict verdict = FINE
        cdef Added added
        cdef Shared shared
        cdef Py_ssize_t content_bytes = self._at.end - self._at.p
        cdef Py_ssize_t bytes_left = self._fetched.view.len - self._position + content_bytes
        # As if all records were like those of this batch.
        cdef Py_ssize_t record_bytes = max(content_bytes / max(self._left, 1), 1)
        cdef Py_ssize_t rows_max = min(min(room, self._left), content_bytes // RECORD_BYTES_MIN + 1)
        shared.topic_index = topic_index
        shared.partition = self.partition
        shared.timestamp_type = self._timestamp_type
        reuse_blocks(sheet, min(bytes_left, record_bytes * room), min(bytes_left / record_bytes, room))
        with nogil:
            added = ROW_LOST
            if reserve_rows(sheet, rows_max):
                added = self._fill(sheet, &shared, rows_max, stop_offset, &verdict)
        self._end_batch(verdict)
        return added

    cdef Added _fill(
        self, Sheet *sheet, const Shared *shared, Py_ssize_t room, int64_t stop_offset, Verdict *verdict
    ) noexcept nogil:
        cdef Cursor at
        cdef Parts parts
        cdef int64_t offset
        cdef Added added = ROW_ADDED
        while self._left and room > 0 and self.next_offset < stop_offset:
            at = self._at
            verdict[0] = take_record(&at, &parts)
            if verdict[0] == FINE and self._is_misplaced(&parts):
                verdict[0] = OUTSIDE
            if verdict[0] != FINE:
                break
            offset = self._base_offset + parts.offset_delta
            if offset >= stop_offset:
                # Nothing is left before it: who stops there goes on there.
                self.next_offset = stop_offset
                return ROW_BEYOND
            if offset >= self.next_offset:
                added = add_row(sheet, shared, offset, timestamp_of(&parts, self._timestamp, self._fixed), &parts)
                if added != ROW_ADDED:
                    break
                self.next_offset = offset + 1
                room -= 1
            self._at = at
            self._left -= 1
        return added

    cdef Added _fill_messages(
        self, Sheet *sheet, int32_t topic_index, Py_ssize_t room, int64_t stop_offset
    ) except? ROW_LOST:
        cdef Parts parts
        cdef Added added = ROW_ADDED
        cdef Shared shared
        shared.topic_index = topic_index
        shared.partition = self.partition
        shared.timestamp_type = self._timestamp_type
        while room > 0 and self.next_offset < stop_offset:
            record = self._next_message()
            if record is None:
                return ROW_ADDED
            offset, timestamp, key, value, _ = record
            if offset >= stop_offset:
                self._pending = record
                self.next_offset = stop_offset
                return ROW_BEYOND
            parts.header_count = 0
            parts.key = <const uint8_t *>PyBytes_AS_STRING(key or b"")
            parts.key_size = -1 if key is None else <int32_t>len(key)
            parts.value = <const uint8_t *>PyBytes_AS_STRING(value or b"")
            parts.value_size = -1 if value is None else <int32_t>len(value)
            # Only how much there is: fields of old messages do not lie side by side here.
            parts.end = parts.key + max(parts.key_size, parts.value_size, 0)
            parts.headers = parts.end
            added = add_row(sheet, &shared, offset, timestamp, &parts) if reserve_rows(sheet, 1) else ROW_LOST
            if added != ROW_ADDED:
                self._pending = record
                return added
            self.next_offset = offset + 1
            room -= 1
        return ROW_ADDED
