"""Checks for settings of Kafka that are not available yet: they prevent the start, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.config.broker.unavailable_reasons import NO_ACCESS_CONTROL
from odradek.config.definition import by_name
from odradek.config.lookup import find_broker_setting
from odradek.config.types import LOW, boolean, string


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


AUTHORIZER_BY_NAME: Final = by_name(
    (
        string(
            "super.users",
            "",
            LOW,
            "Principals that are allowed all operations.",
            unavailable=NO_ACCESS_CONTROL,
        ),
        boolean(
            "allow.everyone.if.no.acl.found",
            True,
            LOW,
            "Whether operations without a matching ACL are allowed.",
            unavailable=NO_ACCESS_CONTROL,
        ),
    )
)
"""Settings of Kafka's authorizers, which are not in Kafka's own table."""
