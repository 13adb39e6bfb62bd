"""Generates the Python source of the encoder of one message in one version.

Pieces are appended to the list ``out`` and joined at the end. When records stay separate, ``out`` is joined
into ``parts`` before each of them and restarted. Loops and nested structures are generated inline, so that
the usual path through a message is one function without further Python calls.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.model.errors import LocalProtocolViolation
from odradek.wire.code_buffer import CodeBuffer
from odradek.wire.primitives import ONE_BYTE, STRING_BYTES_MAX, uvarint
from odradek.wire.schema import EMPTY, FIXED, NEVER, Field, Table

PLAIN = (bytes, bytearray, memoryview)


def encode_function(cls: type[Table], version: int, *, split: bool) -> Any:
    """Generate the encoder; with ``split`` it returns a list of parts with uncopied records, else bytes."""
    return _EncoderGenerator(cls, version, split=split).build()


class _EncoderGenerator(CodeBuffer):
    def __init__(self, cls: type[Table], version: int, *, split: bool) -> None:
        super().__init__(
            {
                "ONE_BYTE": ONE_BYTE,
                "PLAIN": PLAIN,
                "Unencodable": (struct.error, AttributeError, TypeError, ValueError, OverflowError),
                "Violation": LocalProtocolViolation,
                "check_uuid": _check_uuid,
                "join": b"".join,
                "pack": struct.pack,
                "too_long": _too_long,
                "unsupported": _unsupported,
                "uvarint": uvarint,
            }
        )
        self._cls = cls
        self._version = version
        self._flexible = version >= cls.FLEXIBLE
        self._split = split

    def build(self) -> Any:
        self.open("def encode(m):")
        self.line("out = []")
        if self._split:
            self.line("parts = []")
        self.open("try:")
        self._structure(self._cls, "m")
        self._flush()
        if self._split:
            self.line("if out: parts.append(join(out))")
            self.line("return parts")
        else:
            self.line("return join(out)")
        self.close()
        self.open("except Unencodable as cause:")
        what = f"{self._cls.__name__} version {self._version} cannot be encoded"
        self.line(f"raise Violation('{what}: ' + str(cause)) from cause")
        return self.function("encode")

    def _structure(self, cls: type[Table], var: str) -> None:
        """Generate all fields of a structure, then its tagged section; the run may stay open."""
        tagged = {}
        for name, field in cls.FIELDS.items():
            if not field.is_in(self._version):
                self._check_absent(cls, field, f"{var}.{name}", name)
            elif field.tag is not None:
                tagged[field.tag] = (field, f"{var}.{name}")
            else:
                self._value(field, f"{var}.{name}")
        if self._flexible:
            self._tags([(tag, *tagged[tag]) for tag in sorted(tagged)])

    def _check_absent(self, cls: type[Table], field: Field, expression: str, name: str) -> None:
        if not field.ignorable:
            what = f"{self._cls.__name__}: {cls.__name__}.{name}"
            self.line(f"if {_differs(field, expression)}: unsupported({what!r}, {self._version})")

    def _value(self, field: Field, expression: str) -> None:
        if field.kind == "uuid":
            self.line(f"if len({expression}) != 16: check_uuid({expression})")
        if field.kind in FIXED:
            self.run.append((FIXED[field.kind], expression))
        elif field.kind == "array":
            self._array(field, expression)
        elif field.kind == "struct":
            assert isinstance(field.of, type)
            self._structure(field.of, expression)
        else:
            self._blob(field, expression)

    def _blob(self, field: Field, expression: str) -> None:
        """Generate a string, bytes or records field: a length, then the bytes."""
        blob, length = self.fresh("b"), self.fresh("n")
        value = f"{blob}.encode()" if field.kind == "string" else blob
        self.line(f"{blob} = {expression}")
        if field.is_nullable_in(self._version):
            self.line(f"if {blob} is None: {blob} = b''; {length} = {0 if self._flexible else -1}")
            self.open("else:")
        if field.kind == "string":
            self.line(f"{blob} = {value}")
        self.line(f"{length} = len({blob}){' + 1' if self._flexible else ''}")
        if field.is_nullable_in(self._version):
            self.close()
        self._count(length, "h" if field.kind == "string" else "i", is_string=field.kind == "string")
        self._append_blob(field, blob)

    def _append_blob(self, field: Field, blob: str) -> None:
        if field.kind != "records":
            self.line(f"out.append({blob})")
        elif self._split:
            self.line(f"if len({blob}): parts.append(join(out)); parts.append({blob}); out = []")
        else:
            self.line(f"out.append({blob} if isinstance({blob}, PLAIN) else {blob}.read())")

    def _array(self, field: Field, expression: str) -> None:
        values, count = self.fresh("v"), self.fresh("n")
        self.line(f"{values} = {expression}")
        if field.is_nullable_in(self._version):
            self.line(f"if {values} is None: {values} = (); {count} = {0 if self._flexible else -1}")
            self.line(f"else: {count} = len({values}){' + 1' if self._flexible else ''}")
        else:
            self.line(f"{count} = len({values}){' + 1' if self._flexible else ''}")
        self._count(count, "i")
        self._elements(field, values)

    def _elements(self, field: Field, values: str) -> None:
        of = field.of
        if isinstance(of, Field) and of.kind in FIXED and of.kind != "uuid":
            self.line(f"if {values}: out.append(pack('>%d{FIXED[of.kind]}' % len({values}), *{values}))")
            return
        element = self.fresh("e")
        self.open(f"for {element} in {values}:")
        if isinstance(of, Field):
            self._value(of, element)
        else:
            assert of is not None
            self._structure(of, element)
        self._flush()
        self.close()

    def _tags(self, tagged: list[tuple[int, Field, str]]) -> None:
        if not tagged:
            self.run.append(("x", ""))
            return
        self._flush()
        conditions = [_differs(field, expression) for _, field, expression in tagged]
        self.open(f"if {' or '.join(conditions)}:")
        total = " + ".join(f"bool({condition})" for condition in conditions)
        self.line(f"out.append(ONE_BYTE[{total}])")
        for (tag, field, expression), condition in zip(tagged, conditions, strict=True):
            self.open(f"if {condition}:")
            self._tag(tag, field, expression)
            self.close()
        self.close()
        self.line("else: out.append(b'\\0')")

    def _tag(self, tag: int, field: Field, expression: str) -> None:
        """Generate a tagged field, encoded separately because its size comes first."""
        outer = self.fresh("outer")
        self.line(f"{outer} = out; out = []")
        self._value(field, expression)
        self._flush()
        self.line(f"{outer}.append({uvarint(tag)!r}); out = join(out)")
        self.line(f"{outer}.append(uvarint(len(out))); {outer}.append(out); out = {outer}")

    def _count(self, count: str, code: str, *, is_string: bool = False) -> None:
        """Generate a length together with the preceding run."""
        if not self._flexible:
            self.run.append((code, count))
            self._flush()
            return
        codes, names = self.take_run()
        self.open(f"if {count} < 128:")
        if names:
            packing, _ = self.layout(codes + "B", "pack")
            self.line(f"out.append({packing}({', '.join([*names, count])}))")
        else:
            zeros = f"{bytes(len(codes))!r} + " if codes else ""
            self.line(f"out.append({zeros}ONE_BYTE[{count}])")
        self.close()
        self.open("else:")
        if is_string:
            self.line(f"if {count} > {STRING_BYTES_MAX + 1}: too_long({count} - 1)")
        self._pack(codes, names)
        self.line(f"out.append(uvarint({count}))")
        self.close()

    def _flush(self) -> None:
        self._pack(*self.take_run())

    def _pack(self, codes: str, names: list[str]) -> None:
        if names:
            packing, _ = self.layout(codes, "pack")
            self.line(f"out.append({packing}({', '.join(names)}))")
        elif codes:
            self.line(f"out.append({bytes(len(codes))!r})")


def _differs(field: Field, expression: str) -> str:
    """Return the source of a test that ``expression`` differs from the field's default."""
    if field.default is None:
        return f"{expression} is not None"
    if field.default is EMPTY:
        nullable = field.nullable_since != NEVER
        return f"({expression} is None or len({expression}))" if nullable else f"len({expression})"
    return f"{expression} != {field.default!r}"


def _unsupported(what: str, version: int) -> None:
    raise LocalProtocolViolation(
        f"{what} must have its default value in version {version}, which does not have the field"
    )


def _check_uuid(value: bytes) -> None:
    raise LocalProtocolViolation(f"uuid must have 16 bytes, got {len(value)}")


def _too_long(length: int) -> None:
    raise LocalProtocolViolation(f"string must have <= {STRING_BYTES_MAX} bytes, got {length}")
