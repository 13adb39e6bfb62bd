# The one call of every send; ``_appender_py`` says what every method means. Part of ``_codec``.
#
# Between looking up the open batch and having written to it no Python code runs, so that threads that send and
# the one that takes batches away never meet in between.

def murmur2(key):
    cdef Py_buffer view
    cdef uint32_t found
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    found = odr_murmur2(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return <int32_t>found


def partition_for_key(key, int32_t partition_count):
    if partition_count < 1:
        raise ValueError("a topic has a partition or more")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


cdef int64_t system_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef struct Touch:
    # A batch that a call wrote to: the reference is owned until the call's result is made.
    PyObject *batch
    int32_t partition
    int32_t first
    int32_t count


cdef enum:
    TURNS_MAX = 16


cdef class TopicSlot:
    # The open batches of one topic, by partition, its sticky partition, and those that follow it in turn.
    cdef list batches
    cdef int32_t partition_count
    cdef int32_t sticky
    cdef int64_t sticky_bytes
    cdef int64_t turn_bytes
    cdef int32_t turns[TURNS_MAX]
    cdef int turn_count
    cdef int turn_at
    cdef int32_t *marks

    def __cinit__(self):
        self.batches = []
        self.sticky = -1

    def __dealloc__(self):
        free(self.marks)

    cdef int resize(self, int32_t partition_count) except -1:
        cdef int32_t *moved = <int32_t *>realloc(self.marks, sizeof(int32_t) * max(partition_count, 1))
        if moved == NULL:
            raise MemoryError
        memset(moved, 0, sizeof(int32_t) * max(partition_count, 1))
        self.marks = moved
        kept = self.batches[:partition_count]
        self.batches = kept + [None] * (partition_count - len(kept))
        self.partition_count = partition_count
        self.turn_count = 0
        if self.sticky >= partition_count:
            self.sticky = -1
        return 0

    cdef inline int32_t advance_sticky(self) noexcept:
        """Stick to the partition whose turn is next; -1, and no change, after the last."""
        if self.turn_at >= self.turn_count:
            return -1
        self.sticky = self.turns[self.turn_at]
        self.sticky_bytes = 0
        self.turn_at += 1
        return self.sticky

    cdef inline int32_t sticky_now(self) noexcept:
        if self.turn_count and self.sticky_bytes >= self.turn_bytes:
            self.advance_sticky()
        return self.sticky

    cdef inline PyObject *open_batch(self, int32_t partition) noexcept:
        """The batch that takes a partition's records, borrowed; NULL if there is none."""
        cdef PyObject *found
        if partition < 0 or partition >= self.partition_count:
            return NULL
        found = PyList_GET_ITEM(self.batches, partition)
        return NULL if found == <PyObject *>None else found


cdef struct Touches:
    Touch *rows
    Py_ssize_t count
    Py_ssize_t room


cdef int touch(Touches *touches, TopicSlot slot, int32_t partition, PyObject *batch) except -1:
    """Remember how many records a batch has before this call's first; runs no Python code."""
    cdef Touch *moved
    if touches.count == touches.room:
        moved = <Touch *>realloc(touches.rows, sizeof(Touch) * max(2 * touches.room, 8))
        if moved == NULL:
            raise MemoryError
        touches.rows = moved
        touches.room = max(2 * touches.room, 8)
    touches.rows[touches.count].batch = batch
    touches.rows[touches.count].partition = partition
    touches.rows[touches.count].first = (<ProducerBatch>batch).count
    Py_INCREF(<object>batch)
    touches.count += 1
    slot.marks[partition] = 1
    return 0


cdef void close_touches(Touches *touches, TopicSlot slot) noexcept:
    """Take the counts while nobody else can append; runs no Python code."""
    cdef Py_ssize_t index
    cdef Touch *row
    for index in range(touches.count):
        row = &touches.rows[index]
        slot.marks[row.partition] = 0
        row.count = (<ProducerBatch>row.batch).count - row.first


cdef list touched_batches(Touches *touches):
    cdef Py_ssize_t index
    cdef Touch *row
    cdef list batches = []
    try:
        for index in range(touches.count):
            row = &touches.rows[index]
            if row.count:
                batches.append((<object>row.batch, row.first, row.count))
    finally:
        for index in range(touches.count):
            Py_DECREF(<object>touches.rows[index].batch)
        free(touches.rows)
    return batches


cdef class RecordAppender:
    cdef public bint paused
    cdef bint _ignore_keys
    cdef bint _only_given
    cdef object _slow
    cdef object _wall_ms
    cdef dict _topics

    def __init__(self, slow, wall_ms=None, *, bint ignore_keys=False, bint explicit_partitions_only=False):
        self._slow = slow
        self._wall_ms = wall_ms
        self._ignore_keys = ignore_keys
        self._only_given = explicit_partitions_only
        self._topics = {}

    # ---- which batch takes what ----

    def set_topic(self, str topic not None, int32_t partition_count):
        cdef TopicSlot slot
        if partition_count < 0:
            raise ValueError("a topic has no negative number of partitions")
        slot = self._topics.get(topic)
        if slot is None:
            slot = TopicSlot()
            slot.resize(partition_count)
            self._topics[topic] = slot
        elif slot.partition_count != partition_count:
            slot.resize(partition_count)

    def forget_topic(self, topic):
        self._topics.pop(topic, None)

    cdef TopicSlot _known(self, topic):
        cdef TopicSlot slot = self._topics.get(topic)
        if slot is None:
            raise KeyError(topic)
        return slot

    def set_sticky(self, topic, int32_t partition):
        cdef TopicSlot slot = self._known(topic)
        if partition >= slot.partition_count:
            raise ValueError(f"{topic} has no partition {partition}")
        slot.sticky = max(partition, -1)
        slot.sticky_bytes = 0
        slot.turn_count = 0

    def set_sticky_schedule(self, topic, partitions, int64_t turn_bytes):
        cdef TopicSlot slot = self._known(topic)
        cdef int32_t number
        cdef tuple given = tuple(partitions)[:TURNS_MAX]
        for number in given:
            if number < 0 or number >= slot.partition_count:
                raise ValueError(f"{topic} has no partition {number}")
        for index, number in enumerate(given):
            slot.turns[index] = number
        slot.turn_at = 0
        slot.turn_count = <int>len(given)
        slot.turn_bytes = turn_bytes

    def advance_sticky(self, topic):
        return self._known(topic).advance_sticky()

    def sticky(self, topic):
        return self._known(topic).sticky

    def sticky_bytes(self, topic):
        return self._known(topic).sticky_bytes

    def add_sticky_bytes(self, topic, int64_t added):
        cdef TopicSlot slot = self._known(topic)
        slot.sticky_bytes += added

    def set_open_batch(self, ProducerBatch batch not None):
        cdef TopicSlot slot = self._known(batch.topic)
        if batch.partition < 0 or batch.partition >= slot.partition_count:
            raise ValueError(f"{batch.topic} has no partition {batch.partition}")
        slot.batches[batch.partition] = batch

    def clear_open_batch(self, topic, int32_t partition):
        cdef TopicSlot slot = self._topics.get(topic)
        if slot is not None and 0 <= partition < slot.partition_count:
            slot.batches[partition] = None

    def clear_all(self):
        cdef TopicSlot slot
        for slot in list(self._topics.values()):
            slot.batches = [None] * slot.partition_count

    def open_batch(self, topic, int32_t partition):
        cdef TopicSlot slot = self._topics.get(topic)
        cdef PyObject *found = NULL if slot is None else slot.open_batch(partition)
        return None if found == NULL else <object>found

    # ---- sending ----

    cdef int _now(self, object given, int64_t *out) except -1:
        """The record's time, which may ask Python; 0 if it is none that a record can have."""
        cdef int overflow = 0
        if given is None:
            out[0] = system_ms() if self._wall_ms is None else self._wall_ms()
        elif PyLong_CheckExact(given):
            out[0] = PyLong_AsLongLongAndOverflow(given, &overflow)
        else:
            return 0
        return not overflow and out[0] >= 0

    cdef inline PyObject *_choose(self, object topic, object partition, Py_ssize_t *chosen) except? NULL:
        """The topic's slot, borrowed, and the partition asked for: -1 if the key or the sticky one decides."""
        cdef int overflow = 0
        cdef PyObject *found
        if self.paused or not PyUnicode_CheckExact(topic):
            return NULL
        found = PyDict_GetItemWithError(self._topics, topic)
        if found == NULL:
            return NULL
        if partition is None:
            chosen[0] = -1
            return NULL if self._only_given else found
        if not PyLong_CheckExact(partition):
            return NULL
        chosen[0] = PyLong_AsLongLongAndOverflow(partition, &overflow)
        return NULL if overflow or chosen[0] < 0 else found

    cdef inline int32_t _partition(self, TopicSlot slot, Py_ssize_t chosen, const Piece *piece, bint *sticks) noexcept:
        sticks[0] = False
        if chosen >= 0:
            return <int32_t>chosen if chosen <= INT32_MAX else -1
        if piece.key_size >= 0 and not self._ignore_keys:
            if slot.partition_count == 0:
                return -1
            return (odr_murmur2(<const uint8_t *>piece.key, piece.key_size) & 0x7FFFFFFF) % slot.partition_count
        sticks[0] = True
        return slot.sticky_now()

    def send(self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None):
        cdef Piece piece
        cdef object encoded = None
        cdef Delivery delivery
        cdef int64_t timestamp
        if load_plain(key, &piece.key, &piece.key_size) and load_plain(value, &piece.value, &piece.value_size):
            piece.tail = b"\0"
            piece.tail_size = 1
            if headers is not None:
                encoded = encode_plain_headers(headers)
                if encoded is not None:
                    piece.tail = PyBytes_AS_STRING(encoded)
                    piece.tail_size = PyBytes_GET_SIZE(encoded)
            if (headers is None or encoded is not None) and self._now(timestamp_ms, &timestamp):
                delivery = Delivery.__new__(Delivery)
                delivery.timestamp = timestamp
                if self._append(topic, partition, &piece, delivery, on_delivery):
                    return delivery
        return self._slow(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    cdef inline bint _append(
        self, object topic, object partition, const Piece *piece, Delivery delivery, object on_delivery
    ) except -1:
        cdef Py_ssize_t chosen
        cdef PyObject *found
        cdef PyObject *batch
        cdef Py_ssize_t before
        cdef bint sticks
        found = self._choose(topic, partition, &chosen)
        if found == NULL:
            return False
        batch = (<TopicSlot>found).open_batch(self._partition(<TopicSlot>found, chosen, piece, &sticks))
        if batch == NULL:
            return False
        before = (<ProducerBatch>batch)._size
        if not (<ProducerBatch>batch).put_delivered(piece, delivery, on_delivery):
            return False
        if sticks:
            (<TopicSlot>found).sticky_bytes += (<ProducerBatch>batch)._size - before
        return True

    def send_many(self, topic, values, keys=None, partition=None, timestamp_ms=None, Py_ssize_t start=0):
        cdef object seen_values = values if isinstance(values, (list, tuple)) else tuple(values)
        cdef object seen_keys = keys if keys is None or isinstance(keys, (list, tuple)) else tuple(keys)
        cdef int64_t timestamp
        cdef Touches touches
        cdef Py_ssize_t row
        if seen_keys is not None and len(seen_keys) != len(seen_values):
            raise ValueError(f"{len(seen_values)} values cannot have {len(seen_keys)} keys")
        if start < 0:
            raise ValueError("rows start at 0")
        touches.rows = NULL
        touches.count = touches.room = 0
        row = start
        if self._now(timestamp_ms, &timestamp):
            try:
                row = self._append_rows(topic, partition, seen_values, seen_keys, timestamp, start, &touches)
            except:
                touched_batches(&touches)
                raise
        return row, touched_batches(&touches)

    cdef Py_ssize_t _append_rows(
        self, object topic, object partition, object values, object keys, int64_t timestamp, Py_ssize_t row,
        Touches *touches
    ) except -1:
        cdef Py_ssize_t chosen
        cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(values)
        cdef PyObject *found = self._choose(topic, partition, &chosen)
        cdef TopicSlot slot
        cdef Piece piece
        cdef int32_t taken
        cdef bint sticks
        if found == NULL:
            return row
        slot = <TopicSlot>found
        piece.key = NULL
        piece.key_size = -1
        piece.tail = b"\0"
        piece.tail_size = 1
        try:
            while row < count:
                if not load_plain(<object>PySequence_Fast_GET_ITEM(values, row), &piece.value, &piece.value_size):
                    break
                if keys is not None and not load_plain(
                    <object>PySequence_Fast_GET_ITEM(keys, row), &piece.key, &piece.key_size
                ):
                    break
                taken = self._partition(slot, chosen, &piece, &sticks)
                if not self._append_row(slot, taken, sticks, timestamp, &piece, touches):
                    break
                row += 1
        finally:
            close_touches(touches, slot)
        return row

    cdef inline bint _append_row(
        self, TopicSlot slot, int32_t partition, bint sticks, int64_t timestamp, const Piece *piece, Touches *touches
    ) except -1:
        cdef PyObject *batch = slot.open_batch(partition)
        cdef Py_ssize_t before
        if batch == NULL:
            return False
        if not slot.marks[partition]:
            touch(touches, slot, partition, batch)
        before = (<ProducerBatch>batch)._size
        if not (<ProducerBatch>batch).put(timestamp, piece):
            return False
        if sticks:
            slot.sticky_bytes += (<ProducerBatch>batch)._size - before
        return True

    def append_columns(self, topic, RecordColumns columns not None, partitions, Py_ssize_t start, Py_ssize_t stop):
        cdef Touches touches
        cdef Py_ssize_t row = start
        cdef Py_buffer view
        cdef const int32_t *chosen = NULL
        cdef int64_t now_ms
        columns.check_range(start, stop)
        touches.rows = NULL
        touches.count = touches.room = 0
        if partitions is not None:
            PyObject_GetBuffer(partitions, &view, PyBUF_SIMPLE)
            chosen = <const int32_t *>view.buf
        try:
            if chosen != NULL and view.len // 4 < stop:
                raise ValueError("there are fewer partitions than rows")
            if self._now(None, &now_ms):
                row = self._append_table(topic, columns, chosen, start, stop, now_ms, &touches)
        except:
            touched_batches(&touches)
            raise
        finally:
            if partitions is not None:
                PyBuffer_Release(&view)
        return row, touched_batches(&touches)

    cdef Py_ssize_t _append_table(
        self, object topic, RecordColumns columns, const int32_t *partitions, Py_ssize_t row, Py_ssize_t stop,
        int64_t now_ms, Touches *touches
    ) except -1:
        cdef Py_ssize_t chosen
        # A partition is given: 0 stands for all, the rows have theirs.
        cdef PyObject *found = self._choose(topic, 0, &chosen)
        cdef TopicSlot slot
        cdef Piece piece
        cdef int64_t timestamp
        cdef int32_t taken
        cdef bint sticks
        if found == NULL:
            return row
        slot = <TopicSlot>found
        try:
            while row < stop:
                if not columns.load(row, &piece, &timestamp, now_ms):
                    break
                sticks = partitions == NULL or partitions[row] < 0
                taken = slot.sticky_now() if sticks else partitions[row]
                if not self._append_row(slot, taken, sticks, timestamp, &piece, touches):
                    break
                row += 1
        finally:
            close_touches(touches, slot)
        return row


cdef inline bint load_plain(object given, const char **start, Py_ssize_t *size) noexcept:
    """Point at the bytes of a field; False if it is neither plain bytes nor null."""
    if given is None:
        start[0] = NULL
        size[0] = -1
        return True
    if not PyBytes_CheckExact(given):
        return False
    start[0] = PyBytes_AS_STRING(given)
    size[0] = PyBytes_GET_SIZE(given)
    return True


cdef object encode_plain_headers(object headers):
    """Headers as they stand in a record; None if they are not plainly pairs of text and bytes."""
    cdef object pair
    if type(headers) is not list and type(headers) is not tuple:
        return None
    # Names and values are looked at and written from the same tuple, whoever changes the list meanwhile.
    cdef tuple given = tuple(headers)
    cdef Py_ssize_t size = 10
    cdef Py_ssize_t name_size
    cdef const char *name
    cdef const char *value = NULL
    cdef Py_ssize_t value_size = -1
    for pair in given:
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
    cdef uint8_t *p = put_varint(start, PyTuple_GET_SIZE(given))
    for pair in given:
        name = PyUnicode_AsUTF8AndSize((<tuple>pair)[0], &name_size)
        load_plain((<tuple>pair)[1], &value, &value_size)
        p = put_field(put_field(p, name, name_size), value, value_size)
    return PyBytes_FromStringAndSize(<const char *>start, p - start)
