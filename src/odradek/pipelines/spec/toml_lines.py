"""Line numbers of the keys of a TOML text.

Python's TOML parser does not report lines. This scanner only finds keys; it is for texts that the parser has
accepted, so it need not detect errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

KeyPath = tuple[str | int, ...]
"""Keys from the outermost inwards; elements of an array of tables are counted from 0."""

_SPACES: Final = re.compile(r"[ \t]*")
_SPACES_AND_COMMENTS: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}\n#]*")
_STRINGS: Final = (
    re.compile(r'"""(?:\\.|[^\\])*?"""+', re.DOTALL),
    re.compile(r"'''.*?'''+", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\])*"'),
    re.compile(r"'[^']*'"),
)


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the line, counted from 1, of each table and key."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    """A position in the text that only advances, and the keys before it."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._position = 0
        self._counts: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_SPACES_AND_COMMENTS)
        while self._position < len(self._text):
            before = self._position
            if self._text[self._position] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_SPACES_AND_COMMENTS)
            if self._position == before:
                return

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self._text.startswith("[[", self._position)
        self._position += 2 if is_array else 1
        path = self._key()
        self._position += 2 if is_array else 1
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
        self._position += 1
        self._skip(_SPACES)
        self._value(path)

    def _key(self) -> KeyPath:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACES)
            parts.append(self._key_part())
            self._skip(_SPACES)
            if not self._text.startswith(".", self._position):
                return tuple(parts)
            self._position += 1

    def _key_part(self) -> str:
        quoted = self._string()
        if quoted is not None:
            return _unquoted(quoted)
        return self._skip(_BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        if self._string() is not None:
            return
        if self._text.startswith(("[", "{"), self._position):
            self._inline(path, is_table=self._text[self._position] == "{")
        else:
            self._skip(_BARE_VALUE)

    def _inline(self, path: KeyPath, *, is_table: bool) -> None:
        """Scan the pairs of an inline table, or the values of an array."""
        self._position += 1
        position = 0
        while self._position < len(self._text):
            self._skip(_SPACES_AND_COMMENTS)
            if self._text.startswith(("]", "}"), self._position):
                self._position += 1
                return
            if is_table:
                self._pair(path)
            else:
                self.lines.setdefault((*path, position), self._line())
                self._value((*path, position))
            position += 1
            self._skip(_SPACES_AND_COMMENTS)
            if self._text.startswith(",", self._position):
                self._position += 1

    def _string(self) -> str | None:
        for kind in _STRINGS:
            match = kind.match(self._text, self._position)
            if match is not None:
                self._position = match.end()
                return match.group()
        return None

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, f"invalid TOML at {self._position}"
        self._position = match.end()
        return match.group()

    def _line(self) -> int:
        return self._text.count("\n", 0, self._position) + 1


def _unquoted(key: str) -> str:
    """Return a quoted key without quotes and escapes."""
    import tomllib

    return next(iter(tomllib.loads(f"{key} = 0")))
