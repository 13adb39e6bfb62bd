/* Named tuples allocated as tuple's own constructor does, without an intermediate tuple. */

#ifndef ODRADEK_NAMED_TUPLE_H
#define ODRADEK_NAMED_TUPLE_H

#include <Python.h>

static inline PyObject *odr_named_tuple(PyObject *type, Py_ssize_t n) {
    PyObject *tuple = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
#if PY_VERSION_HEX >= 0x030E0000
    if (tuple) ((PyTupleObject *)tuple)->ob_hash = -1;
#endif
    return tuple;
}

#endif
