# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Codecs of hot messages: reading and writing of wire types, and then the functions generated for the messages.

Reading functions return NULL, writing functions 0, for everything that is not both valid and usual: truncated
frames, null where there must be a value, numbers out of range, values of another type. An exception may be set or
not. The caller then discards what it has and calls the generated Python function, which defines the result.

Invariant: no byte is read and nothing is allocated before its length or count is compared with the remaining bytes.
Allocations may start the garbage collector, and the length of records is their own method: Python code that changes
messages may run there. Hence messages, lists and elements are held while their parts are written.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release
from cpython.object cimport Py_EQ, PyObject
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove


cdef extern from *:
    """
    #include "structmember.h"

    static inline PyObject *odr_new(PyTypeObject *cls) { return cls->tp_alloc(cls, 0); }

    static inline int odr_is(PyObject *value, PyTypeObject *cls) { return Py_TYPE(value) == cls; }

    /* Position of a slot in the objects of a class; -1 if it is not a slot of a plain class. */
    static Py_ssize_t odr_slot(PyTypeObject *cls, PyObject *name) {
        PyObject *slot = PyObject_GetAttr((PyObject *)cls, name);
        Py_ssize_t offset = -1;
        if (slot == NULL) { PyErr_Clear(); return -1; }
        if (Py_TYPE(slot) == &PyMemberDescr_Type && PyDescr_TYPE(slot) == cls && cls->tp_itemsize == 0
            && cls->tp_alloc == PyType_GenericAlloc) {
            PyMemberDef *member = ((PyMemberDescrObject *)slot)->d_member;
            if (member->type == T_OBJECT_EX && member->flags == 0 && member->offset >= (Py_ssize_t)sizeof(PyObject)
                && member->offset + (Py_ssize_t)sizeof(PyObject *) <= cls->tp_basicsize)
                offset = member->offset;
        }
        Py_DECREF(slot);
        return offset;
    }
    """
    ctypedef struct PyTypeObject:
        pass
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    ctypedef PyObject **Arguments "PyObject *const *"
    int METH_FASTCALL
    int METH_O
    PyObject *None_ "Py_None"
    PyObject *True_ "Py_True"
    PyObject *False_ "Py_False"
    PyObject *odr_new(PyTypeObject *cls)
    bint odr_is(PyObject *value, PyTypeObject *cls)
    Py_ssize_t odr_slot(PyTypeObject *cls, object name)
    # Borrowed references, and errors returned as values: the functions here do not raise.
    PyObject *Py_NewRef(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)
    void PyObject_GC_Track(PyObject *value)
    void PyObject_GC_UnTrack(PyObject *value)
    object PyCFunction_New(PyMethodDef *definition, object self)
    PyObject *PyErr_Occurred()
    bint PyErr_ExceptionMatches(object exception)
    void PyErr_Clear()
    int PyObject_GetBuffer(PyObject *value, Py_buffer *view, int flags)
    PyObject *PyBytes_FromStringAndSize(const char *start, Py_ssize_t size)
    bint PyByteArray_CheckExact(PyObject *value)
    bint PyBytes_CheckExact(PyObject *value)
    const uint8_t *PyBytes_AS_STRING(PyObject *value)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *value)
    bint PyList_CheckExact(PyObject *value)
    PyObject *PyList_New(Py_ssize_t count)
    int PyList_Append(PyObject *values, PyObject *value)
    Py_ssize_t PyList_GET_SIZE(PyObject *values)
    void PyList_SET_ITEM(PyObject *values, Py_ssize_t index, PyObject *value)
    bint PyLong_Check(PyObject *value)
    bint PyLong_CheckExact(PyObject *value)
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow)
    PyObject *PyLong_FromLong(long value)
    PyObject *PyLong_FromLongLong(long long value)
    bint PyMemoryView_Check(PyObject *value)
    PyObject *PyMemoryView_FromObject(PyObject *value)
    Py_buffer *PyMemoryView_GET_BUFFER(PyObject *view)
    int PyObject_RichCompareBool(PyObject *left, PyObject *right, int operation)
    Py_ssize_t PyObject_Size(PyObject *value)
    PyObject *PySequence_Fast_GET_ITEM(PyObject *values, Py_ssize_t index)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject *values)
    bint PyTuple_CheckExact(PyObject *value)
    const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size)
    bint PyUnicode_CheckExact(PyObject *value)
    PyObject *PyUnicode_DecodeUTF8(const char *start, Py_ssize_t size, const char *errors)
    PyTypeObject *Py_TYPE(PyObject *value)


cdef enum:
    UUID_BYTES = 16
    # Results of read_length and read_uvarint.
    NULL_LENGTH = -1
    MALFORMED = -2
    SMALL_MESSAGE_BYTES = 1024


cdef struct Reader:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    PyObject *frame


cdef struct Writer:
    uint8_t *start
    Py_ssize_t size
    Py_ssize_t capacity
    PyObject *parts  # NULL if records are copied into the message
    uint8_t small[SMALL_MESSAGE_BYTES]


ctypedef PyObject *(*Decode)(Reader *reader) noexcept
ctypedef bint (*Encode)(Writer *writer, PyObject *value) noexcept


# Slots.

cdef inline PyObject *slot(PyObject *message, Py_ssize_t offset) noexcept:
    """Return a borrowed reference, or NULL if the field was never set."""
    return (<PyObject **>(<char *>message + offset))[0]


cdef inline bint put(PyObject *message, Py_ssize_t offset, PyObject *value) noexcept:
    """Store a new reference; return whether there is one."""
    cdef PyObject **place = <PyObject **>(<char *>message + offset)
    cdef PyObject *before = place[0]
    if value == NULL:
        return 0
    place[0] = value
    Py_XDECREF(before)
    return 1


cdef inline int is_default(PyObject *value, PyObject *default) noexcept:
    """Return 1 or 0, or -1 if only Python can tell."""
    if value == default:
        return 1
    if value == NULL:
        return -1
    if default == None_:
        return 0
    return PyObject_RichCompareBool(value, default, Py_EQ) if Py_TYPE(value) == Py_TYPE(default) else -1


cdef inline int is_empty(PyObject *value) noexcept:
    return PyList_GET_SIZE(value) == 0 if value != NULL and PyList_CheckExact(value) else -1


# Reading.

cdef inline Py_ssize_t left(Reader *reader) noexcept:
    return reader.end - reader.at


cdef inline PyObject *bytes_of(const uint8_t *start, Py_ssize_t size) noexcept:
    return PyBytes_FromStringAndSize(<const char *>start, size)


cdef inline uint16_t load16(const uint8_t *p) noexcept:
    return <uint16_t>(p[0] << 8 | p[1])


cdef inline uint32_t load32(const uint8_t *p) noexcept:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef inline uint64_t load64(const uint8_t *p) noexcept:
    return <uint64_t>load32(p) << 32 | load32(p + 4)


cdef inline PyObject *read_bool(Reader *reader) noexcept:
    if left(reader) < 1:
        return NULL
    reader.at += 1
    return Py_NewRef(True_ if (reader.at - 1)[0] else False_)


cdef inline PyObject *read_int8(Reader *reader) noexcept:
    if left(reader) < 1:
        return NULL
    reader.at += 1
    return PyLong_FromLong(<int8_t>(reader.at - 1)[0])


cdef inline PyObject *read_int16(Reader *reader) noexcept:
    if left(reader) < 2:
        return NULL
    reader.at += 2
    return PyLong_FromLong(<int16_t>load16(reader.at - 2))


cdef inline PyObject *read_int32(Reader *reader) noexcept:
    if left(reader) < 4:
        return NULL
    reader.at += 4
    return PyLong_FromLong(<int32_t>load32(reader.at - 4))


cdef inline PyObject *read_int64(Reader *reader) noexcept:
    if left(reader) < 8:
        return NULL
    reader.at += 8
    return PyLong_FromLongLong(<int64_t>load64(reader.at - 8))


cdef inline PyObject *read_uuid(Reader *reader) noexcept:
    if left(reader) < UUID_BYTES:
        return NULL
    reader.at += UUID_BYTES
    return bytes_of(reader.at - UUID_BYTES, UUID_BYTES)


cdef inline int64_t read_uvarint(Reader *reader) noexcept:
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 7 * UVARINT_BYTES_MAX and reader.at < reader.end:
        byte = reader.at[0]
        reader.at += 1
        value |= <int64_t>(byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
    return MALFORMED


cdef inline int64_t read_length(Reader *reader, bint flexible, int width) noexcept:
    cdef int64_t length
    if flexible:
        length = read_uvarint(reader)
        return length - 1 if length >= 0 else MALFORMED
    if left(reader) < width:
        return MALFORMED
    length = <int16_t>load16(reader.at) if width == 2 else <int32_t>load32(reader.at)
    reader.at += width
    return length if length >= 0 else NULL_LENGTH


cdef inline PyObject *null_value(int64_t length, bint nullable) noexcept:
    return Py_NewRef(None_) if nullable and length == NULL_LENGTH else NULL


cdef inline PyObject *read_string(Reader *reader, bint flexible, bint nullable) noexcept:
    cdef int64_t size = read_length(reader, flexible, 2)
    if size < 0:
        return null_value(size, nullable)
    if size > left(reader) or size > STRING_BYTES_MAX:
        return NULL
    reader.at += size
    return PyUnicode_DecodeUTF8(<const char *>(reader.at - size), size, NULL)


cdef PyObject *read_records(Reader *reader, bint flexible, bint nullable) noexcept:
    """Return a slice of the frame: another view of it, moved, as memoryview itself makes slices."""
    cdef int64_t size = read_length(reader, flexible, 4)
    cdef PyObject *view
    cdef Py_buffer *buffer
    if size < 0:
        return null_value(size, nullable)
    if size > left(reader):
        return NULL
    view = PyMemoryView_FromObject(reader.frame)
    if view == NULL:
        return NULL
    buffer = PyMemoryView_GET_BUFFER(view)
    buffer.buf = <char *>buffer.buf + (reader.at - reader.start)
    buffer.len = size
    buffer.shape[0] = size
    reader.at += size
    return view


cdef PyObject *read_array(
    Reader *reader, bint flexible, bint nullable, Decode decode, Py_ssize_t element_bytes_min
) noexcept:
    cdef int64_t count = read_length(reader, flexible, 4)
    cdef PyObject *values
    cdef PyObject *value
    cdef Py_ssize_t index
    if count < 0:
        return null_value(count, nullable)
    if count > left(reader) // element_bytes_min:
        return NULL
    values = PyList_New(count)
    if values == NULL:
        return NULL
    PyObject_GC_UnTrack(values)  # nobody may see it before it is filled
    for index in range(count):
        value = decode(reader)
        if value == NULL:
            Py_DECREF(values)
            return NULL
        PyList_SET_ITEM(values, index, value)
    PyObject_GC_Track(values)
    return values


cdef inline const uint8_t *read_tag(Reader *reader, int64_t *tag) noexcept:
    """Return the end of the tagged field that starts here, or NULL."""
    cdef int64_t size
    tag[0] = read_uvarint(reader)
    if tag[0] < 0:
        return NULL
    size = read_uvarint(reader)
    if size < 0 or size > left(reader):
        return NULL
    return reader.at + size


cdef bint skip_tags(Reader *reader) noexcept:
    cdef int64_t count = read_uvarint(reader)
    cdef int64_t tag
    cdef const uint8_t *end
    while count > 0:
        end = read_tag(reader, &tag)
        if end == NULL:
            return 0
        reader.at = end
        count -= 1
    return count == 0


# Writing.

cdef bint grow(Writer *writer, Py_ssize_t size) noexcept:
    cdef Py_ssize_t capacity = max(2 * writer.capacity, writer.size + size)
    cdef uint8_t *start = <uint8_t *>realloc(NULL if writer.start == writer.small else writer.start, capacity)
    if start == NULL:
        return 0
    if writer.start == writer.small:
        memcpy(start, writer.small, writer.size)
    writer.start = start
    writer.capacity = capacity
    return 1


cdef inline bint reserve(Writer *writer, Py_ssize_t size) noexcept:
    return writer.capacity - writer.size >= size or grow(writer, size)


cdef inline bint write_raw(Writer *writer, const void *start, Py_ssize_t size) noexcept:
    if not reserve(writer, size):
        return 0
    memcpy(writer.start + writer.size, start, size)
    writer.size += size
    return 1


cdef inline bint write_number(Writer *writer, uint64_t number, int width) noexcept:
    """Write the low bytes of a number."""
    cdef uint8_t *p
    if not reserve(writer, width):
        return 0
    p = writer.start + writer.size
    writer.size += width
    while width > 0:
        width -= 1
        p[0] = <uint8_t>(number >> 8 * width)
        p += 1
    return 1


cdef inline bint write_integer(Writer *writer, PyObject *value, int width) noexcept:
    cdef int overflow = 0
    cdef int64_t number
    cdef int unused = 64 - 8 * width
    if value == NULL or not PyLong_Check(value):
        return 0
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    # The number is in range if its low bytes, with their sign, are the number.
    if overflow or <int64_t>(<uint64_t>number << unused) >> unused != number:
        return 0
    return write_number(writer, <uint64_t>number, width)


cdef inline bint write_bool(Writer *writer, PyObject *value) noexcept:
    return (value == True_ or value == False_) and write_number(writer, value == True_, 1)


cdef inline bint write_int8(Writer *writer, PyObject *value) noexcept:
    return write_integer(writer, value, 1)


cdef inline bint write_int16(Writer *writer, PyObject *value) noexcept:
    return write_integer(writer, value, 2)


cdef inline bint write_int32(Writer *writer, PyObject *value) noexcept:
    return write_integer(writer, value, 4)


cdef inline bint write_int64(Writer *writer, PyObject *value) noexcept:
    return write_integer(writer, value, 8)


cdef inline bint write_uuid(Writer *writer, PyObject *value) noexcept:
    if value == NULL or not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != UUID_BYTES:
        return 0
    return write_raw(writer, PyBytes_AS_STRING(value), UUID_BYTES)


cdef inline bint write_uvarint(Writer *writer, uint64_t number) noexcept:
    while number > 127:
        if not write_number(writer, number | 128, 1):
            return 0
        number >>= 7
    return write_number(writer, number, 1)


cdef inline bint write_length(Writer *writer, Py_ssize_t length, bint flexible, int width) noexcept:
    """Write a length or count that the width can hold; -1 for null."""
    return write_uvarint(writer, length + 1) if flexible else write_number(writer, <uint64_t>length, width)


cdef inline bint write_string(Writer *writer, PyObject *value, bint flexible, bint nullable) noexcept:
    cdef Py_ssize_t size
    cdef const char *start
    if value == None_:
        return nullable and write_length(writer, NULL_LENGTH, flexible, 2)
    if value == NULL or not PyUnicode_CheckExact(value):
        return 0
    start = PyUnicode_AsUTF8AndSize(value, &size)
    if start == NULL or size > STRING_BYTES_MAX:
        return 0
    return write_length(writer, size, flexible, 2) and write_raw(writer, start, size)


cdef bint copy_records(Writer *writer, PyObject *value, Py_ssize_t size) noexcept:
    cdef Py_buffer view
    cdef bint done
    if not (PyBytes_CheckExact(value) or PyByteArray_CheckExact(value) or PyMemoryView_Check(value)):
        return 0
    if PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0:
        return 0
    done = view.len == size and write_raw(writer, view.buf, size)
    PyBuffer_Release(&view)
    return done


cdef bint append_records(Writer *writer, PyObject *value) noexcept:
    """Append the bytes written so far, and then the records themselves, to the parts."""
    cdef PyObject *lead = bytes_of(writer.start, writer.size)
    cdef bint done
    if lead == NULL:
        return 0
    writer.size = 0
    done = PyList_Append(writer.parts, lead) == 0 and PyList_Append(writer.parts, value) == 0
    Py_DECREF(lead)
    return done


cdef bint write_records(Writer *writer, PyObject *value, bint flexible, bint nullable) noexcept:
    cdef Py_ssize_t size
    cdef bint done
    if value == None_:
        return nullable and write_length(writer, NULL_LENGTH, flexible, 4)
    if value == NULL:
        return 0
    Py_INCREF(value)
    size = PyObject_Size(value)
    done = 0 <= size < INT32_MAX and write_length(writer, size, flexible, 4)
    if done and writer.parts == NULL:
        done = copy_records(writer, value, size)
    elif done and size > 0:
        done = append_records(writer, value)
    Py_DECREF(value)
    return done


cdef inline bint write_struct(Writer *writer, PyObject *value, Encode encode) noexcept:
    cdef bint done
    if value == NULL:
        return 0
    Py_INCREF(value)
    done = encode(writer, value)
    Py_DECREF(value)
    return done


cdef bint write_array(Writer *writer, PyObject *values, bint flexible, bint nullable, Encode encode) noexcept:
    cdef Py_ssize_t count, index = 0
    if values == None_:
        return nullable and write_length(writer, NULL_LENGTH, flexible, 4)
    if values == NULL or not (PyList_CheckExact(values) or PyTuple_CheckExact(values)):
        return 0
    count = PySequence_Fast_GET_SIZE(values)
    if count >= INT32_MAX or not write_length(writer, count, flexible, 4):
        return 0
    Py_INCREF(values)
    # The list may change meanwhile: its size is compared before each element and at the end.
    while index < count and index < PySequence_Fast_GET_SIZE(values):
        if not write_struct(writer, PySequence_Fast_GET_ITEM(values, index), encode):
            break
        index += 1
    if PySequence_Fast_GET_SIZE(values) != count:
        index = -1
    Py_DECREF(values)
    return index == count


cdef inline bint begin_tag(Writer *writer, int tag, Py_ssize_t *mark) noexcept:
    """Write the tag, and leave a byte for the size of its value."""
    cdef bint done = write_uvarint(writer, tag) and write_number(writer, 0, 1)
    mark[0] = writer.size
    return done


cdef inline bint end_tag(Writer *writer, Py_ssize_t mark) noexcept:
    cdef Py_ssize_t size = writer.size - mark
    cdef Py_ssize_t more = 0
    while size >> 7 * (more + 1):
        more += 1
    if not reserve(writer, more):
        return 0
    memmove(writer.start + mark + more, writer.start + mark, size)
    writer.size = mark - 1
    write_uvarint(writer, size)
    writer.size += size
    return 1


# The functions that Python calls: builtins, whose self is the codec of one message in one version.

cdef class Codec:
    """Compiled functions of one layout, and how to get the Python function for everything unusual."""

    cdef Decode decode
    cdef Encode encode
    cdef bint split
    cdef object generate
    cdef object generated

    cdef object python(self):
        """Return the Python function, after an attempt of the compiled one."""
        if PyErr_Occurred() != NULL and PyErr_ExceptionMatches(Exception):
            PyErr_Clear()
        raise_error()
        if self.generated is None:
            self.generated = self.generate()
        return self.generated


cdef int raise_error() except? -1:
    """Let an error that is set, such as KeyboardInterrupt, go on."""
    return -1 if PyErr_Occurred() != NULL else 0


cdef object call_decoder(object self, Arguments arguments, Py_ssize_t count):
    cdef Codec codec = <Codec>self
    cdef PyObject *message = NULL
    cdef int64_t end = 0
    if count == 2:
        message = decode_frame(codec.decode, arguments[0], arguments[1], &end)
        if message != NULL:
            decoded = <object>message
            Py_DECREF(message)
            return decoded, end
    return codec.python()(*[<object>arguments[index] for index in range(count)])


cdef PyObject *decode_frame(Decode decode, PyObject *frame, PyObject *position, int64_t *end) noexcept:
    """Decode plain bytes: the frame must be a view of consecutive bytes, and the position within it."""
    cdef Py_buffer held
    cdef Reader reader
    cdef PyObject *message = NULL
    cdef int overflow = 0
    cdef long long at
    if not PyMemoryView_Check(frame) or not PyLong_CheckExact(position):
        return NULL
    # Holding the buffer keeps it from being released or resized. This fails if it was released before.
    if PyObject_GetBuffer(frame, &held, PyBUF_SIMPLE) < 0:
        return NULL
    at = PyLong_AsLongLongAndOverflow(position, &overflow)
    if is_plain(PyMemoryView_GET_BUFFER(frame)) and not overflow and 0 <= at <= held.len:
        reader.frame = frame
        reader.start = <const uint8_t *>held.buf
        reader.at = reader.start + at
        reader.end = reader.start + held.len
        message = decode(&reader)
        end[0] = reader.at - reader.start
    PyBuffer_Release(&held)
    return message


cdef inline bint is_plain(const Py_buffer *view) noexcept:
    return (
        view.ndim == 1
        and view.itemsize == 1
        and (view.format == NULL or (view.format[0] == b"B" and view.format[1] == 0))
        and view.shape != NULL
        and view.suboffsets == NULL
        and (view.strides == NULL or view.strides[0] == 1)
    )


cdef object call_encoder(object self, object message):
    cdef Codec codec = <Codec>self
    cdef PyObject *encoded = encode_message(codec, <PyObject *>message)
    if encoded == NULL:
        return codec.python()(message)
    result = <object>encoded
    Py_DECREF(encoded)
    return result


cdef PyObject *encode_message(Codec codec, PyObject *message) noexcept:
    cdef Writer writer
    cdef PyObject *encoded = NULL
    writer.start = writer.small
    writer.size = 0
    writer.capacity = SMALL_MESSAGE_BYTES
    writer.parts = PyList_New(0) if codec.split else NULL
    if (writer.parts != NULL or not codec.split) and codec.encode(&writer, message):
        encoded = bytes_of(writer.start, writer.size) if writer.size or not codec.split else NULL
        if codec.split:
            encoded = finish_parts(writer.parts, encoded, writer.size)
    Py_XDECREF(writer.parts)
    if writer.start != writer.small:
        free(writer.start)
    return encoded


cdef PyObject *finish_parts(PyObject *parts, PyObject *rest, Py_ssize_t rest_size) noexcept:
    """Append the bytes after the last records, if any; return a new reference to the parts."""
    cdef bint done = rest_size == 0 or (rest != NULL and PyList_Append(parts, rest) == 0)
    Py_XDECREF(rest)
    return Py_NewRef(parts) if done else NULL


cdef PyMethodDef DECODER
cdef PyMethodDef ENCODER
DECODER.ml_name = "decode"
DECODER.ml_meth = <void *>call_decoder
DECODER.ml_flags = METH_FASTCALL
ENCODER.ml_name = "encode"
ENCODER.ml_meth = <void *>call_encoder
ENCODER.ml_flags = METH_O

_layouts = {}
_defaults = []


cdef class Layout:
    """Functions shared by all versions of a message with the same fields."""

    cdef Decode decode
    cdef Encode encode


cdef int add_layout(cls, versions, Decode decode, Encode encode) except -1:
    cdef Layout layout = Layout()
    layout.decode = decode
    layout.encode = encode
    for version in versions:
        _layouts[cls, version] = layout
    return 0


cdef PyTypeObject *open_class(cls, names, Py_ssize_t *slots) except NULL:
    """Note the places of the fields in the objects of a class, which lives as long as the module."""
    cdef Py_ssize_t index
    for index, name in enumerate(names):
        slots[index] = odr_slot(<PyTypeObject *>cls, name)
        if slots[index] < 0:
            raise ImportError(f"{cls.__name__}.{name} must be a slot")
    _defaults.append(cls)
    return <PyTypeObject *>cls


cdef PyObject *keep(value):
    """Return a borrowed reference to a value that lives as long as the module."""
    _defaults.append(value)
    return <PyObject *>value


cdef Codec find_codec(cls, version, generate, bint split):
    cdef Layout layout = _layouts.get((cls, version))
    cdef Codec codec
    if layout is None:
        return None
    codec = Codec()
    codec.decode = layout.decode
    codec.encode = layout.encode
    codec.split = split
    codec.generate = generate
    return codec


def decoder(cls, version, generate):
    """Return the compiled decoder, or None. ``generate`` returns the Python one, on first need."""
    codec = find_codec(cls, version, generate, False)
    return None if codec is None else PyCFunction_New(&DECODER, codec)


def encoder(cls, version, generate):
    codec = find_codec(cls, version, generate, False)
    return None if codec is None else PyCFunction_New(&ENCODER, codec)


def parts_encoder(cls, version, generate):
    codec = find_codec(cls, version, generate, True)
    return None if codec is None else PyCFunction_New(&ENCODER, codec)
