"""Builds the one compiled part, the record codec; without a compiler the Python twin serves instead."""

import os

from setuptools import Extension, setup

CODEC = Extension(
    "odradek.records._codec",
    ["src/odradek/records/_codec.pyx"],
    # What a source distribution needs besides the C file that Cython makes.
    depends=[
        "src/odradek/records/_codec.pyx",
        "src/odradek/records/_codec_appender.pxi",
        "src/odradek/records/_codec_column_builder.pxi",
        "src/odradek/records/_codec_consumer_record.pxi",
        "src/odradek/records/_codec_delivery.pxi",
        "src/odradek/records/_codec_key_offsets.pxi",
        "src/odradek/records/_codec_primitives.h",
        "src/odradek/records/_codec_producer_batch.pxi",
        "src/odradek/records/_codec_record_columns.pxi",
        "src/odradek/records/_codec_record_reader.pxi",
        "src/odradek/records/_codec_sifting.pxi",
        "src/odradek/records/_murmur2.h",
        "src/odradek/records/_siphash.h",
    ],
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
