# A record as a consumer gets it; ``_consumer_record_py`` says what every field means. Part of ``_codec``.

cdef tuple TIMESTAMP_TYPES = (None, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


# Nothing that the collector tracks: bytes, text and numbers cannot refer back, and it need not look at
# thousands of records at every poll.
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
    # -1 none, 0 create time, 1 append time
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

    # For annotations, as in ConsumerRecord[str, bytes]; nothing is checked.
    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[self._timestamp_type + 1]

    def deserialized(self, key, value):
        cdef ConsumerRecord made = ConsumerRecord.__new__(ConsumerRecord)
        made.topic = self.topic
        made.key = key
        made.value = value
        made.headers = self.headers
        made.offset = self.offset
        made.timestamp = self.timestamp
        made.partition = self.partition
        made.leader_epoch = self.leader_epoch
        made.serialized_key_size = self.serialized_key_size
        made.serialized_value_size = self.serialized_value_size
        made._timestamp_type = self._timestamp_type
        return made

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
