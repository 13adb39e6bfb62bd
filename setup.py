"""Build the one compiled part, the record codec; without a compiler the Python twin is used instead."""

import os
from glob import glob

from setuptools import Extension, setup

RECORDS = "src/odradek/records"
CODEC = Extension(
    "odradek.records._codec",
    [f"{RECORDS}/_codec.pyx"],
    # Every file the C code is made from. A source distribution holds these, and a change rebuilds.
    depends=sorted(path for suffix in ("pyx", "pxi", "h") for path in glob(f"{RECORDS}/_*.{suffix}")),
    # No -march: one wheel runs everywhere, and the CRC instruction is looked for at run time.
    extra_compile_args=["-O3"],
    optional=True,
)


def extensions() -> list[Extension]:
    if os.environ.get("ODRADEK_PURE") == "1":
        return []
    from Cython.Build import cythonize

    return cythonize([CODEC], language_level="3")


setup(ext_modules=extensions())
