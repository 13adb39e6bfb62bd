"""Types of settings: one function each, which declares a setting that is parsed as in Kafka.

Numbers are decimal and bounded by their width, booleans are ``true`` or ``false`` in any case, lists are
separated by commas and optional white space. Class names are kept as strings and never loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, TypeVar, Unpack

from odradek.config.definition import AnySetting, Importance, Setting, UpdateMode
from odradek.model.protocol_enums import ConfigType
from odradek.model.secret import Secret

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

# A setting without a default has values of type ``int | None``, and so on.
N = TypeVar("N", bound=int | None)
F = TypeVar("F", bound=float | None)
S = TypeVar("S", bound=str | None)
L = TypeVar("L", bound=tuple[str, ...] | None)


class Options(TypedDict, total=False):
    """Optional attributes of any setting."""

    check: Callable[[Any], str | None] | None
    allowed: str
    dynamic: UpdateMode
    inert: bool
    unavailable: str
    unlisted: bool


def declared(names: Mapping[str, object]) -> tuple[AnySetting, ...]:
    """Return the settings among a module's names, in order of declaration."""
    return tuple(value for value in names.values() if isinstance(value, Setting))


def boolean(
    name: str, default: bool, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[bool]:
    return Setting(name, ConfigType.BOOLEAN, default, importance, doc, _parse_boolean, **options)


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
    return Setting(name, ConfigType.SHORT, default, importance, doc, _parse_int16, **options)


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
    return Setting(name, ConfigType.INT, default, importance, doc, _parse_int32, **options)


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
    return Setting(name, ConfigType.LONG, default, importance, doc, _parse_int64, **options)


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
    return Setting(name, ConfigType.DOUBLE, default, importance, doc, _parse_double, **options)


def string(
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
    """Declare a string that must be one of ``among``."""
    values = ", ".join(among)
    options.setdefault("allowed", f"one of {values}")
    options.setdefault("check", lambda value: None if value in among else f"must be one of {values}")
    return Setting(name, ConfigType.STRING, default, importance, doc, str, **options)


def string_list(
    name: str,
    default: L,
    importance: Importance,
    doc: str,
    *,
    among: tuple[str, ...] | None = None,
    **options: Unpack[Options],
) -> Setting[L | tuple[str, ...]]:
    """Declare a list of strings; with ``among``, each must be one of these."""
    if among is not None:
        allowed = ", ".join(among)
        options.setdefault("allowed", f"any of {allowed}")
        options.setdefault(
            "check",
            lambda value: None if set(value) <= set(among) else f"must be any of {allowed}",
        )
    return Setting(name, ConfigType.LIST, default, importance, doc, _parse_list, **options)


def class_name(
    name: str, default: S, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[S | str]:
    return Setting(name, ConfigType.CLASS, default, importance, doc, str, **options)


def password(
    name: str, importance: Importance, doc: str, **options: Unpack[Options]
) -> Setting[Secret | None]:
    """Declare a password. It has no default, and its value is never described."""
    return Setting(name, ConfigType.PASSWORD, None, importance, doc, Secret, **options)


def _bound(options: Options, at_least: float | None, at_most: float | None) -> None:
    if at_least is None and at_most is None:
        return

    def check(value: float) -> str | None:
        if at_least is not None and value < at_least:
            return f"must be at least {at_least}"
        if at_most is not None and value > at_most:
            return f"must be at most {at_most}"
        return None

    options["check"] = check
    if at_most is None:
        options["allowed"] = f"at least {at_least}"
    else:
        options["allowed"] = f"at most {at_most}" if at_least is None else f"{at_least} to {at_most}"


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError("must be true or false")
    return lowered == "true"


def _parse_int16(text: str) -> int:
    return _parse_integer(text, SHORT_MAX, 16)


def _parse_int32(text: str) -> int:
    return _parse_integer(text, INT_MAX, 32)


def _parse_int64(text: str) -> int:
    return _parse_integer(text, LONG_MAX, 64)


def _parse_integer(text: str, largest: int, bits: int) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    # A 64-bit number has at most twenty digits; longer texts are not worth converting.
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 20:
        value = int(text)
        if -largest - 1 <= value <= largest:
            return value
    raise ValueError(f"must be an integer of {bits} bits")


def _parse_double(text: str) -> float:
    # Java allows a type suffix, and no underscores.
    digits = text[:-1] if text[-1:] in {"f", "F", "d", "D"} else text
    try:
        value = math.nan if "_" in digits else float(digits)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()
