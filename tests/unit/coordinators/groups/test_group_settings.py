"""Settings of the group coordinator."""

from __future__ import annotations

from odradek.config import broker
from odradek.config.definition import Settings
from odradek.coordinators.groups.settings import GroupSettings

DEFAULTS = Settings({setting: setting.default for setting in broker.BROKER})


def test_defaults_equal_those_of_the_broker() -> None:
    assert GroupSettings.of(DEFAULTS) == GroupSettings()


def test_retention_is_converted_from_minutes() -> None:
    settings = DEFAULTS.replace({broker.OFFSETS_RETENTION_MINUTES: 2, broker.GROUP_MAX_SIZE: 7})
    assert GroupSettings.of(settings) == GroupSettings(offsets_retention_ms=120_000, members_max=7)
