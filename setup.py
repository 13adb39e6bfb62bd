"""Build the compiled record codec; without a compiler the pure-Python codec is used instead."""

import os
from glob import glob

from setuptools import Extension, setup

COMPILED = "src/odradek/records/compiled"
MODULES = ("record_batch", "compaction", "producer", "consumer")
# Shared declarations: in the source distribution, and a change rebuilds all modules.
DECLARATIONS = sorted(glob(f"{COMPILED}/*.pxd") + glob(f"{COMPILED}/include/*.h"))


def extension(module: str) -> Extension:
    source = f"{COMPILED}/{module}.pyx"
    return Extension(
        f"odradek.records.compiled.{module}",
        [source],
        depends=[source, *DECLARATIONS],
        # No -march: one wheel runs everywhere, and the CRC instruction is detected at run time.
        extra_compile_args=["-O3"],
        optional=True,
    )


def extensions() -> list[Extension]:
    if os.environ.get("ODRADEK_PURE") == "1":
        return []
    from Cython.Build import cythonize

    return cythonize([extension(module) for module in MODULES], language_level="3")


setup(ext_modules=extensions())
