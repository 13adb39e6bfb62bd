"""Parsers of option values: integers, booleans, durations, timestamps. Pure; they raise ValueError."""

from __future__ import annotations

import datetime
import re
from typing import Any, Final

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNIT_MS: Final = {
    **{"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    **{"second": 1000, "seconds": 1000, "minute": 60_000, "minutes": 60_000},
    **{"hour": 3_600_000, "hours": 3_600_000, "day": 86_400_000, "days": 86_400_000},
}
_INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_bool(text: str) -> bool:
    value = text.strip().lower()
    if value not in {"true", "false"}:
        raise ValueError(f"must be true or false, got {text!r}")
    return value == "true"


def parse_int(text: str, at_least: int) -> int:
    """Parse an integer with a minimum.

    >>> parse_int("12", 1)
    12
    """
    try:
        number = int(text.strip())
    except ValueError:
        raise ValueError(f"must be an integer, got {text!r}") from None
    if not at_least <= number <= _INT64_MAX:
        raise ValueError(f"must be >= {at_least}, got {number}")
    return number


def parse_duration_ms(text: str) -> int:
    """Parse a duration with a unit, as Spark does; a bare number is in milliseconds.

    >>> parse_duration_ms("15m")
    900000
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNIT_MS:
        raise ValueError(f"must be a duration such as 500ms, 30s, 15m or 2h, got {text!r}")
    return int(match[1]) * _UNIT_MS[match[2]]


def parse_timestamp_ms(value: Any) -> int:
    """Parse milliseconds since the epoch, or an ISO 8601 time; a time without an offset is in UTC.

    >>> parse_timestamp_ms("2024-01-01T00:00:00Z") == parse_timestamp_ms(1704067200000)
    True
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"must be milliseconds since 1970 or an ISO time such as 2024-01-31T12:00:00Z, got {value!r}"
        ) from None
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=datetime.UTC)
    since_ms = (aware - _EPOCH) // datetime.timedelta(milliseconds=1)
    if since_ms < 0:
        # ListOffsets uses negative timestamps for the ends of the log.
        raise ValueError(f"must not be before 1970, got {value!r}")
    return since_ms
