"""Reference codec that interprets the message tables, and value strategies for every table."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from odradek.wire.schema import FIXED, Field

Special = Callable[[str, Field], st.SearchStrategy[Any] | None]

BOUNDS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def write_uvarint(value: int) -> bytes:
    out = b""
    while True:
        value, seven = value >> 7, value & 127
        out += bytes([seven | (128 if value else 0)])
        if not value:
            return out


def write_length(length: int | None, code: str, flexible: bool) -> bytes:
    if flexible:
        return write_uvarint(0 if length is None else length + 1)
    return struct.pack(">" + code, -1 if length is None else length)


def write_value(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.kind in FIXED:
        return struct.pack(">" + FIXED[field.kind], value)
    if field.kind == "struct":
        return write_structure(field.of, value, version, flexible)
    code = "h" if field.kind == "string" else "i"
    if value is None:
        assert field.is_nullable_in(version)
        return write_length(None, code, flexible)
    if field.kind == "array":
        of = field.of
        element = of if isinstance(of, Field) else Field("struct", 0, 99, default=None, of=of)
        body = b"".join(write_value(element, each, version, flexible) for each in value)
        return write_length(len(value), code, flexible) + body
    raw = value.encode() if field.kind == "string" else bytes(value)
    return write_length(len(raw), code, flexible) + raw


def is_default(field: Field, value: Any) -> bool:
    return value == [] if field.kind == "array" and field.default is not None else value == field.default


def write_structure(cls: Any, value: Any, version: int, flexible: bool) -> bytes:
    out, tagged = b"", {}
    for name, field in cls.FIELDS.items():
        held = getattr(value, name)
        if not field.is_in(version):
            assert field.ignorable or is_default(field, held)
        elif field.tag is None:
            out += write_value(field, held, version, flexible)
        elif not is_default(field, held):
            tagged[field.tag] = write_value(field, held, version, flexible)
    if not flexible:
        return out
    out += write_uvarint(len(tagged))
    for tag, body in sorted(tagged.items()):
        out += write_uvarint(tag) + write_uvarint(len(body)) + body
    return out


class SlowReader:
    """Reference decoder that reads field by field from the table."""

    def __init__(self, raw: bytes, version: int, flexible: bool) -> None:
        self.raw, self.version, self.flexible, self.position = raw, version, flexible, 0

    def take(self, count: int) -> bytes:
        self.position += count
        return self.raw[self.position - count : self.position]

    def fixed(self, code: str) -> Any:
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def value(self, field: Field) -> Any:
        if field.kind in FIXED:
            return self.fixed(FIXED[field.kind])
        if field.kind == "struct":
            return self.structure(field.of)
        length = self.uvarint() - 1 if self.flexible else self.fixed("h" if field.kind == "string" else "i")
        if length < 0:
            return None
        if field.kind == "array":
            of = field.of
            return [self.value(of) if isinstance(of, Field) else self.structure(of) for _ in range(length)]
        raw = self.take(length)
        return raw.decode() if field.kind == "string" else raw

    def structure(self, cls: Any) -> Any:
        fields = cls.FIELDS.items()
        made = cls()
        for name, field in fields:
            if field.is_in(self.version) and field.tag is None:
                setattr(made, name, self.value(field))
        for _ in range(self.uvarint() if self.flexible else 0):
            tag, size = self.uvarint(), self.uvarint()
            for name, field in fields:
                if field.is_in(self.version) and field.tag == tag:
                    setattr(made, name, self.value(field))
                    break
            else:
                self.take(size)
        return made


def slow_decode(cls: Any, version: int, raw: bytes) -> Any:
    return SlowReader(raw, version, version >= cls.FLEXIBLE).structure(cls)


def slow_encode(cls: Any, version: int, value: Any) -> bytes:
    return write_structure(cls, value, version, version >= cls.FLEXIBLE)


TEXT = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.just("x" * 127) | st.just("y" * 20_000)
)


def plain_values(field: Field) -> st.SearchStrategy[Any]:
    if field.kind in BOUNDS:
        limit = 1 << BOUNDS[field.kind]
        return st.integers(-limit, limit - 1)
    return {
        "uint16": st.integers(0, (1 << 16) - 1),
        "uint32": st.integers(0, (1 << 32) - 1),
        "float64": st.floats(allow_nan=False, allow_infinity=False),
        "bool": st.booleans(),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": TEXT,
        "bytes": st.binary(max_size=4) | st.just(b"z" * 200),
        "records": st.binary(max_size=4) | st.just(b"r" * 20_000),
    }[field.kind]


def field_values(name: str, field: Field, version: int, special: Special) -> st.SearchStrategy[Any]:
    if field.kind == "struct":
        whole = structures(field.of, version, special)
        return st.none() | whole.filter(lambda value: value != type(value)())
    if field.kind == "array":
        of = field.of
        element = (
            field_values(name, of, version, special)
            if isinstance(of, Field)
            else structures(of, version, special)
        )
        strategy = st.lists(element, max_size=2)
    else:
        narrowed = special(name, field)
        strategy = plain_values(field) if narrowed is None else narrowed
    return st.none() | strategy if field.is_nullable_in(version) else strategy


def structures(cls: Any, version: int, special: Special = lambda name, field: None) -> st.SearchStrategy[Any]:
    """Messages encodable in this version: absent fields hold their defaults."""
    fields = {
        name: field_values(name, field, version, special)
        for name, field in cls.FIELDS.items()
        if field.is_in(version)
    }
    return st.builds(cls, **fields)


@pytest.fixture(scope="session")
def reference() -> SimpleNamespace:
    return SimpleNamespace(encode=slow_encode, decode=slow_decode, values=structures)
