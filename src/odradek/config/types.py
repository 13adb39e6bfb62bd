"""The kinds of settings: one function each, which reads texts the way Kafka does.

Numbers are decimal and bounded by their width, booleans are ``true`` or ``false`` in any case, lists are
separated by commas with spaces around them dropped. Class names are kept as texts and never loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, TypeVar, Unpack

from odradek.config.definition import Importance, Secret, Setting, UpdateMode
from odradek.model.protocol_enums import ConfigType

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308

# A setting may have no default: then its values are ``int | None``, and so on.
N = TypeVar("N", bound=int | None)
F = TypeVar("F", bound=float | None)
S = TypeVar("S", bound=str | None)
L = TypeVar("L", bound=tuple[str, ...] | None)


class Options(TypedDict, total=False):
    """What any kind of setting may say besides."""

    check: Callable[[Any], str | None] | None
    allowed: str
    dynamic: UpdateMode
    inert: bool
    refused: str
    unlisted: bool


def declared(names: Mapping[str, object]) -> tuple[Setting[Any], ...]:
    """The settings among a module's names, in order of declaration."""
    return tuple(value for value in names.values() if isinstance(value, Setting))


def boolean(
    name: str, default: bool, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[bool]:
    return Setting(name, ConfigType.BOOLEAN, default, importance, doc, _read_boolean, **options)


def int16(
    name: str,
    default: N,
    importance: Importance,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    **options: Unpack[Options],
) -> Setting[N | int]:
    _bound(options, at_least, at_most)
    return Setting(name, ConfigType.SHORT, default, importance, doc, _read_int16, **options)


def int32(
    name: str,
    default: N,
    importance: Importance,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    **options: Unpack[Options],
) -> Setting[N | int]:
    _bound(options, at_least, at_most)
    return Setting(name, ConfigType.INT, default, importance, doc, _read_int32, **options)


def int64(
    name: str,
    default: N,
    importance: Importance,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    **options: Unpack[Options],
) -> Setting[N | int]:
    _bound(options, at_least, at_most)
    return Setting(name, ConfigType.LONG, default, importance, doc, _read_int64, **options)


def double(
    name: str,
    default: F,
    importance: Importance,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    **options: Unpack[Options],
) -> Setting[F | float]:
    _bound(options, at_least, at_most)
    return Setting(name, ConfigType.DOUBLE, default, importance, doc, _read_double, **options)


def text(
    name: str, default: S, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[S | str]:
    return Setting(name, ConfigType.STRING, default, importance, doc, str, **options)


def choice(
    name: str,
    default: str,
    importance: Importance,
    doc: str,
    *,
    among: tuple[str, ...],
    **options: Unpack[Options],
) -> Setting[str]:
    """A text that must be one of a few words."""
    words = ", ".join(among)
    options.setdefault("allowed", f"one of {words}")
    options.setdefault("check", lambda value: None if value in among else f"String must be one of: {words}")
    return Setting(name, ConfigType.STRING, default, importance, doc, str, **options)


def words(
    name: str,
    default: L,
    importance: Importance,
    doc: str,
    *,
    among: tuple[str, ...] | None = None,
    **options: Unpack[Options],
) -> Setting[L | tuple[str, ...]]:
    """A list of texts; with ``among``, each must be one of these."""
    if among is not None:
        allowed = ", ".join(among)
        options.setdefault("allowed", f"any of {allowed}")
        options.setdefault(
            "check",
            lambda value: None if set(value) <= set(among) else f"String must be one of: {allowed}",
        )
    return Setting(name, ConfigType.LIST, default, importance, doc, _read_words, **options)


def class_name(
    name: str, default: S, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[S | str]:
    return Setting(name, ConfigType.CLASS, default, importance, doc, str, **options)


def secret(name: str, importance: Importance, doc: str, **options: Unpack[Options]) -> Setting[Secret | None]:
    """A password; never has a default and is never described."""
    return Setting(name, ConfigType.PASSWORD, None, importance, doc, Secret, **options)


def _bound(options: Options, at_least: float | None, at_most: float | None) -> None:
    if at_least is None and at_most is None:
        return

    def check(value: float) -> str | None:
        if at_least is not None and value < at_least:
            return f"Value must be at least {at_least}"
        if at_most is not None and value > at_most:
            return f"Value must be no more than {at_most}"
        return None

    options["check"] = check
    if at_most is None:
        options["allowed"] = f"at least {at_least}"
    else:
        options["allowed"] = f"at most {at_most}" if at_least is None else f"{at_least} to {at_most}"


def _read_boolean(given: str) -> bool:
    lowered = given.lower()
    if lowered not in {"true", "false"}:
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _read_int16(given: str) -> int:
    return _read_integer(given, SHORT_MAX, "SHORT")


def _read_int32(given: str) -> int:
    return _read_integer(given, INT_MAX, "INT")


def _read_int64(given: str) -> int:
    return _read_integer(given, LONG_MAX, "LONG")


def _read_integer(given: str, largest: int, kind: str) -> int:
    digits = given[1:] if given[:1] in {"+", "-"} else given
    # Twenty digits hold every number of 64 bits; longer texts are not worth converting.
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 20:
        value = int(given)
        if -largest - 1 <= value <= largest:
            return value
    raise ValueError(f"Not a number of type {kind}")


def _read_double(given: str) -> float:
    # Java allows a type letter after the digits, and has no underscores in texts.
    digits = given[:-1] if given[-1:] in {"f", "F", "d", "D"} else given
    try:
        value = math.nan if "_" in digits else float(digits)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("Not a number of type DOUBLE")
    return value


def _read_words(given: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in given.split(",")) if given else ()
