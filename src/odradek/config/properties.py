"""Reads the text of a Java properties file.

One setting a line: a key, then ``=``, ``:`` or white space, then the value up to the end of the line. Lines
beginning with ``#`` or ``!`` are comments. A line that ends in an odd number of backslashes goes on in the
next, whose leading white space is dropped. Backslash escapes: ``\\t \\n \\r \\f``, ``\\uXXXX``, and any other
character for itself. Of two values for one key the later counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.model.errors import ConfigError

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = frozenset("0123456789abcdefABCDEF")


def parse(text: str) -> dict[str, str]:
    """Keys and values of a file's text. Raises ConfigError naming each line with a broken escape."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text.removeprefix("\ufeff")):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError as wrong:
            problems.append(f"line {number}: {wrong}")
    if problems:
        raise ConfigError(problems)
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without blank ones and comments; numbers count from one."""
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
    """Key and value, still escaped."""
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
                raise ValueError(f"\\u must be followed by four hexadecimal digits, not {digits!r}")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(letter, letter))
    return "".join(out)
