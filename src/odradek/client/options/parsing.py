"""From what a user gives to a client's settings.

Options come as a mapping, as keywords, or both; under Kafka's name (``linger.ms``) or its twin with
underscores (``linger_ms``); as texts or as Python values. All that is wrong with them is raised at
once, as one ``ConfigError``, before the client does anything: a client that exists has settings that work.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from odradek.client.options import other_clients
from odradek.client.options.validation import RULES, Given
from odradek.config.client import connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import InvalidValue, Secret, Setting, Settings
from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigType
from odradek.telemetry import events

ALIASES: Final = {"metadata.broker.list": "bootstrap.servers"}

_KINDS: Final = {"producer": "a producer", "consumer": "a consumer", "admin": "an admin client"}
_log: Final = events.logger("client")
_ordinals: Final = {kind: itertools.count(1) for kind in ("producer", "consumer", "admin")}


def read_options(
    table: ClientConfigDef, given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> Settings:
    """Checked settings of a new client, its ``client.id`` among them; raises ConfigError.

    A value of None is as good as none given.

    >>> from odradek.config.client import PRODUCER, producer
    >>> settings = read_options(PRODUCER, {"bootstrap.servers": "localhost:9092"}, {"linger_ms": 5})
    >>> settings[producer.LINGER_MS]
    5
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"options are a mapping of names to values, not {type(given).__name__}")
    reading = _Reading(table)
    for name, value in itertools.chain((given or {}).items(), keywords.items()):
        if value is not None:
            reading.enter(name, value)
    reading.need_servers()
    settings = Settings(reading.values)
    outcome = RULES[table.kind](Given(settings, reading.chosen.keys()))
    if problems := reading.problems + outcome.problems:
        raise ConfigError(problems)
    for adjusted in outcome.notes:
        _log.warning("option_adjusted", client=table.kind, reason=adjusted)
    settings = settings.replace(outcome.changes)
    return settings.replace({connection.CLIENT_ID: _client_id(table.kind, settings, reading.chosen)})


class _Reading:
    """Options read so far: values, the name each was given under, and what is wrong with them."""

    def __init__(self, table: ClientConfigDef) -> None:
        self._table = table
        self._refused: set[Setting[Any]] = set()
        self.values = table.defaults()
        self.chosen: dict[Setting[Any], str] = {}
        self.problems: list[str] = []

    def enter(self, name: object, value: object) -> None:
        """Read one option. A second name of the same option must say the same."""
        if not isinstance(name, str):
            self.problems.append(f"{name!r} is no name of an option: names are texts")
            return
        setting = _find(self._table, name)
        if setting is None:
            self.problems.append(_unknown(self._table, name))
            return
        try:
            read = setting.parse_value(_text(setting, value))
        except InvalidValue as wrong:
            self.problems.append(str(wrong))
            self._refused.add(setting)
            return
        if setting in self.chosen and self.values[setting] != read:
            first = self.chosen[setting]
            self.problems.append(f"{first} and {name} are the same option, given with different values")
            return
        self.chosen[setting] = name
        self.values[setting] = read

    def need_servers(self) -> None:
        servers = connection.BOOTSTRAP_SERVERS
        if not self.values[servers] and servers not in self._refused:
            self.problems.append(
                f"bootstrap.servers is missing: which brokers shall {_KINDS[self._table.kind]} ask first?"
            )


def _find(table: ClientConfigDef, name: str) -> Setting[Any] | None:
    # No name of Kafka's has an underscore in it.
    dotted = name.replace("_", ".") if "." not in name else name
    return table.by_name.get(ALIASES.get(dotted, dotted))


def _text(setting: Setting[Any], value: object) -> str:
    """A Python value as the text that Kafka would read; raises InvalidValue if none can mean it."""
    match value:
        case str():
            return _writable(setting, value)
        case Secret():
            return value.reveal()
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case datetime.timedelta() if setting.name.endswith(".ms"):
            return str(value // datetime.timedelta(milliseconds=1))
        case list() | tuple() | set() | frozenset() if setting.type is ConfigType.LIST:
            return ",".join(_words(setting, value))
    raise InvalidValue(
        setting.error_message(repr(value), f"{type(value).__name__} is no type for this option")
    )


def _writable(setting: Setting[Any], text: str) -> str:
    """Names go into every request: one that is no UTF-8 would fail there, again and again."""
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        raise InvalidValue(
            setting.error_message(ascii(text), f"no UTF-8 can be made of it: {wrong.reason}")
        ) from None
    return text


def _words(setting: Setting[Any], value: Iterable[object]) -> Iterator[str]:
    for word in value:
        if not isinstance(word, str):
            raise InvalidValue(setting.error_message(repr(value), "must be a list of texts"))
        yield word


def _unknown(table: ClientConfigDef, name: str) -> str:
    if (advice := other_clients.advice(name)) is not None:
        return f"{name} is not an option of {_KINDS[table.kind]}: {advice}"
    from difflib import get_close_matches

    dotted = name.replace("_", ".") if "." not in name else name
    nearest = get_close_matches(dotted.lower(), table.by_name, 1)
    hint = f"; did you mean {nearest[0] if '.' in name else nearest[0].replace('.', '_')}?" if nearest else ""
    return f"{name} is not an option of {_KINDS[table.kind]}{hint}"


def _client_id(kind: str, settings: Settings, chosen: Mapping[Setting[Any], str]) -> str:
    """The name given, or one like Kafka's that no other client of this process has."""
    given = settings[connection.CLIENT_ID]
    match kind:
        case "producer":
            # An empty name is a name here, as in Kafka.
            if connection.CLIENT_ID in chosen:
                return given
            name = settings[producer.TRANSACTIONAL_ID]
            return f"producer-{next(_ordinals[kind]) if name is None else name}"
        case "consumer":
            group, instance = settings[consumer.GROUP_ID], settings[consumer.GROUP_INSTANCE_ID]
            return given or f"consumer-{group or 'null'}-{instance or next(_ordinals[kind])}"
    return given or f"adminclient-{next(_ordinals[kind])}"
