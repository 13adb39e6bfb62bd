"""Checks for settings of Kafka that are not available yet: they prevent the start, with advice."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.authorizer import AUTHORIZER_BY_NAME
from odradek.config.lookup import find_broker_setting


def unavailable_setting_problems(raw_values: Mapping[str, str]) -> list[str]:
    """Return one line for each setting that is not available and differs from its default.

    ``raw_values`` must be valid.
    """
    problems = []
    for name, value in raw_values.items():
        setting = AUTHORIZER_BY_NAME.get(name) or find_broker_setting(name)
        if setting is not None and setting.unavailable and setting.parse_value(value) != setting.default:
            problems.append(f"{name}: {setting.unavailable}")
    return problems
