"""Definition of a client's options, and of values that differ from a setting's default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.config.client.connection import CONNECTION_SETTINGS
from odradek.config.client.metrics import METRICS_SETTINGS
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import AnySetting, by_name


class ClientConfigDef:
    """Options by name. ``fixed`` has this client's values of settings with another default.

    Connection settings that are not in ``by_name`` cannot be set, but still have a value: a consumer has no
    ``max.in.flight.requests.per.connection``, but its connections need one.
    """

    __slots__ = ("by_name", "fixed", "kind")

    def __init__(
        self,
        kind: str,
        settings: Iterable[AnySetting],
        *,
        without: Iterable[AnySetting],
        fixed: Mapping[AnySetting, Any],
    ) -> None:
        excluded = set(without)
        shared = (*CONNECTION_SETTINGS, *METRICS_SETTINGS, *SECURITY_SETTINGS)
        self.kind = kind
        self.by_name = by_name((*(setting for setting in shared if setting not in excluded), *settings))
        self.fixed = fixed

    def defaults(self) -> dict[AnySetting, Any]:
        """Return the default of each setting."""
        values = {setting: setting.default for setting in CONNECTION_SETTINGS}
        values.update((setting, setting.default) for setting in self.by_name.values())
        return {**values, **self.fixed}

    def default_of(self, setting: AnySetting) -> Any:
        return self.fixed.get(setting, setting.default)


def reject_class_name(keyword: str, value_description: str) -> Callable[[object], str | None]:
    """Return a check for options that name Java classes in Kafka: classes are not loaded by name."""
    reason = f"must not name Java classes; pass {value_description} in the keyword argument {keyword}"
    return lambda value: reason if value else None
