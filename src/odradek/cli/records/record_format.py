r"""Text formats of records: input lines of ``produce``, and output of ``consume``.

Templates have kcat's syntax: %t topic, %p partition, %o offset, %k key, %s value, %T timestamp, %h headers,
%K and %S size of key and value in bytes, %% a percent sign; \n, \t and \r as in Python.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from odradek.records.client.consumer import ConsumerRecord

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_PART: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)

Header = tuple[str, bytes | None]


class InvalidRecordLine(ValueError):
    """Raised for an input line that is not a record, or an invalid template."""


class ParsedRecord(NamedTuple):
    """A record parsed from an input line."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def line_parser(separator: str | None, null: str | None) -> Callable[[bytes], ParsedRecord]:
    """Return a parser of lines: a value, or key and value with a separator. ``null`` stands for None."""
    null_bytes = None if null is None else null.encode()
    separator_bytes = None if separator is None else unescape(separator).encode()

    def parse(line: bytes) -> ParsedRecord:
        if separator_bytes is None:
            return ParsedRecord(None if line == null_bytes else line)
        key, matched, value = line.partition(separator_bytes)
        if not matched:
            raise InvalidRecordLine(f"no separator {separator!r} between key and value")
        return ParsedRecord(None if value == null_bytes else value, None if key == null_bytes else key)

    return parse


def parse_json(line: bytes) -> ParsedRecord:
    """Parse a record as ``consume --format json`` prints it; other values than strings are sent as JSON."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InvalidRecordLine(f"invalid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidRecordLine(f"record must be a JSON object, got {type(fields).__name__}")
    headers = fields.get("headers") or {}
    pairs = (
        headers.items()
        if isinstance(headers, dict)
        else ((header["key"], header.get("value")) for header in headers)
    )
    return ParsedRecord(
        _field_bytes(fields, "value"),
        _field_bytes(fields, "key"),
        [(name, _bytes(value)) for name, value in pairs],
        fields.get("partition"),
        fields.get("timestamp"),
    )


def _field_bytes(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    return _bytes(fields.get(name)) if encoded is None else base64.b64decode(encoded)


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def unescape(text: str) -> str:
    r"""Replace ``\t`` and other escapes by their characters."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text)


Printer = Callable[["ConsumerRecord"], bytes]


def template_printer(template: str) -> Printer:
    """Return a printer for a template."""
    parts: list[bytes | Callable[[ConsumerRecord], bytes]] = []
    for match in _PART.finditer(template):
        field, escape, text, other = match.groups()
        if field is not None:
            parts.append(b"%" if field == "%" else _field(field))
        elif escape is not None:
            parts.append(_ESCAPES.get(escape, f"\\{escape}").encode())
        else:
            parts.append((text or other).encode())
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


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
        known = f"%{' %'.join(_FIELDS)} %%"
        raise InvalidRecordLine(f"template field must be one of {known}, got %{letter}")
    return _FIELDS[letter]


def headers_text(headers: Sequence[Header]) -> bytes:
    """Format headers as comma-separated name=value."""
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


def text_printer(*, key: bool, headers: bool, timestamp: bool) -> Printer:
    """Return a printer of one value per line, after the selected fields, separated by tabs."""

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
    """Return the bytes of the value only."""
    return record.value or b""


def json_printer(record: ConsumerRecord) -> bytes:
    """Return one JSON object per line; bytes that are not UTF-8 as ``key_base64`` and ``value_base64``."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    for name, value in (("key", record.key), ("value", record.value)):
        try:
            fields[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            fields[f"{name}_base64"] = base64.b64encode(value or b"").decode()
    fields["headers"] = [
        {"key": name, "value": None if value is None else value.decode(errors="replace")}
        for name, value in record.headers
    ]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
