"""Generates the Python source of the decoder of one message in one version.

Objects are created without ``__init__`` and their slots are set from the unpacked run. The first byte of a
varint is read with the preceding run; only longer varints need a call. Every length and count is compared
with the remaining bytes before it is used.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.code_buffer import CodeBuffer, size_of
from odradek.wire.primitives import (
    STRING_BYTES_MAX,
    read_uvarint,
    skip_tags,
    wrong_count,
    wrong_length,
    wrong_tag_size,
)
from odradek.wire.schema import EMPTY, FIXED, Field, Table, table_of


def decode_function(cls: type[Table], version: int) -> Any:
    """Generate the decoder: frame and position in, message and end position out."""
    return _DecoderGenerator(cls, version).build()


class _DecoderGenerator(CodeBuffer):
    def __init__(self, cls: type[Table], version: int) -> None:
        super().__init__(
            {
                "Malformed": (struct.error, IndexError, UnicodeDecodeError),
                "Violation": RemoteProtocolViolation,
                "new": object.__new__,
                "read_uvarint": read_uvarint,
                "skip_tags": skip_tags,
                "unpack_from": struct.unpack_from,
                "wrong_count": wrong_count,
                "wrong_length": wrong_length,
                "wrong_tag_size": wrong_tag_size,
            }
        )
        self._cls = cls
        self._version = version
        self._flexible = version >= cls.FLEXIBLE

    def build(self) -> Any:
        self.open("def decode(raw, pos):")
        self.line("limit = len(raw)")
        self.open("try:")
        self._structure(self._cls, "m")
        self._flush()
        self.close()
        self.open("except Malformed as cause:")
        what = f"{self._cls.__name__} version {self._version} cannot be decoded"
        self.line(f"raise Violation('{what}: ' + str(cause)) from cause")
        self.close()
        self.line("return m, pos")
        return self.function("decode")

    def _structure(self, cls: type[Table], var: str) -> None:
        self.line(f"{var} = new({self.constant(cls, 'Class')})")
        tagged = {}
        for name, field in cls.FIELDS.items():
            target = f"{var}.{name}"
            if field.is_in(self._version) and field.tag is None:
                self._value(field, target, self._what(cls, name))
                continue
            if field.is_in(self._version):
                assert field.tag is not None
                tagged[field.tag] = (field, target, self._what(cls, name))
            self.line(f"{target} = {'[]' if field.default is EMPTY else repr(field.default)}")
        if self._flexible:
            self._tags(tagged)

    def _what(self, cls: type[Table], name: str) -> str:
        return f"{self._cls.__name__} version {self._version}: {cls.__name__}.{name}"

    def _value(self, field: Field, target: str, what: str) -> None:
        if field.kind in FIXED:
            self.run.append((FIXED[field.kind], target))
        elif field.kind == "array":
            self._array(field, target, what)
        elif field.kind == "struct":
            assert isinstance(field.of, type)
            self._flush()
            element = self.fresh("e")
            self._structure(field.of, element)
            self._flush()
            self.line(f"{target} = {element}")
        else:
            self._blob(field, target, what)

    def _blob(self, field: Field, target: str, what: str) -> None:
        is_string = field.kind == "string"
        self._length("h" if is_string else "i", what, is_string=is_string)
        nullable = field.is_nullable_in(self._version)
        if nullable:
            self.line(f"if n < {1 if self._flexible else 0}: {target} = None")
            self.open("else:")
        self.line(f"end = pos + n{' - 1' if self._flexible else ''}")
        self.line(f"if not pos <= end <= limit: wrong_length({what!r}, end - pos, limit - pos)")
        self.line(f"{target} = raw[pos:end]{_AFTER_SLICE[field.kind]}; pos = end")
        if nullable:
            self.close()

    def _array(self, field: Field, target: str, what: str) -> None:
        self._length("i", what)
        nullable = field.is_nullable_in(self._version)
        if nullable:
            self.line(f"if n < {1 if self._flexible else 0}: {target} = None")
            self.open("else:")
        if self._flexible:
            self.line("n -= 1")
        self.line(f"if not 0 <= n <= limit - pos: wrong_count({what!r}, n, limit - pos)")
        self._elements(field, target, what)
        if nullable:
            self.close()

    def _elements(self, field: Field, target: str, what: str) -> None:
        of = field.of
        assert of is not None
        if isinstance(of, Field) and of.kind in FIXED and of.kind != "uuid":
            unpack = f"unpack_from('>%d{FIXED[of.kind]}' % n, raw, pos)"
            self.line(f"{target} = list({unpack}); pos += n * {size_of(of)}")
            return
        values, element = self.fresh("v"), self.fresh("e")
        self.line(f"{target} = {values} = []")
        self.open("for _ in range(n):")
        if isinstance(of, Field):
            self._value(of, element, what)
        else:
            assert self._flexible or any(f.is_in(self._version) for f in table_of(of).values()), what
            self._structure(of, element)
        self._flush()
        self.line(f"{values}.append({element})")
        self.close()

    def _length(self, code: str, what: str, *, is_string: bool = False) -> None:
        """Read a length or count into ``n``, with the preceding run. Compact encodings store it plus one."""
        if not self._flexible:
            self.run.append((code, "n"))
            self._flush()
            return
        self.run.append(("B", "n"))
        self._flush()
        self.open("if n > 127:")
        self.line("n, pos = read_uvarint(raw, pos - 1)")
        if is_string:
            self.line(f"if n > {STRING_BYTES_MAX + 1}: wrong_length({what!r}, n - 1, {STRING_BYTES_MAX})")
        self.close()

    def _tags(self, tagged: dict[int, tuple[Field, str, str]]) -> None:
        self.run.append(("B", "n"))
        self._flush()
        if not tagged:
            self.line("if n: pos = skip_tags(raw, pos - 1, limit)")
            return
        tag, stop, count = self.fresh("tag"), self.fresh("stop"), self.fresh("count")
        self.open("if n:")
        self.line(f"{count}, pos = read_uvarint(raw, pos - 1)")
        self.line(f"if {count} > limit - pos: wrong_count('tagged fields', {count}, limit - pos)")
        self.open(f"for _ in range({count}):")
        self.line(f"{tag}, pos = read_uvarint(raw, pos)")
        self.line(f"{stop}, pos = read_uvarint(raw, pos)")
        self.line(f"{stop} += pos")
        self.line(f"if {stop} > limit: wrong_length('tagged field', {stop} - pos, limit - pos)")
        for number, (field, target, what) in tagged.items():
            self.open(f"if {tag} == {number}:")
            self._value(field, target, what)
            self._flush()
            self.line(f"if pos != {stop}: wrong_tag_size({what!r})")
            self.line("continue")
            self.close()
        self.line(f"pos = {stop}")
        self.close()
        self.close()

    def _flush(self) -> None:
        codes, names = self.take_run()
        if codes == "B":
            self.line(f"{names[0]} = raw[pos]; pos += 1")
        elif codes:
            unpack, size = self.layout(codes, "unpack_from")
            self.line(f"{', '.join(names)}, = {unpack}(raw, pos); pos += {size}")


_AFTER_SLICE = {"string": ".tobytes().decode()", "bytes": ".tobytes()", "records": ""}
