"""On which line each key of a TOML text stands.

Python's parser of TOML knows no lines. This walk over the same text only finds keys; it is for texts that the
parser has taken, and so it need not find mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

KeyPath = tuple[str | int, ...]
"""Keys from the outermost in; the tables of an array of tables are counted from 0."""

_BLANKS: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}\n#]*")
_STRINGS: Final = (
    re.compile(r'"""(?:\\.|[^\\])*?"""+', re.DOTALL),
    re.compile(r"'''.*?'''+", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\])*"'),
    re.compile(r"'[^']*'"),
)


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """The line, counted from 1, of each table and key."""
    walk = _Walk(text)
    walk.document()
    return walk.lines


class _Walk:
    """A position in the text that only goes on, and the keys it has passed."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._counts: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_BETWEEN)
        while self._at < len(self._text):
            before = self._at
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BETWEEN)
            if self._at == before:
                return

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        path = self._key()
        self._at += 2 if is_array else 1
        if is_array:
            count = self._counts[path] = self._counts.get(path, -1) + 1
            path = (*path, count)
        self.lines.setdefault(path, line)
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self._key())
        for length in range(len(table) + 1, len(path) + 1):
            self.lines.setdefault(path[:length], line)
        self._at += 1
        self._skip(_BLANKS)
        self._value(path)

    def _key(self) -> KeyPath:
        parts: list[str | int] = []
        while True:
            self._skip(_BLANKS)
            parts.append(self._key_part())
            self._skip(_BLANKS)
            if not self._text.startswith(".", self._at):
                return tuple(parts)
            self._at += 1

    def _key_part(self) -> str:
        quoted = self._string()
        if quoted is not None:
            return _unquoted(quoted)
        return self._skip(_BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        if self._string() is not None:
            return
        if self._text.startswith(("[", "{"), self._at):
            self._several(path, is_table=self._text[self._at] == "{")
        else:
            self._skip(_BARE_VALUE)

    def _several(self, path: KeyPath, *, is_table: bool) -> None:
        """The pairs of an inline table, or the values of an array."""
        self._at += 1
        position = 0
        while self._at < len(self._text):
            self._skip(_BETWEEN)
            if self._text.startswith(("]", "}"), self._at):
                self._at += 1
                return
            if is_table:
                self._pair(path)
            else:
                self.lines.setdefault((*path, position), self._line())
                self._value((*path, position))
            position += 1
            self._skip(_BETWEEN)
            if self._text.startswith(",", self._at):
                self._at += 1

    def _string(self) -> str | None:
        for kind in _STRINGS:
            found = kind.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
                return found.group()
        return None

    def _skip(self, what: re.Pattern[str]) -> str:
        found = what.match(self._text, self._at)
        assert found is not None, f"no TOML at {self._at}"
        self._at = found.end()
        return found.group()

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1


def _unquoted(key: str) -> str:
    """A quoted key as the parser reads it."""
    import tomllib

    return next(iter(tomllib.loads(f"{key} = 0")))
