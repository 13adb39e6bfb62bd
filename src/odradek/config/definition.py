"""What a setting is, and how texts become checked values.

A table of settings is a tuple of ``Setting``. ``read`` turns given texts into ``Settings``, where each
setting of the table has exactly one value of its own type: ``settings[LOG_SEGMENT_BYTES]`` is an ``int``.
All that is wrong with the texts is reported at once.

Settings are constants and compared by identity: the topic's ``compression.type`` and the broker's share a
name and are two settings.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NoReturn, TypeVar

from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigType

V = TypeVar("V")


class UpdateMode(enum.Enum):
    """Where a setting may be changed while the broker runs; the words are Kafka's update modes."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(enum.Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class InvalidValue(ValueError):
    """A text that is no value of its setting; the words name setting, value and what it must be."""


class Secret:
    """A password or key. Does not show itself: neither ``repr`` nor ``str`` nor formatting gives it away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "[hidden]"


class Setting(Generic[V]):
    """One declared setting; cannot be changed.

    ``parse`` reads a trimmed text or raises ``ValueError`` with the reason; ``check`` gives the reason why a
    value is not allowed, or None. ``allowed`` says the same for readers of the reference page. An ``inert``
    setting is read, checked and described, and changes nothing. One that is ``refused`` promises something,
    protection above all, that is not available: the text says why, and any value but the default stops the
    start. An ``unlisted`` one works and is left out of descriptions, as Kafka does with its undocumented
    settings.

    Written out rather than a dataclass: importing and running that machinery would cost every command of the
    program more than all the tables together.
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
        "refused",
        "type",
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
    refused: str
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
        refused: str = "",
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
        put(self, "refused", refused)
        put(self, "unlisted", unlisted)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self.name} is a constant: its {name} cannot be set")

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def documentation(self) -> str:
        if self.inert:
            return f"Accepted, without effect here. {self.doc}"
        return f"Not available: only the default is accepted. {self.doc}" if self.refused else self.doc

    def read(self, text: str) -> V:
        """The value a text means; raises InvalidValue."""
        trimmed = text.strip()
        try:
            value = self.parse(trimmed)
        except ValueError as wrong:
            raise InvalidValue(self.refusal(trimmed, str(wrong))) from None
        if self.check is not None and (reason := self.check(value)) is not None:
            raise InvalidValue(self.refusal(trimmed, reason))
        return value

    def refusal(self, text: str, reason: str) -> str:
        shown = "[hidden]" if self.sensitive else text
        return f"Invalid value {shown} for configuration {self.name}: {reason}"

    def text(self, value: V) -> str | None:
        """A value as DescribeConfigs writes it; the value of a secret as it is, so hide it before."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return java_double(value)
        return value.reveal() if isinstance(value, Secret) else str(value)


class Settings:
    """A value for each setting of a table. Immutable; looking one up costs one dictionary access."""

    __slots__ = ("_prefixed", "_values")

    def __init__(
        self,
        values: dict[Setting[Any], Any],
        prefixed: dict[tuple[str, Setting[Any]], Any] | None = None,
    ) -> None:
        self._values = values
        self._prefixed = prefixed or {}

    def __getitem__(self, setting: Setting[V]) -> V:
        value: V = self._values[setting]
        return value

    def for_listener(self, listener: str, setting: Setting[V]) -> V:
        """The value given for one listener (``listener.name.{listener}.{setting}``), else the general one."""
        key = (listener.lower(), setting)
        value: V = self._prefixed[key] if key in self._prefixed else self._values[setting]
        return value

    def given_on(self, listener: str) -> set[Setting[Any]]:
        """The settings that were given for one listener."""
        return {given for prefix, given in self._prefixed if prefix == listener.lower()}

    def listeners_overriding(self, setting: Setting[Any]) -> set[str]:
        """Names, in lower case, of the listeners that this setting was given for."""
        return {listener for listener, given in self._prefixed if given is setting}

    def replaced(self, changes: Mapping[Setting[Any], Any]) -> Settings:
        """A copy with some values changed, unchecked: for derived values."""
        return Settings({**self._values, **changes}, self._prefixed)


LISTENER_PREFIX = "listener.name."


def split_listener_name(name: str) -> tuple[str, str] | None:
    """``listener.name.internal.ssl.key.password`` → ``("internal", "ssl.key.password")``; None for others."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, _, rest = name[len(LISTENER_PREFIX) :].partition(".")
    return (listener, rest) if listener and rest else None


def by_name(table: Iterable[Setting[Any]]) -> dict[str, Setting[Any]]:
    return {setting.name: setting for setting in table}


def read(table: Mapping[str, Setting[Any]], given: Mapping[str, str]) -> Settings:
    """Values for a whole table; what is not given has its default, names not in the table are passed over.

    Raises ConfigError with one line for each text that is no value.
    """
    values: dict[Setting[Any], Any] = {setting: setting.default for setting in table.values()}
    prefixed: dict[tuple[str, Setting[Any]], Any] = {}
    problems: list[str] = []
    for name, text in given.items():
        setting = table.get(name)
        split = None if setting else split_listener_name(name)
        if split is not None:
            setting = table.get(split[1])
        if setting is None:
            continue
        try:
            value = setting.read(text)
        except InvalidValue as wrong:
            problems.append(str(wrong).replace(f"configuration {setting.name}:", f"configuration {name}:", 1))
            continue
        if split is None:
            values[setting] = value
        else:
            prefixed[split[0], setting] = value
    if problems:
        raise ConfigError(problems)
    return Settings(values, prefixed)


def java_double(value: float) -> str:
    """A finite double as Java prints it: 0.5, 1.0E7, 1.7976931348623157E308."""
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
