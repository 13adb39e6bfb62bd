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
        made = odr_named_tuple(RecordMetadata, 6)
        fill(made, 0, batch.topic)
        fill(made, 1, batch.partition)
        fill(made, 2, -1 if batch.base_offset < 0 else batch.base_offset + index)
        fill(made, 3, self.timestamp if batch.log_append_time == -1 else batch.log_append_time)
        fill(made, 4, self.serialized_key_size)
        fill(made, 5, self.serialized_value_size)
        PyObject_GC_UnTrack(made)
        return made, None

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
        cdef DoneCallback wrapped = DoneCallback.__new__(DoneCallback)
        wrapped.function = function
        batch = self._batch.part_with(&index)
        if batch.done:
            function(self)
            return
        batch._callbacks_mixed = True
        batch.add_callback(self, wrapped)

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


@cython.final
cdef class DoneCallback:
    # A function that wants the delivery, not what became of it.
    cdef object function


cdef int64_t index_in(list callbacks, Py_ssize_t at):
    return (<Delivery>callbacks[at]).index


cdef list calls_of(list callbacks, bint mixed):
    """Functions of the user and their arguments, in the order of the records."""
    cdef Py_ssize_t at
    cdef Delivery delivery
    cdef list calls = []
    order = range(0, len(callbacks), 2)
    if mixed:
        order = sorted(order, key=lambda at: index_in(callbacks, at))
    for at in order:
        delivery = callbacks[at]
        function = callbacks[at + 1]
        if type(function) is DoneCallback:
            calls.append(((<DoneCallback>function).function, (delivery,)))
        else:
            calls.append((function, delivery.metadata_and_error()))
    return calls


cdef int move_callbacks(list callbacks, bint mixed) except -1:
    """Give callbacks to the parts that hold their records now."""
    cdef Py_ssize_t at
    cdef Delivery delivery
    cdef int32_t index
    cdef ProducerBatch part
    for at in range(0, len(callbacks), 2):
        delivery = callbacks[at]
        index = delivery.index
        part = delivery._batch.part_with(&index)
        part._callbacks_mixed = mixed
        part.add_callback(delivery, callbacks[at + 1])
    return 0
