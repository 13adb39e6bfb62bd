"""Initialization of the modules in the library that mypyc builds.

mypyc gives each module a file of its own that only calls its function in the library. Opening a hundred files
takes a tenth of a broker's start, so this one function calls them all.
"""

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

ctypedef object (*Initialize)()


def initialize(capsule: object) -> object:
    """Create and execute the module whose function is in the capsule."""
    return (<Initialize>PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)))()
