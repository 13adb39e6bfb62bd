"""The options of one kind of client: what may be given, and which values differ from a setting's default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.config.client.connection import CONNECTION_SETTINGS
from odradek.config.client.metrics import METRICS_SETTINGS
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import Setting, by_name


class ClientConfigDef:
    """Options by name. ``fixed`` holds values for this kind of client where they are not the setting's own.

    Settings of connections that are not in ``by_name`` cannot be given, and still have a value: a consumer
    has no ``max.in.flight.requests.per.connection``, and its connections need one.
    """

    __slots__ = ("by_name", "fixed", "kind")

    def __init__(
        self,
        kind: str,
        own: Iterable[Setting[Any]],
        *,
        without: Iterable[Setting[Any]],
        fixed: Mapping[Setting[Any], Any],
    ) -> None:
        withheld = set(without)
        shared = (*CONNECTION_SETTINGS, *METRICS_SETTINGS, *SECURITY_SETTINGS)
        self.kind = kind
        self.by_name = by_name((*(s for s in shared if s not in withheld), *own))
        self.fixed = fixed

    def defaults(self) -> dict[Setting[Any], Any]:
        """The value of each setting when nothing is given."""
        values = {setting: setting.default for setting in CONNECTION_SETTINGS}
        values.update((setting, setting.default) for setting in self.by_name.values())
        return {**values, **self.fixed}

    def default_of(self, setting: Setting[Any]) -> Any:
        return self.fixed.get(setting, setting.default)


def reject_class_name(keyword: str, what: str) -> Callable[[object], str | None]:
    """A check for options that name Java classes in Kafka: nothing can be loaded by name here."""
    reason = f"Java classes cannot be loaded: give {what} as the keyword argument {keyword}"
    return lambda value: reason if value else None
