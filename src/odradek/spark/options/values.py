"""What texts of options mean: numbers, truths, durations, times. Pure; what is none raises ValueError."""

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


def truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError(f"must be true or false, not {text!r}")
    return word == "true"


def whole(text: str, at_least: int) -> int:
    """A whole number that is not too small.

    >>> whole("12", 1)
    12
    """
    try:
        number = int(text.strip())
    except ValueError:
        raise ValueError(f"must be a whole number, not {text!r}") from None
    if not at_least <= number <= _INT64_MAX:
        raise ValueError(f"must be at least {at_least}, not {number}")
    return number


def duration_ms(text: str) -> int:
    """Milliseconds of a time with a unit, as Spark reads it; a bare number has milliseconds.

    >>> duration_ms("15m")
    900000
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNIT_MS:
        raise ValueError(f"must be a duration such as 500ms, 30s, 15m or 2h, not {text!r}")
    return int(match[1]) * _UNIT_MS[match[2]]


def timestamp_ms(given: Any) -> int:
    """Milliseconds since the epoch, of a number or of an ISO time; one without an offset is meant in UTC.

    >>> timestamp_ms("2024-01-01T00:00:00Z") == timestamp_ms("1704067200000") == timestamp_ms(1704067200000)
    True
    """
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    text = given.strip() if isinstance(given, str) else ""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        read = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"must be milliseconds since 1970 or an ISO time such as 2024-01-31T12:00:00Z, not {given!r}"
        ) from None
    aware = read if read.tzinfo is not None else read.replace(tzinfo=datetime.UTC)
    since_ms = (aware - _EPOCH) // datetime.timedelta(milliseconds=1)
    if since_ms < 0:
        # Kafka takes negative times for edges of the log.
        raise ValueError(f"must not lie before 1970: {given!r}")
    return since_ms
