"""Spans of time in words, as Spark reads them: ``30 seconds``, ``1 minute``, ``500 ms``."""

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
_SPAN: Final = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")
EXAMPLE: Final = '"30 seconds"'


def span_ms(text: str) -> int | None:
    """How long a span is; None if the words are none."""
    found = _SPAN.fullmatch(text.lower())
    if found is None or found[2] not in _UNITS_MS:
        return None
    return int(found[1]) * _UNITS_MS[found[2]]


def spark_interval(span: int) -> str:
    """A span as Spark takes it for a trigger or a watermark."""
    return f"{span} milliseconds"
