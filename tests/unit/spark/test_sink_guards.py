"""What exactly once needs of Spark's settings."""

from __future__ import annotations

import pytest

from odradek.spark.guards import (
    ADAPTION,
    SPECULATION,
    STATELESS_ADAPTION,
    ExactlyOnceRefused,
    refuse_unsafe_settings,
)

SAFE = {STATELESS_ADAPTION: "false", ADAPTION: "FALSE"}


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("speculation", [{}, {SPECULATION: "false"}])
def test_safe_settings_are_let_pass(is_streaming: bool, speculation: dict[str, str]) -> None:
    refuse_unsafe_settings({**SAFE, **speculation}.get, is_streaming=is_streaming)


@pytest.mark.parametrize("is_streaming", [True, False])
def test_speculation_is_refused(is_streaming: bool) -> None:
    with pytest.raises(ExactlyOnceRefused, match=r"start Spark with spark.speculation=false"):
        refuse_unsafe_settings({**SAFE, SPECULATION: "True"}.get, is_streaming=is_streaming)


@pytest.mark.parametrize("value", [None, "true", ""])
def test_adaption_has_to_be_switched_off_in_so_many_words(value: str | None) -> None:
    settings = {**SAFE, STATELESS_ADAPTION: value}
    with pytest.raises(ExactlyOnceRefused, match=r"stateless.enabled', 'false'\) \(odradek.spark.enable"):
        refuse_unsafe_settings(settings.get, is_streaming=True)
    with pytest.raises(ExactlyOnceRefused, match=r"set\('spark.sql.adaptive.enabled', 'false'\)"):
        refuse_unsafe_settings({ADAPTION: value}.get, is_streaming=False)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ExactlyOnceRefused, match=r"speculation.*adaptive"):
        refuse_unsafe_settings({SPECULATION: "true"}.get, is_streaming=True)
