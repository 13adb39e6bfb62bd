# The handle on one record that was sent; ``_delivery_py`` says what every method means. Part of ``_codec``.

# Nothing that the collector tracks: a program may hold a million of these. What a batch refers back to (its
# callbacks) is let go when it is done, so no circle outlives that.
@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Delivery:
    cdef ProducerBatch _batch
    cdef readonly int64_t timestamp
    cdef readonly int32_t index
    cdef readonly int32_t serialized_key_size
    cdef readonly int32_t serialized_value_size

    def __init__(self):
        raise TypeError("sending a record makes its delivery")

    def __reduce__(self):
        raise TypeError("a delivery cannot leave the producer that made it")

    @property
    def batch(self):
        cdef int32_t index = self.index
        return self._batch.part_with(&index)

    @property
    def topic(self):
        return self._batch.topic

    @property
    def partition(self):
        return self._batch.partition

    def done(self):
        cdef int32_t index = self.index
        return self._batch.part_with(&index).done

    cdef tuple metadata_and_error(self):
        cdef int32_t index = self.index
        cdef ProducerBatch batch = self._batch.part_with(&index)
        cdef object error = batch.error_of(index)
        if error is not None:
            return None, error
        return RecordMetadata(
            batch.topic,
            batch.partition,
            -1 if batch.base_offset < 0 else batch.base_offset + index,
            self.timestamp if batch.log_append_time == -1 else batch.log_append_time,
            self.serialized_key_size,
            self.serialized_value_size,
        ), None

    cdef int _wait(self, timeout_s) except -1:
        cdef int32_t index = self.index
        cdef ProducerBatch batch = self._batch.part_with(&index)
        while not batch.done:
            waiting_of(batch).wait(batch, timeout_s)
            index = self.index
            batch = self._batch.part_with(&index)
        return 0

    def result(self, timeout_s=None):
        self._wait(timeout_s)
        return outcome_of(self)

    def exception(self, timeout_s=None):
        self._wait(timeout_s)
        return self.metadata_and_error()[1]

    def add_done_callback(self, function):
        cdef int32_t index = self.index
        cdef ProducerBatch batch
        entry = (self, function, True)
        batch = self._batch.part_with(&index)
        if batch.done:
            function(self)
            return
        batch._callbacks_mixed = True
        batch._callbacks.append(entry)

    def __await__(self):
        return awaited(self).__await__()

    def __repr__(self):
        state = "pending"
        if self.done():
            state = "failed" if self.metadata_and_error()[1] is not None else "delivered"
        return f"<Delivery to {self.topic}-{self.partition}, {state}>"


async def awaited(Delivery delivery):
    while not delivery.done():
        await waiting_of(delivery.batch).future(delivery.batch)
    return outcome_of(delivery)


cdef object waiting_of(ProducerBatch batch):
    if batch.waiting is None:
        raise InvalidState("nobody tells when this batch is done")
    return batch.waiting


cdef object outcome_of(Delivery delivery):
    metadata, error = delivery.metadata_and_error()
    if error is not None:
        raise error
    return metadata


def index_of_callback(entry):
    return (<Delivery>entry[0]).index


cdef object call_of(object entry):
    """A function of the user and its arguments."""
    cdef Delivery delivery = entry[0]
    if entry[2]:
        return entry[1], (delivery,)
    return entry[1], delivery.metadata_and_error()


cdef int move_callback(object entry, bint mixed) except -1:
    cdef Delivery delivery = entry[0]
    cdef int32_t index = delivery.index
    cdef ProducerBatch part = delivery._batch.part_with(&index)
    part._callbacks_mixed = mixed
    part._callbacks.append(entry)
    return 0
