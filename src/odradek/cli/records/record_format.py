r"""Records as text: lines that ``produce`` reads, and what ``consume`` prints.

A template is written as kcat's are: %t topic, %p partition, %o offset, %k key, %s value, %T timestamp, %h
headers, %K and %S the bytes of key and value, %% a percent sign; \n, \t and \r are as in Python.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from odradek.records.codec import ConsumerRecord

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_PART: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)

Header = tuple[str, bytes | None]


class InvalidRecordLine(ValueError):
    """A line of input that is no record."""


class Outgoing(NamedTuple):
    """A record that a line asks for."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def plain_reader(separator: str | None, null: str | None) -> Callable[[bytes], Outgoing]:
    """Reads a value, or key and value with a separator between them. ``null`` is the text that means none."""
    mark = None if null is None else null.encode()
    between = None if separator is None else unescaped(separator).encode()

    def read(line: bytes) -> Outgoing:
        if between is None:
            return Outgoing(None if line == mark else line)
        key, found, value = line.partition(between)
        if not found:
            raise InvalidRecordLine(f"no {separator!r} between key and value")
        return Outgoing(None if value == mark else value, None if key == mark else key)

    return read


def read_json(line: bytes) -> Outgoing:
    """A record as ``consume --format json`` prints it. What is neither text nor null is sent as JSON."""
    try:
        given = json.loads(line)
    except ValueError as wrong:
        raise InvalidRecordLine(f"no JSON: {wrong}") from None
    if not isinstance(given, dict):
        raise InvalidRecordLine("a record is a JSON object")
    headers = given.get("headers") or {}
    listed = (
        headers.items() if isinstance(headers, dict) else ((one["key"], one.get("value")) for one in headers)
    )
    return Outgoing(
        _given_bytes(given, "value"),
        _given_bytes(given, "key"),
        [(name, _bytes(value)) for name, value in listed],
        given.get("partition"),
        given.get("timestamp"),
    )


def _given_bytes(given: dict[str, Any], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    return _bytes(given.get(name)) if encoded is None else base64.b64decode(encoded)


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def unescaped(text: str) -> str:
    r"""``\t`` and the like as the characters they stand for."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


Printer = Callable[["ConsumerRecord"], bytes]


def template_printer(template: str) -> Printer:
    """Prints records as a template says."""
    parts: list[bytes | Callable[[ConsumerRecord], bytes]] = []
    for found in _PART.finditer(template):
        field, escape, text, other = found.groups()
        if field is not None:
            parts.append(b"%" if field == "%" else _field(field))
        elif escape is not None:
            parts.append(_ESCAPES.get(escape, f"\\{escape}").encode())
        else:
            parts.append((text or other).encode())
    return lambda record: b"".join(one if isinstance(one, bytes) else one(record) for one in parts)


_FIELDS: Final[dict[str, Callable[[Any], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: record.key or b"",
    "s": lambda record: record.value or b"",
    "T": lambda record: b"%d" % record.timestamp,
    "h": lambda record: headers_text(record.headers),
    "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
}


def _field(letter: str) -> Callable[[Any], bytes]:
    if letter not in _FIELDS:
        raise InvalidRecordLine(f"%{letter} means nothing in a template; there are %{' %'.join(_FIELDS)} %%")
    return _FIELDS[letter]


def headers_text(headers: Sequence[Header]) -> bytes:
    """name=value, with commas between them."""
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


def text_printer(*, key: bool, headers: bool, timestamp: bool) -> Printer:
    """A value per line, with what is asked for before it, and tabs between."""

    def line(record: ConsumerRecord) -> bytes:
        parts = []
        if timestamp:
            parts.append(b"%d" % record.timestamp)
        if headers:
            parts.append(headers_text(record.headers))
        if key:
            parts.append(b"null" if record.key is None else bytes(record.key))
        parts.append(b"null" if record.value is None else bytes(record.value))
        return b"\t".join(parts) + b"\n"

    return line


def raw_printer(record: ConsumerRecord) -> bytes:
    """The value's bytes, and nothing else."""
    return record.value or b""


def json_printer(record: ConsumerRecord) -> bytes:
    """One JSON object per line. Bytes that are no text stand in base64, under a name that says so."""
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    for name, value in (("key", record.key), ("value", record.value)):
        try:
            shown[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            shown[f"{name}_base64"] = base64.b64encode(value or b"").decode()
    shown["headers"] = [
        {"key": name, "value": None if value is None else value.decode(errors="replace")}
        for name, value in record.headers
    ]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"
