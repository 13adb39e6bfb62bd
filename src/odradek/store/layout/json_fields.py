"""Strict decoding of a znode's JSON: typed fields, or ``BadPayload`` with path and field. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from odradek.store.port import BadPayload

T = TypeVar("T")


def write_json(value: Mapping[str, object]) -> bytes:
    """Encode JSON as Kafka does: no spaces, no escapes beyond what JSON needs."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def read_json(path: str, data: bytes) -> Fields:
    """Decode a node's JSON object."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_not_json)
    except (ValueError, RecursionError) as bad:
        raise BadPayload(path, f"not JSON: {bad}") from bad
    return Fields(path, "", value)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


class Fields:
    """A JSON object of a node."""

    __slots__ = ("_name", "_path", "_value")

    def __init__(self, path: str, name: str, value: object) -> None:
        self._path = path
        self._name = name
        if not isinstance(value, dict):
            self.fail(f"{name or 'the payload'} must be an object, got {_shown(value)}")
        self._value: dict[str, Any] = value

    def __contains__(self, field: str) -> bool:
        return self._value.get(field) is not None

    def integer(self, field: str, default: int | None = None) -> int:
        return self._get(field, _integer, default)

    def text(self, field: str, default: str | None = None) -> str:
        return self._get(field, _text, default)

    def number_in_text(self, field: str, default: int | None = None) -> int:
        """Return a number that Kafka writes as a string; a JSON number is accepted as well."""
        return self._get(field, _number_in_text, default)

    def integers(self, field: str) -> tuple[int, ...]:
        return self._get(field, _integers, None)

    def texts(self, field: str) -> tuple[str, ...]:
        return self._get(field, _texts, None)

    def inside(self, field: str) -> Fields:
        """Return a nested object; empty if it is absent or null."""
        value = self._value.get(field)
        return Fields(self._path, self._at(field), {} if value is None else value)

    def objects(self, field: str) -> list[Fields]:
        """Return a required list of objects."""
        items = self._get(field, _list, None)
        return [Fields(self._path, f"{self._at(field)}[{i}]", item) for i, item in enumerate(items)]

    def names(self) -> list[str]:
        return list(self._value)

    def _get(self, field: str, read: Callable[[object], T], default: T | None) -> T:
        value = self._value.get(field)
        if value is None:
            if default is None:
                self.fail(f"{self._at(field)} is missing")
            return default
        try:
            return read(value)
        except ValueError as bad:
            self.fail(f"{self._at(field)} {bad}, got {_shown(value)}")

    def fail(self, problem: str) -> NoReturn:
        raise BadPayload(self._path, problem)

    def _at(self, field: str) -> str:
        return f"{self._name}.{field}" if self._name else field


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be an integer")  # noqa: TRY004 - one kind of error for all decoders
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004
    return value


def _number_in_text(value: object) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError("must be an integer") from None
    return _integer(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("must be a list")  # noqa: TRY004
    return value


def _integers(value: object) -> tuple[int, ...]:
    return tuple(_integer(item) for item in _list(value))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _list(value))
