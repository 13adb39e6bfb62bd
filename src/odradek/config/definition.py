"""Definition of settings, and parsing of raw values (Kafka's ConfigDef).

A table of settings is a tuple of ``Setting``. ``parse_settings`` converts raw values to ``Settings``, which
has exactly one typed value for each setting of the table: ``settings[LOG_SEGMENT_BYTES]`` is an ``int``. All
invalid values are reported at once.

Settings are constants and compared by identity: the topic's ``compression.type`` and the broker's have the
same name and are two settings.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigType
from odradek.model.secret import Secret

V = TypeVar("V")


class UpdateMode(enum.Enum):
    """Kafka's update modes of a setting while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(enum.Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class InvalidValue(ValueError):
    """Raised for an invalid value; the message has the setting, the value and the requirement."""


class Setting(Generic[V]):
    """Definition of one setting (Kafka's ConfigKey). Immutable.

    ``parse`` converts a trimmed raw value or raises ``ValueError`` with the requirement ("must be …");
    ``check`` returns the requirement that a value does not meet, or None; ``allowed`` describes the valid
    values on the reference page. An ``inert`` setting is parsed, checked and described, but has no effect. A
    setting with ``unavailable`` would enable a feature, mostly a protection, that is not implemented: the
    text says why, and any value but the default prevents the start. An ``unlisted`` one works but is not
    described, like Kafka's undocumented settings.

    This is not a dataclass: importing and running ``dataclasses`` would cost every command more time than all
    the tables together.
    """

    __slots__ = (
        "allowed",
        "check",
        "default",
        "doc",
        "dynamic",
        "importance",
        "inert",
        "name",
        "parse",
        "type",
        "unavailable",
        "unlisted",
    )

    name: str
    type: ConfigType
    default: V
    importance: Importance
    doc: str
    parse: Callable[[str], V]
    check: Callable[[Any], str | None] | None
    allowed: str
    dynamic: UpdateMode
    inert: bool
    unavailable: str
    unlisted: bool

    def __init__(
        self,
        name: str,
        type: ConfigType,  # noqa: A002
        default: V,
        importance: Importance,
        doc: str,
        parse: Callable[[str], V],
        *,
        check: Callable[[Any], str | None] | None = None,
        allowed: str = "",
        dynamic: UpdateMode = UpdateMode.READ_ONLY,
        inert: bool = False,
        unavailable: str = "",
        unlisted: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "type", type)
        put(self, "default", default)
        put(self, "importance", importance)
        put(self, "doc", doc)
        put(self, "parse", parse)
        put(self, "check", check)
        put(self, "allowed", allowed)
        put(self, "dynamic", dynamic)
        put(self, "inert", inert)
        put(self, "unavailable", unavailable)
        put(self, "unlisted", unlisted)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings are immutable, cannot set {name} of {self.name}")

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def documentation(self) -> str:
        if self.inert:
            return f"Accepted, but has no effect. {self.doc}"
        return f"Not available: only the default is accepted. {self.doc}" if self.unavailable else self.doc

    def parse_value(self, text: str) -> V:
        """Parse and check a raw value; raises InvalidValue."""
        trimmed = text.strip()
        try:
            value = self.parse(trimmed)
        except ValueError as error:
            raise InvalidValue(self.error_message(trimmed, str(error))) from None
        if self.check is not None and (reason := self.check(value)) is not None:
            raise InvalidValue(self.error_message(trimmed, reason))
        return value

    def error_message(self, text: str, reason: str) -> str:
        """Compose requirement, value and advice; ``reason`` has the advice after a semicolon."""
        requirement, semicolon, advice = reason.partition("; ")
        shown = "[hidden]" if self.sensitive else text or "''"
        return f"{self.name} {requirement}, got {shown}{semicolon}{advice}"

    def format_value(self, value: V) -> str | None:
        """Format a value as in DescribeConfigs. A secret is returned in plain text, so hide it before."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return java_double(value)
        return value.reveal() if isinstance(value, Secret) else str(value)


AnySetting: TypeAlias = Setting[Any]
"""Setting of any type."""


class Settings:
    """A value for each setting of a table. Immutable; a lookup is one dictionary access."""

    __slots__ = ("_prefixed", "_values")

    def __init__(
        self,
        values: dict[AnySetting, Any],
        prefixed: dict[tuple[str, AnySetting], Any] | None = None,
    ) -> None:
        self._values = values
        self._prefixed = prefixed or {}

    def __getitem__(self, setting: Setting[V]) -> V:
        value: V = self._values[setting]
        return value

    def for_listener(self, listener: str, setting: Setting[V]) -> V:
        """Return the value for a listener (``listener.name.{listener}.{setting}``), or the general one."""
        key = (listener.lower(), setting)
        value: V = self._prefixed[key] if key in self._prefixed else self._values[setting]
        return value

    def for_mechanism(self, listener: str, mechanism: str, setting: Setting[V]) -> V:
        """Return the value for a SASL mechanism of a listener, for the listener, or the general one.

        The first is ``listener.name.{listener}.{mechanism}.{setting}``, with the mechanism in lower case.
        """
        key = (f"{listener}.{mechanism}".lower(), setting)
        if key in self._prefixed:
            value: V = self._prefixed[key]
            return value
        return self.for_listener(listener, setting)

    def overridden_for(self, listener: str) -> set[AnySetting]:
        """Return the settings with a value for this listener."""
        return {setting for prefix, setting in self._prefixed if prefix == listener.lower()}

    def listeners_overriding(self, setting: AnySetting) -> set[str]:
        """Return the names, in lower case, of the listeners with a value for this setting."""
        return {listener for listener, overridden in self._prefixed if overridden is setting}

    def replace(self, changes: Mapping[AnySetting, Any]) -> Settings:
        """Return a copy with some values replaced, without checks: for derived values."""
        return Settings({**self._values, **changes}, self._prefixed)


LISTENER_PREFIX = "listener.name."


def split_listener_name(name: str) -> tuple[str, str] | None:
    """Split ``listener.name.internal.ssl.key.password`` into ``("internal", "ssl.key.password")``; None for
    other names."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, _, rest = name[len(LISTENER_PREFIX) :].partition(".")
    return (listener, rest) if listener and rest else None


def by_name(table: Iterable[AnySetting]) -> dict[str, AnySetting]:
    return {setting.name: setting for setting in table}


def parse_settings(table: Mapping[str, AnySetting], raw_values: Mapping[str, str]) -> Settings:
    """Parse the values of a table. Missing values get their default, unknown names are ignored.

    Raises ConfigError with one line for each invalid value.
    """
    values: dict[AnySetting, Any] = {setting: setting.default for setting in table.values()}
    prefixed: dict[tuple[str, AnySetting], Any] = {}
    problems: list[str] = []
    for name, text in raw_values.items():
        setting = table.get(name)
        split = None if setting else split_listener_name(name)
        if split is not None and (setting := table.get(split[1])) is None:
            mechanism, _, rest = split[1].partition(".")
            split, setting = (f"{split[0]}.{mechanism.lower()}", rest), table.get(rest)
        if setting is None:
            continue
        try:
            value = setting.parse_value(text)
        except InvalidValue as error:
            prefix = "" if split is None else name.removesuffix(split[1])
            problems.append(f"{prefix}{error}")
            continue
        if split is None:
            values[setting] = value
        else:
            prefixed[split[0], setting] = value
    if problems:
        raise ConfigError(problems)
    return Settings(values, prefixed)


def java_double(value: float) -> str:
    """Format a finite double as Java does: 0.5, 1.0E7, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(power or 0) + len(whole) - 1
    digits = whole + fraction
    if whole == "0":
        digits = fraction.lstrip("0")
        exponent -= len(fraction) - len(digits) + 1
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
