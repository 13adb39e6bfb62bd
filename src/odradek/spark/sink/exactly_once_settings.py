"""Spark settings that exactly-once writes require, checked in each task before it writes. Pure.

Only tasks can check them: Spark passes the session's settings to tasks, as local properties, and not to the
processes that create writers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

SPECULATION: Final = "spark.speculation"
STATELESS_ADAPTIVE: Final = "spark.sql.adaptive.streaming.stateless.enabled"
ADAPTIVE: Final = "spark.sql.adaptive.enabled"


class ExactlyOnceUnsupported(Exception):
    """Raised when the session's settings rule out exactly-once writes."""


def check_exactly_once_settings(setting: Callable[[str], str | None], *, is_streaming: bool) -> None:
    """Raise ExactlyOnceUnsupported with all problems; ``setting`` returns a setting's value, or None."""
    if problems := list(_problems(setting, is_streaming=is_streaming)):
        raise ExactlyOnceUnsupported(f"guarantee=exactly_once is not possible: {'; '.join(problems)}")


def _problems(setting: Callable[[str], str | None], *, is_streaming: bool) -> Iterator[str]:
    if _equals(setting(SPECULATION), "true"):
        yield (
            f"{SPECULATION} must be false: two concurrent attempts of a task would fence each other again "
            f"and again; start Spark with {SPECULATION}=false"
        )
    adaptive = STATELESS_ADAPTIVE if is_streaming else ADAPTIVE
    if not _equals(setting(adaptive), "false"):
        replayed = "a replayed batch" if is_streaming else "a repeated write"
        advice = " (odradek.spark.enable(spark) does that)" if is_streaming else ""
        yield (
            f"{adaptive} must be false: {replayed} could put its rows into other partitions than before, "
            f"whose markers do not cover them; "
            f"spark.conf.set('{adaptive}', 'false'){advice}"
        )


def _equals(value: str | None, expected: str) -> bool:
    return value is not None and value.strip().lower() == expected
