"""Reading one table of a pipeline's file: each value checked as it is taken, each problem with its line.

A wrong value is a problem and its default goes on, so that one look finds all problems of a file. What nobody
has taken when a table is finished is unknown.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from odradek.pipelines.spec.durations import EXAMPLE, span_ms
from odradek.pipelines.spec.toml_lines import KeyPath

_TYPE_WORDS: Final = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a table"),
    (datetime.datetime, "a time"),
)


class Problems:
    """What is wrong with a file, each with its line."""

    def __init__(self, file_name: str, lines: Mapping[KeyPath, int]) -> None:
        self._file_name = file_name
        self._lines = lines
        self._found: list[tuple[int, str]] = []

    def add(self, path: KeyPath, words: str) -> None:
        """A problem at a key, or at the innermost table around it that is written down."""
        while path and path not in self._lines:
            path = path[:-1]
        line = self._lines.get(path, 1)
        self._found.append((line, f"{self._file_name}:{line}: {words}"))

    def in_order(self) -> list[str]:
        return [words for _, words in sorted(self._found, key=lambda one: one[0])]


class Table:
    """One table. Methods take a key and give its value, or the default if it is missing or wrong."""

    def __init__(self, values: Mapping[str, Any], path: KeyPath, problems: Problems) -> None:
        self._values = values
        self._path = path
        self._problems = problems
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def problem(self, key: str, words: str) -> None:
        """Something is wrong with a key: ``[sink] mode …``."""
        section = f"[{'.'.join(map(str, self._path))}] " if self._path else ""
        self._problems.add((*self._path, key), section + words)

    def text(self, key: str, default: str | None = None) -> str | None:
        given = self._take(key, str)
        if given is not None and not given.strip():
            self.problem(key, f"{key} is empty")
            return default
        return default if given is None else str(given)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        given = self.text(key)
        if given is None:
            return default
        if given not in choices:
            self.problem(key, f"{key} is {given!r}; it must be {_one_of(choices)}{_meant(given, choices)}")
            return default
        return given

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        given = self._take(key, int)
        if given is None:
            return default
        if given < least:
            self.problem(key, f"{key} is {given}; it must be at least {least}")
            return default
        return int(given)

    def ratio(self, key: str, default: float) -> float:
        given = self._take(key, int, float)
        if given is None:
            return default
        if not 0 <= given <= 1:
            self.problem(key, f"{key} is {given}; it is a share of all rows, from 0 to 1")
            return default
        return float(given)

    def flag(self, key: str, default: bool) -> bool:
        given = self._take(key, bool)
        return default if given is None else bool(given)

    def span(self, key: str, default: str, *, least_ms: int = 0) -> str:
        """A span of time, as it was written."""
        given = self.text(key)
        if given is None:
            return default
        length_ms = span_ms(given)
        if length_ms is None or length_ms < least_ms:
            wanted = f"a span of time such as {EXAMPLE}"
            self.problem(key, f"{key} is {given!r}; it must be {wanted}")
            return default
        return given

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        given = self._take(key, list, str)
        if given is None:
            return ()
        found = [given] if isinstance(given, str) else given
        if not found or not all(isinstance(one, str) and one for one in found):
            self.problem(key, f"{key} must be a list of texts, with at least one")
            return ()
        return tuple(found)

    def table(self, key: str) -> Table | None:
        given = self._take(key, dict)
        return None if given is None else Table(given, (*self._path, key), self._problems)

    def mapping(self, key: str) -> Mapping[str, Any]:
        return self._take(key, dict) or {}

    def settings(self, key: str) -> dict[str, str]:
        """Options handed on as texts, with dotted names, quoted or not."""
        found: dict[str, str] = {}
        self._flatten(self.mapping(key), (key,), found)
        return found

    def all_settings(self) -> dict[str, str]:
        """The whole table as options."""
        self._taken = set(self._values)
        found: dict[str, str] = {}
        self._flatten(self._values, (), found)
        return found

    def raw(self, key: str) -> Any:
        """A value of any type."""
        self._taken.add(key)
        return self._values.get(key)

    def require(self, key: str, value: object, words: str) -> None:
        """A problem if nothing was given and nothing else was wrong with it."""
        if not value and key not in self._values:
            self.problem(key, words)

    def refuse(self, keys: Sequence[str], words: str) -> None:
        """Keys that make no sense beside the others."""
        for key in keys:
            if key in self._values and key not in self._taken:
                self._taken.add(key)
                self.problem(key, f"{key} {words}")

    def exclusive(self, keys: Sequence[str]) -> None:
        """At most one of these."""
        given = [key for key in keys if key in self._values]
        for key in given[1:]:
            self.problem(key, f"{key} and {given[0]} exclude each other; keep one")

    def finish(self) -> None:
        """Nothing else may stand here."""
        for key in self._values:
            if key not in self._taken:
                self.problem(key, f"{key} is unknown{_meant(key, sorted(self._taken))}")

    def _take(self, key: str, *types: type) -> Any:
        self._taken.add(key)
        given = self._values.get(key)
        if given is None:
            return None
        if not isinstance(given, types) or (isinstance(given, bool) and bool not in types):
            wanted = " or ".join(words for kind, words in _TYPE_WORDS if kind in types)
            self.problem(key, f"{key} is {_type_words(given)}; it must be {wanted}")
            return None
        return given

    def _flatten(self, values: Mapping[str, Any], path: KeyPath, found: dict[str, str]) -> None:
        for key, value in values.items():
            inner = (*path, key)
            if isinstance(value, dict):
                self._flatten(value, inner, found)
            elif isinstance(value, bool):
                found[_setting_name(inner, path)] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[_setting_name(inner, path)] = str(value)
            else:
                self._problems.add(
                    (*self._path, *inner), f"{key} is {_type_words(value)}; options are texts or numbers"
                )


def _setting_name(inner: KeyPath, path: KeyPath) -> str:
    """``("options", "kafka", "retries")`` is the option ``kafka.retries``."""
    names = inner[1:] if path and path[0] == "options" else inner
    return ".".join(map(str, names))


def _type_words(value: object) -> str:
    return next((words for kind, words in _TYPE_WORDS if isinstance(value, kind)), "something else")


def _one_of(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _meant(given: str, known: Sequence[str]) -> str:
    found = get_close_matches(given, known, 1)
    return f"; did you mean {found[0]}?" if found else ""
