# Buffers that fetched bytes are received into; ``_record_reader_py`` says what ``allocate_fetch_buffer`` gives. Part of
# ``_codec``.
#
# A consumer gets megabytes at a time, and memory that comes fresh from the system costs more, page by page,
# than receiving into it. So a few blocks are kept when the last view of them goes, and given out again.

cdef enum:
    KEPT_ANSWERS = 3
    ANSWER_BYTES_MIN = 65536
    ANSWER_BYTES_MAX = 16777216
    # A kept block may be so many times larger than what is asked for.
    ANSWER_SLACK = 4

cdef struct Block:
    uint8_t *start
    Py_ssize_t room

# Touched with the interpreter lock held, only.
cdef Block kept_answers[KEPT_ANSWERS]
memset(kept_answers, 0, sizeof(kept_answers))


# The C library learns from large blocks that are freed how much free memory to hold on to. Blocks that are kept
# here teach it nothing, and it would give back the pages of all records after each poll, to get them again for the
# next: at 1 KB that took half of a consumer's time. So it is shown a block of each larger size once.
cdef Py_ssize_t largest_shown = 0


cdef void show_size(Py_ssize_t size) noexcept:
    global largest_shown
    cdef uint8_t *shown
    if size > largest_shown:
        largest_shown = size
        shown = <uint8_t *>malloc(size)
        if shown != NULL:
            # A compiler leaves out what is never written to.
            (<volatile uint8_t *>shown)[0] = 0
            free(shown)


cdef class AnswerMemory:
    """One block, for as long as anybody has a view of it."""

    cdef Block _block
    cdef Py_ssize_t _size

    def __cinit__(self, Py_ssize_t size):
        cdef int index
        self._size = size
        for index in range(KEPT_ANSWERS):
            if size <= kept_answers[index].room <= ANSWER_SLACK * size:
                self._block = kept_answers[index]
                memset(&kept_answers[index], 0, sizeof(Block))
                return
        self._block.room = (size | 0xFFFF) + 1 if size >= ANSWER_BYTES_MIN else size
        show_size(self._block.room)
        self._block.start = <uint8_t *>malloc(self._block.room if self._block.room else 1)
        if self._block.start == NULL:
            raise MemoryError

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._block.start, self._size, 0, flags)

    def __dealloc__(self):
        cdef Block block = self._block
        cdef Block other
        cdef int index
        if ANSWER_BYTES_MIN <= block.room <= ANSWER_BYTES_MAX:
            # The largest ones stay: each place takes the larger of two and passes the smaller on.
            for index in range(KEPT_ANSWERS):
                if kept_answers[index].room < block.room:
                    other = kept_answers[index]
                    kept_answers[index] = block
                    block = other
        free(block.start)


def allocate_fetch_buffer(Py_ssize_t size):
    if size < 0:
        raise ValueError("negative count")
    return memoryview(AnswerMemory(size))
