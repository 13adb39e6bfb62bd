"""Parsing of Java properties files.

One setting per line: a key, then ``=``, ``:`` or white space, then the value up to the end of the line. Lines
starting with ``#`` or ``!`` are comments. A line that ends in an odd number of backslashes continues on the
next line, whose leading white space is dropped. Backslash escapes: ``\\t \\n \\r \\f``, ``\\uXXXX``, and any
other character for itself. The last value of a key wins.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.model.errors import ConfigError

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = frozenset("0123456789abcdefABCDEF")


def parse(text: str) -> dict[str, str]:
    """Parse the content of a file. Raises ConfigError with one line for each malformed escape."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text.removeprefix("\ufeff")):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise ConfigError(problems)
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers, from 1, and lines with continuations joined, without blank lines and comments."""
    pending: list[str] = []
    first = 0
    for number, physical in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = physical.lstrip(_SPACE)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            pending.append(line[:-1])
            continue
        yield first, "".join([*pending, line])
        pending.clear()
    if pending:
        yield first, "".join(pending)


def _split(line: str) -> tuple[str, str]:
    """Return the escaped key and value."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _SPACE:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_SPACE)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter != "\\" or position == len(text):
            out.append(letter if letter != "\\" else "")
            continue
        letter = text[position]
        position += 1
        if letter == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not _HEX.issuperset(digits):
                raise ValueError(f"\\u must be followed by four hexadecimal digits, got {digits!r}")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(letter, letter))
    return "".join(out)
