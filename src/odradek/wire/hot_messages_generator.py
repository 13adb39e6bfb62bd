"""Generates the Cython source of ``hot_messages``: codecs of the messages that make up most traffic.

``python -m odradek.wire.hot_messages_generator`` writes the source to standard output. ``setup.py`` appends
it to ``hot_codec.pxi``, whose functions it calls, and compiles both. There is one function to decode and one
to encode each structure. Versions in which a structure has the same layout share them.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Final, cast

from odradek.wire.messages import fetch, heartbeat, metadata, offset_commit, produce
from odradek.wire.primitives import STRING_BYTES_MAX, UVARINT_BYTES_MAX
from odradek.wire.schema import EMPTY, FIXED, Field, Table

HOT_MESSAGES: Final = (
    produce.ProduceRequest,
    produce.ProduceResponse,
    fetch.FetchRequest,
    fetch.FetchResponse,
    metadata.MetadataRequest,
    metadata.MetadataResponse,
    heartbeat.HeartbeatRequest,
    heartbeat.HeartbeatResponse,
    offset_commit.OffsetCommitRequest,
    offset_commit.OffsetCommitResponse,
)

NUMBERS: Final = ("bool", "int8", "int16", "int32", "int64", "uuid")
"""Fixed-width types of hot messages; others have no function in ``hot_codec.pxi``."""

LIMITS: Final = f"""

cdef enum:
    STRING_BYTES_MAX = {STRING_BYTES_MAX}
    UVARINT_BYTES_MAX = {UVARINT_BYTES_MAX}
"""


class Slot:
    """One field of a layout."""

    def __init__(self, place: str, field: Field, element: Layout | None, *, present: bool) -> None:
        self.place = place
        """Source of the offset of the field's slot."""
        self.field = field
        self.element = element
        """Layout of the structure, or of the array's structures."""
        self.present = present


class Layout:
    """Fields of a structure in some versions of a message."""

    def __init__(self, cls: type[Table], slots: list[Slot], version: int, *, flexible: bool) -> None:
        self.class_name = name_of(cls)
        self.name = f"{self.class_name}_{version}"
        self.slots = slots
        self.version = version
        """The first version with this layout."""
        self.flexible = flexible

    def untagged(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.present and slot.field.tag is None]

    def tagged(self) -> list[tuple[int, Slot]]:
        tags = [(slot.field.tag, slot) for slot in self.slots if slot.present and slot.field.tag is not None]
        return sorted(tags, key=lambda pair: pair[0])

    def size_min(self) -> int:
        """Return the size of the shortest encoded structure."""
        return sum(self._field_size_min(slot.field) for slot in self.untagged()) + self.flexible

    def _field_size_min(self, field: Field) -> int:
        if field.kind in FIXED:
            return Struct(">" + FIXED[field.kind]).size
        if self.flexible:
            return 1
        return 2 if field.kind == "string" else 4


class HotMessagesGenerator:
    """Source of all layouts, without repetition."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Table]] = {}
        self._layouts: dict[object, Layout] = {}
        self._defaults: dict[str, int] = {}
        self._functions: list[str] = []
        self._registrations: list[str] = []

    def source(self) -> str:
        for cls in cast("tuple[type[Table], ...]", HOT_MESSAGES):
            self._add_message(cls)
        return "\n".join([LIMITS, *self._declarations(), *self._functions, *self._preparations()])

    def _add_message(self, cls: type[Table]) -> None:
        versions: dict[str, list[int]] = {}
        for version in cls.VERSIONS:
            name = self._layout(cls, version, flexible=version >= cls.FLEXIBLE).name
            versions.setdefault(name, []).append(version)
        for name, shared in versions.items():
            self._registrations.append(
                f"add_layout({path_of(cls)}, {tuple(shared)}, decode_{name}, encode_{name})"
            )

    def _layout(self, cls: type[Table], version: int, *, flexible: bool) -> Layout:
        """Return the layout in a version; generate its functions if it is new."""
        key: list[object] = [cls, flexible]
        slots = []
        for index, field in enumerate(cls.FIELDS.values()):
            present, element = field.is_in(version), None
            if present and isinstance(field.of, type):
                element = self._layout(cast("type[Table]", field.of), version, flexible=flexible)
            slots.append(Slot(f"{name_of(cls)}_slots[{index}]", field, element, present=present))
            key.append((present, present and field.is_nullable_in(version), element))
        if tuple(key) not in self._layouts:
            layout = Layout(cls, slots, version, flexible=flexible)
            self._layouts[tuple(key)] = layout
            self._classes[layout.class_name] = cls
            self._add_decoder(layout)
            self._add_encoder(layout)
        return self._layouts[tuple(key)]

    def _declarations(self) -> list[str]:
        lines = [f"cdef PyObject *default_{index}" for index in self._defaults.values()]
        for name, cls in self._classes.items():
            lines.append(f"cdef PyTypeObject *{name}")
            lines.append(f"cdef Py_ssize_t {name}_slots[{len(cls.FIELDS)}]")
        return lines

    def _preparations(self) -> list[str]:
        """Return the code that runs when the module is imported."""
        modules = sorted({module_of(cls) for cls in self._classes.values()})
        lines = ["", f"from odradek.wire.messages import {', '.join(modules)}"]
        lines += [f"default_{index} = keep({source})" for source, index in self._defaults.items()]
        for name, cls in self._classes.items():
            lines.append(f"{name} = open_class({path_of(cls)}, {tuple(cls.FIELDS)}, {name}_slots)")
        return [*lines, *self._registrations, ""]

    def _default(self, field: Field) -> str:
        """Return the source of a borrowed reference to the default value of a field."""
        index = self._defaults.setdefault(repr(field.default), len(self._defaults))
        return f"default_{index}"

    # Decoders.

    def _add_decoder(self, layout: Layout) -> None:
        steps = [f"put(message, {slot.place}, {self._read(layout, slot)})" for slot in layout.slots]
        if layout.tagged():
            self._add_tags_decoder(layout)
            steps.append(f"decode_tags_{layout.name}(reader, message)")
        elif layout.flexible:
            steps.append("skip_tags(reader)")
        self._functions += [
            "",
            f"cdef PyObject *decode_{layout.name}(Reader *reader) noexcept:",
            f"    cdef PyObject *message = odr_new({layout.class_name})",
            "    if message != NULL and (",
            "        " + "\n        and ".join(steps),
            "    ):",
            "        return message",
            "    Py_XDECREF(message)",
            "    return NULL",
        ]

    def _read(self, layout: Layout, slot: Slot) -> str:
        """Return the source of a field's value: as read, or its default until its tag is read, if ever."""
        if slot.present and slot.field.tag is None:
            return self._read_value(layout, slot)
        return "PyList_New(0)" if slot.field.default is EMPTY else f"Py_NewRef({self._default(slot.field)})"

    def _read_value(self, layout: Layout, slot: Slot) -> str:
        field = slot.field
        if field.kind in NUMBERS:
            return f"read_{field.kind}(reader)"
        if field.kind == "struct":
            assert slot.element is not None
            return f"decode_{slot.element.name}(reader)"
        arguments = f"reader, {layout.flexible:d}, {field.is_nullable_in(layout.version):d}"
        if field.kind == "array":
            size = size_of(field.of) if slot.element is None else slot.element.size_min()
            return f"read_array({arguments}, {function_of('read', 'decode', slot)}, {size})"
        assert field.kind in ("string", "records")
        return f"read_{field.kind}({arguments})"

    def _add_tags_decoder(self, layout: Layout) -> None:
        self._functions += [
            "",
            f"cdef bint decode_tags_{layout.name}(Reader *reader, PyObject *message) noexcept:",
            "    cdef int64_t count = read_uvarint(reader)",
            "    cdef int64_t tag",
            "    cdef const uint8_t *end",
            "    while count > 0:",
            "        end = read_tag(reader, &tag)",
            "        if end == NULL:",
            "            return 0",
        ]
        for tag, slot in layout.tagged():
            self._functions += [
                f"        if tag == {tag}:",
                f"            if not put(message, {slot.place}, {self._read_value(layout, slot)}):",
                "                return 0",
                "            if reader.at != end:",
                "                return 0",
            ]
        self._functions += [
            "        reader.at = end",
            "        count -= 1",
            "    return count == 0",
        ]

    # Encoders.

    def _add_encoder(self, layout: Layout) -> None:
        steps = [f"odr_is(message, {layout.class_name})"]
        for slot in layout.slots:
            if slot.present and slot.field.tag is None:
                steps.append(self._write_value(layout, slot))
            elif not slot.present and not slot.field.ignorable:
                steps.append(f"{self._is_default(slot)} == 1")
        if layout.tagged():
            self._add_tags_encoder(layout)
            steps.append(f"encode_tags_{layout.name}(writer, message)")
        elif layout.flexible:
            steps.append("write_number(writer, 0, 1)")
        self._functions += [
            "",
            f"cdef bint encode_{layout.name}(Writer *writer, PyObject *message) noexcept:",
            "    return (",
            "        " + "\n        and ".join(steps),
            "    )",
        ]

    def _is_default(self, slot: Slot) -> str:
        """Return the source of a test: 1 if the field has its default, 0 if not, -1 if unknown."""
        value = f"slot(message, {slot.place})"
        if slot.field.default is EMPTY:
            return f"is_empty({value})"
        return f"is_default({value}, {self._default(slot.field)})"

    def _write_value(self, layout: Layout, slot: Slot) -> str:
        field = slot.field
        arguments = f"writer, slot(message, {slot.place})"
        if field.kind in NUMBERS:
            return f"write_{field.kind}({arguments})"
        if field.kind == "struct":
            return f"write_struct({arguments}, {function_of('write', 'encode', slot)})"
        arguments += f", {layout.flexible:d}, {field.is_nullable_in(layout.version):d}"
        if field.kind == "array":
            return f"write_array({arguments}, {function_of('write', 'encode', slot)})"
        assert field.kind in ("string", "records")
        return f"write_{field.kind}({arguments})"

    def _add_tags_encoder(self, layout: Layout) -> None:
        tagged = layout.tagged()
        lines = [
            "",
            f"cdef bint encode_tags_{layout.name}(Writer *writer, PyObject *message) noexcept:",
            "    cdef Py_ssize_t mark",
        ]
        lines += [f"    cdef int unset_{tag} = {self._is_default(slot)}" for tag, slot in tagged]
        lines += [
            f"    if {' or '.join(f'unset_{tag} < 0' for tag, _ in tagged)}:",
            "        return 0",
            f"    if not write_number(writer, {' + '.join(f'(not unset_{tag})' for tag, _ in tagged)}, 1):",
            "        return 0",
        ]
        for tag, slot in tagged:
            assert slot.field.kind != "records", "parts of records cannot be counted"
            lines += [
                f"    if not unset_{tag} and not (",
                f"        begin_tag(writer, {tag}, &mark)",
                f"        and {self._write_value(layout, slot)}",
                "        and end_tag(writer, mark)",
                "    ):",
                "        return 0",
            ]
        self._functions += [*lines, "    return 1"]


def module_of(cls: type[Table]) -> str:
    return cls.__module__.rpartition(".")[2]


def path_of(cls: type[Table]) -> str:
    """Return the source of the class."""
    return f"{module_of(cls)}.{cls.__name__}"


def name_of(cls: type[Table]) -> str:
    """Return a name of the class that is unique among all messages."""
    return f"{module_of(cls)}_{cls.__name__}"


def size_of(element: object) -> int:
    """Return the size of an array's fixed-width elements."""
    assert isinstance(element, Field)
    return Struct(">" + FIXED[element.kind]).size


def function_of(number: str, structure: str, slot: Slot) -> str:
    """Return the function for a structure or for the elements of an array."""
    if slot.element is not None:
        return f"{structure}_{slot.element.name}"
    element = slot.field.of
    assert isinstance(element, Field)
    assert element.kind in NUMBERS
    return f"{number}_{element.kind}"


if __name__ == "__main__":
    sys.stdout.write(HotMessagesGenerator().source())
