"""Lookup of broker settings by name, including names with a listener prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.config import broker
from odradek.config.broker.throttles import THROTTLES_BY_NAME
from odradek.config.definition import AnySetting, split_listener_name

DYNAMIC_BY_NAME: Final[Mapping[str, AnySetting]] = {**broker.BY_NAME, **THROTTLES_BY_NAME}
"""Settings that may be in a broker's dynamic configuration."""


def find_broker_setting(name: str) -> AnySetting | None:
    """Return the setting of a plain name, or of one with a listener and an optional SASL mechanism prefix."""
    setting = DYNAMIC_BY_NAME.get(name)
    if setting is not None or (split := split_listener_name(name)) is None:
        return setting
    return DYNAMIC_BY_NAME.get(split[1]) or DYNAMIC_BY_NAME.get(split[1].partition(".")[2])
