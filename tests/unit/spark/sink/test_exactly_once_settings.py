"""Spark settings that exactly-once writes require."""

from __future__ import annotations

import pytest

from odradek.spark.sink.exactly_once_settings import (
    ADAPTIVE,
    SPECULATION,
    STATELESS_ADAPTIVE,
    ExactlyOnceUnsupported,
    check_exactly_once_settings,
)

SAFE = {STATELESS_ADAPTIVE: "false", ADAPTIVE: "FALSE"}


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("speculation", [{}, {SPECULATION: "false"}])
def test_safe_settings_are_accepted(is_streaming: bool, speculation: dict[str, str]) -> None:
    check_exactly_once_settings({**SAFE, **speculation}.get, is_streaming=is_streaming)


@pytest.mark.parametrize("is_streaming", [True, False])
def test_speculation_is_rejected(is_streaming: bool) -> None:
    with pytest.raises(ExactlyOnceUnsupported, match=r"start Spark with spark.speculation=false"):
        check_exactly_once_settings({**SAFE, SPECULATION: "True"}.get, is_streaming=is_streaming)


@pytest.mark.parametrize("value", [None, "true", ""])
def test_adaptive_execution_must_be_explicitly_disabled(value: str | None) -> None:
    settings = {**SAFE, STATELESS_ADAPTIVE: value}
    with pytest.raises(ExactlyOnceUnsupported, match=r"stateless.enabled', 'false'\) \(odradek.spark.enable"):
        check_exactly_once_settings(settings.get, is_streaming=True)
    with pytest.raises(ExactlyOnceUnsupported, match=r"set\('spark.sql.adaptive.enabled', 'false'\)"):
        check_exactly_once_settings({ADAPTIVE: value}.get, is_streaming=False)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ExactlyOnceUnsupported, match=r"speculation.*adaptive"):
        check_exactly_once_settings({SPECULATION: "true"}.get, is_streaming=True)
