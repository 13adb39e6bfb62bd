"""Typed access to a TOML table of a pipeline file; problems are collected with their lines.

An invalid value is a problem and its default is used, so that all problems are reported together. Keys that
have not been read when a table is finished are unknown.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from odradek.pipelines.spec.durations import EXAMPLE, duration_ms
from odradek.pipelines.spec.toml_lines import KeyPath

_TYPE_NAMES: Final = (
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (dict, "a table"),
    (datetime.datetime, "a time"),
)


class Problems:
    """Problems of a file, each with its line."""

    def __init__(self, file_name: str, lines: Mapping[KeyPath, int]) -> None:
        self._file_name = file_name
        self._lines = lines
        self._messages: list[tuple[int, str]] = []

    def add(self, path: KeyPath, message: str) -> None:
        """Add a problem at a key, or at the innermost enclosing table with a line."""
        while path and path not in self._lines:
            path = path[:-1]
        line = self._lines.get(path, 1)
        self._messages.append((line, f"{self._file_name}:{line}: {message}"))

    def in_order(self) -> list[str]:
        return [message for _, message in sorted(self._messages, key=lambda entry: entry[0])]


class Table:
    """One table. Methods return the value of a key, or the default if it is missing or invalid."""

    def __init__(self, values: Mapping[str, Any], path: KeyPath, problems: Problems) -> None:
        self._values = values
        self._path = path
        self._problems = problems
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def problem(self, key: str, message: str) -> None:
        """Add a problem of a key: ``[sink] mode …``."""
        section = f"[{'.'.join(map(str, self._path))}] " if self._path else ""
        self._problems.add((*self._path, key), section + message)

    def text(self, key: str, default: str | None = None) -> str | None:
        value = self._take(key, str)
        if value is not None and not value.strip():
            self.problem(key, f"{key} must not be empty")
            return default
        return default if value is None else str(value)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self.text(key)
        if value is None:
            return default
        if value not in choices:
            self.problem(key, f"{key} must be {_one_of(choices)}, got {value!r}{_suggestion(value, choices)}")
            return default
        return value

    def integer(self, key: str, default: int, *, least: int = 0) -> int:
        value = self._take(key, int)
        if value is None:
            return default
        if value < least:
            self.problem(key, f"{key} must be >= {least}, got {value}")
            return default
        return int(value)

    def ratio(self, key: str, default: float) -> float:
        value = self._take(key, int, float)
        if value is None:
            return default
        if not 0 <= value <= 1:
            self.problem(key, f"{key} must be between 0 and 1, got {value}")
            return default
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._take(key, bool)
        return default if value is None else bool(value)

    def duration(self, key: str, default: str, *, least_ms: int = 0) -> str:
        """Return a duration as written."""
        value = self.text(key)
        if value is None:
            return default
        length_ms = duration_ms(value)
        if length_ms is None or length_ms < least_ms:
            self.problem(key, f"{key} must be a duration such as {EXAMPLE}, got {value!r}")
            return default
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; a single string is a list of one."""
        value = self._take(key, list, str)
        if value is None:
            return ()
        strings = [value] if isinstance(value, str) else value
        if not strings or not all(isinstance(string, str) and string for string in strings):
            self.problem(key, f"{key} must be a list of one or more strings")
            return ()
        return tuple(strings)

    def table(self, key: str) -> Table | None:
        values = self._take(key, dict)
        return None if values is None else Table(values, (*self._path, key), self._problems)

    def mapping(self, key: str) -> Mapping[str, Any]:
        return self._take(key, dict) or {}

    def settings(self, key: str) -> dict[str, str]:
        """Return options as strings with dotted names; in TOML these may be quoted or nested."""
        return _flatten(self.mapping(key), (key,), self._path, self._problems)

    def all_settings(self) -> dict[str, str]:
        """Return the whole table as options."""
        self._taken = set(self._values)
        return _flatten(self._values, (), self._path, self._problems)

    def raw(self, key: str) -> Any:
        """Return a value of any type."""
        self._taken.add(key)
        return self._values.get(key)

    def require(self, key: str, value: object, message: str) -> None:
        """Add a problem if the key is missing."""
        if not value and key not in self._values:
            self.problem(key, message)

    def reject(self, keys: Sequence[str], message: str) -> None:
        """Add a problem for each of these keys that is set and has not been read."""
        for key in keys:
            if key in self._values and key not in self._taken:
                self._taken.add(key)
                self.problem(key, f"{key} {message}")

    def exclusive(self, keys: Sequence[str]) -> None:
        """Add a problem if more than one of these keys is set."""
        present = [key for key in keys if key in self._values]
        for key in present[1:]:
            self.problem(key, f"{key} and {present[0]} exclude each other; keep one")

    def finish(self) -> None:
        """Add a problem for each key that has not been read."""
        for key in self._values:
            if key not in self._taken:
                self.problem(key, f"unknown key {key}{_suggestion(key, sorted(self._taken))}")

    def _take(self, key: str, *types: type) -> Any:
        self._taken.add(key)
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            expected = " or ".join(name for kind, name in _TYPE_NAMES if kind in types)
            self.problem(key, f"{key} must be {expected}, got {_type_name(value)}")
            return None
        return value


def _flatten(
    values: Mapping[str, Any], path: KeyPath, table_path: KeyPath, problems: Problems
) -> dict[str, str]:
    settings: dict[str, str] = {}
    for key, value in values.items():
        inner = (*path, key)
        if isinstance(value, dict):
            settings |= _flatten(value, inner, table_path, problems)
        elif isinstance(value, bool):
            settings[_setting_name(inner, path)] = str(value).lower()
        elif isinstance(value, str | int | float):
            settings[_setting_name(inner, path)] = str(value)
        else:
            problems.add(
                (*table_path, *inner), f"{key} must be a string or a number, got {_type_name(value)}"
            )
    return settings


def _setting_name(inner: KeyPath, path: KeyPath) -> str:
    """Return the dotted name: ``("options", "kafka", "retries")`` is ``kafka.retries``."""
    names = inner[1:] if path and path[0] == "options" else inner
    return ".".join(map(str, names))


def _type_name(value: object) -> str:
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "another type")


def _one_of(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _suggestion(text: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(text, known, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
