"""Parsing of a user's options into a client's settings.

Options come as a mapping, as keyword arguments, or both; under Kafka's name (``linger.ms``) or with
underscores (``linger_ms``); as strings or as Python values. All problems are raised together, as one
``ConfigError``, before the client does anything: a client that exists has valid settings.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from odradek.client.options import other_clients
from odradek.client.options.validation import RULES, ParsedOptions
from odradek.config.client import connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import AnySetting, InvalidValue, Settings
from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigType
from odradek.model.secret import Secret
from odradek.telemetry import events

ALIASES: Final = {
    "metadata.broker.list": "bootstrap.servers",
    # librdkafka
    "sasl.mechanisms": "sasl.mechanism",
    # kafka-python
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
}

_CLIENT_NAMES: Final = {"producer": "a producer", "consumer": "a consumer", "admin": "an admin client"}
_log: Final = events.logger("client")
_client_numbers: Final = {kind: itertools.count(1) for kind in ("producer", "consumer", "admin")}


def read_options(
    table: ClientConfigDef, options: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> Settings:
    """Return the validated settings of a new client, including its ``client.id``; raise ConfigError.

    A value of None counts as not set.

    >>> from odradek.config.client import PRODUCER, producer
    >>> settings = read_options(PRODUCER, {"bootstrap.servers": "localhost:9092"}, {"linger_ms": 5})
    >>> settings[producer.LINGER_MS]
    5
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping of names to values, got {type(options).__name__}")
    parser = _OptionParser(table)
    for name, value in itertools.chain((options or {}).items(), keywords.items()):
        if value is not None:
            parser.add(name, value)
    parser.require_bootstrap_servers()
    settings = Settings(parser.values)
    validation = RULES[table.kind](ParsedOptions(settings, parser.explicit.keys()))
    if problems := parser.problems + validation.problems:
        raise ConfigError(problems)
    for warning in validation.warnings:
        _log.warning("option_adjusted", client=table.kind, reason=warning)
    settings = settings.replace(validation.changes)
    return settings.replace({connection.CLIENT_ID: _client_id(table.kind, settings, parser.explicit)})


class _OptionParser:
    """Options parsed so far: values, the spelling of each explicit option, and problems."""

    def __init__(self, table: ClientConfigDef) -> None:
        self._table = table
        self._invalid: set[AnySetting] = set()
        self.values = table.defaults()
        self.explicit: dict[AnySetting, str] = {}
        self.problems: list[str] = []

    def add(self, name: object, value: object) -> None:
        """Parse one option. Two spellings of the same option must have the same value."""
        if not isinstance(name, str):
            self.problems.append(f"option name must be a str, got {name!r}")
            return
        setting = _find(self._table, name)
        if setting is None:
            self.problems.append(_unknown_option(self._table, name))
            return
        try:
            parsed = setting.parse_value(_text(setting, value))
        except InvalidValue as invalid:
            self.problems.append(str(invalid))
            self._invalid.add(setting)
            return
        if setting in self.explicit and self.values[setting] != parsed:
            first = self.explicit[setting]
            self.problems.append(
                f"{first} and {name} are the same option and must have the same value,"
                f" got {self.values[setting]!r} and {parsed!r}"
            )
            return
        self.explicit[setting] = name
        self.values[setting] = parsed

    def require_bootstrap_servers(self) -> None:
        servers = connection.BOOTSTRAP_SERVERS
        if not self.values[servers] and servers not in self._invalid:
            self.problems.append(
                f"bootstrap.servers is required for {_CLIENT_NAMES[self._table.kind]};"
                ' set it to host:port of one or more brokers, as "localhost:9092"'
            )


def _find(table: ClientConfigDef, name: str) -> AnySetting | None:
    # No name of Kafka's has an underscore in it.
    dotted = name.replace("_", ".") if "." not in name else name
    return table.by_name.get(ALIASES.get(dotted, dotted))


def _text(setting: AnySetting, value: object) -> str:
    """Return a Python value as the text that Kafka would parse; raise InvalidValue for other types."""
    match value:
        case str():
            return _encodable(setting, value)
        case Secret():
            return value.reveal()
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case datetime.timedelta() if setting.name.endswith(".ms"):
            return str(value // datetime.timedelta(milliseconds=1))
        case list() | tuple() | set() | frozenset() if setting.type is ConfigType.LIST:
            return ",".join(_strings(setting, value))
    raise InvalidValue(setting.error_message(repr(value), f"must be a {_accepted_types(setting)}"))


def _accepted_types(setting: AnySetting) -> str:
    if setting.type is ConfigType.LIST:
        return "str or a list of str"
    return "str, number, bool or timedelta" if setting.name.endswith(".ms") else "str, number or bool"


def _encodable(setting: AnySetting, text: str) -> str:
    """Return the text; raise InvalidValue if it has no UTF-8 encoding and would fail every request."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(
            setting.error_message(ascii(text), f"must be valid UTF-8; {error.reason}")
        ) from None
    return text


def _strings(setting: AnySetting, values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            raise InvalidValue(setting.error_message(repr(values), "must be a list of str"))
        yield value


def _unknown_option(table: ClientConfigDef, name: str) -> str:
    if (advice := other_clients.advice(name)) is not None:
        return f"{name} is not an option of {_CLIENT_NAMES[table.kind]}: {advice}"
    from difflib import get_close_matches

    dotted = name.replace("_", ".") if "." not in name else name
    nearest = get_close_matches(dotted.lower(), table.by_name, 1)
    hint = f"; did you mean {nearest[0] if '.' in name else nearest[0].replace('.', '_')}?" if nearest else ""
    return f"{name} is not an option of {_CLIENT_NAMES[table.kind]}{hint}"


def _client_id(kind: str, settings: Settings, explicit: Mapping[AnySetting, str]) -> str:
    """Return the client id that was set, or one like Kafka's that is unique in this process."""
    client_id = settings[connection.CLIENT_ID]
    match kind:
        case "producer":
            # An empty client id is kept, as in Kafka.
            if connection.CLIENT_ID in explicit:
                return client_id
            transactional_id = settings[producer.TRANSACTIONAL_ID]
            number = next(_client_numbers[kind]) if transactional_id is None else transactional_id
            return f"producer-{number}"
        case "consumer":
            group, instance = settings[consumer.GROUP_ID], settings[consumer.GROUP_INSTANCE_ID]
            return client_id or f"consumer-{group or 'null'}-{instance or next(_client_numbers[kind])}"
    return client_id or f"adminclient-{next(_client_numbers[kind])}"
