"""Settings of a broker by the names they may be given under, in files and while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.config import broker
from odradek.config.broker.throttles import THROTTLES_BY_NAME
from odradek.config.definition import Setting, split_listener_name

DYNAMIC_BY_NAME: Final[Mapping[str, Setting[Any]]] = {**broker.BY_NAME, **THROTTLES_BY_NAME}
"""Names that may appear in a broker's dynamic layers."""


def find_broker_setting(name: str) -> Setting[Any] | None:
    """The setting a name stands for, be it plain or with a listener's prefix and a mechanism's."""
    setting = DYNAMIC_BY_NAME.get(name)
    if setting is not None or (split := split_listener_name(name)) is None:
        return setting
    return DYNAMIC_BY_NAME.get(split[1]) or DYNAMIC_BY_NAME.get(split[1].partition(".")[2])
