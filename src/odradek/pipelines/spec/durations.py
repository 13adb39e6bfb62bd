"""Durations as Spark writes them: ``30 seconds``, ``1 minute``, ``500 ms``."""

from __future__ import annotations

import re
from typing import Final

_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("day", "days"), 86_400_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000),
}
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")
EXAMPLE: Final = '"30 seconds"'


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of a duration; None if it is invalid."""
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS_MS:
        return None
    return int(match[1]) * _UNITS_MS[match[2]]


def spark_interval(interval_ms: int) -> str:
    """Return an interval in Spark's form for a trigger."""
    return f"{interval_ms} milliseconds"
