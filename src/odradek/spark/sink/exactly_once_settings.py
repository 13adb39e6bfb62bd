"""What exactly once needs of Spark's settings, checked in each task before it writes. Pure.

Tasks are where it can be checked: Spark shows the session's settings to them, as local properties, and to
nobody in the processes that make writers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

SPECULATION: Final = "spark.speculation"
STATELESS_ADAPTIVE: Final = "spark.sql.adaptive.streaming.stateless.enabled"
ADAPTIVE: Final = "spark.sql.adaptive.enabled"


class ExactlyOnceUnsupported(Exception):
    """The session's settings allow no exactly once."""


def check_exactly_once_settings(setting: Callable[[str], str | None], *, is_streaming: bool) -> None:
    """Raise ExactlyOnceUnsupported, with all that is wrong; ``setting`` gives what was set, or None."""
    if problems := list(_problems(setting, is_streaming=is_streaming)):
        raise ExactlyOnceUnsupported(f"guarantee=exactly_once is not possible: {'; '.join(problems)}")


def _problems(setting: Callable[[str], str | None], *, is_streaming: bool) -> Iterator[str]:
    if _is(setting(SPECULATION), "true"):
        yield (
            f"{SPECULATION} is on, and two attempts of a task at once would end each other's transactions "
            f"for ever: start Spark with {SPECULATION}=false"
        )
    adaption = STATELESS_ADAPTIVE if is_streaming else ADAPTIVE
    if not _is(setting(adaption), "false"):
        again = "a batch that is played again" if is_streaming else "a write that is run again"
        advice = " (odradek.spark.enable(spark) does it)" if is_streaming else ""
        yield (
            f"{adaption} is not switched off, so {again} may deal its rows to other partitions than before, "
            f"where nothing tells that they have been written: "
            f"spark.conf.set('{adaption}', 'false'){advice}"
        )


def _is(value: str | None, wanted: str) -> bool:
    return value is not None and value.strip().lower() == wanted
